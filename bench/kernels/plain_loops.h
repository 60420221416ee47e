// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The loops that one would write without further thought, compiled with -O3 for the instruction sets that the
// kernels choose from.
#pragma once

#include <cstdint>

#include "kernels/cpu/contract/conv.h"
#include "kernels/cpu/contract/gemm.h"

namespace millrace::bench {

// No transposes.
void LoopGemm(const cpu::GemmShape& shape, const float* a, const float* b, float* c);

// NHWC.
void LoopConv(const cpu::ConvParams& params, const float* image, const float* filter, float* output);
void LoopConvBackpropInput(const cpu::ConvParams& params, const float* filter, const float* output,
                           float* image);
void LoopConvBackpropFilter(const cpu::ConvParams& params, const float* image, const float* output,
                            float* filter);

void LoopExp(const float* x, float* y, int64_t n);
void LoopTanh(const float* x, float* y, int64_t n);
void LoopAdd(const float* a, const float* b, float* y, int64_t n);
// max(x * a + b, 0) * c.
void LoopChain4(const float* x, float* y, int64_t n, float a, float b, float c);
// -max(chain4 - x, b)^2.
void LoopChain8(const float* x, float* y, int64_t n, float a, float b, float c);
float LoopSum(const float* x, int64_t n);
void LoopSoftmax(const float* x, float* y, int64_t rows, int64_t columns);
void LoopTranspose(const float* x, float* y, int64_t rows, int64_t columns);
void LoopAdam(float* var, float* m, float* v, const float* grad, int64_t n);

}  // namespace millrace::bench
