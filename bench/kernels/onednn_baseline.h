// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// oneDNN's products, convolutions and pools on the tensors of the benchmarks. Its headers stay in one unit.
#pragma once

#include <memory>

#include "kernels/cpu/contract/conv.h"
#include "kernels/cpu/contract/gemm.h"
#include "kernels/cpu/contract/pool.h"

namespace millrace::bench {

class BaselineOp {
 public:
  virtual ~BaselineOp() = default;
  virtual void Run() = 0;
};

void SetOneDnnThreads(int threads);

std::unique_ptr<BaselineOp> OneDnnGemm(const cpu::GemmShape& shape, const float* a, const float* b, float* c);

enum class ConvPass { kForward, kBackpropInput, kBackpropFilter };

// The three tensors of a convolution; which one is written depends on the pass.
struct ConvTensors {
  float* image;
  float* filter;
  float* output;
};

// With `blocked` oneDNN chooses the layout of every tensor, and the time to convert them to it is not
// counted: the speed of its kernel alone. Without, tensors are NHWC and filters HWIO as the engine has them;
// images are used as they lie, the filter is brought into the layout of its choice each time.
std::unique_ptr<BaselineOp> OneDnnConv(ConvPass pass, const cpu::ConvParams& params,
                                       const ConvTensors& tensors, bool blocked);

enum class PoolPass { kMax, kMaxGrad, kMaxBoth, kAvg, kAvgGrad };

// The gradient of max uses the positions that the forward pass kept. kMaxGrad doesn't count that pass;
// kMaxBoth does: it gets what the engine's gradient gets, an image and a gradient.
std::unique_ptr<BaselineOp> OneDnnPool(PoolPass pass, const cpu::PoolParams& params, float* image,
                                       float* output);

}  // namespace millrace::bench
