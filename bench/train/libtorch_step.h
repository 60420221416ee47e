// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The baseline of the training benchmarks: the same steps in libtorch's C++ API. No header of torch is seen
// from here, so that the program that includes this compiles without them.
#pragma once

#include <cstdint>
#include <memory>

namespace millrace::bench {

enum class TorchModel {
  kSoftmax,    // 784-10, plain gradient descent
  kMlp,        // 784-200-100-60-30-10 with relu, Adam
  kConv,       // 5x5x1x4, 5x5x4x8 stride 2, 4x4x8x12 stride 2, all SAME, 588-200-10 with relu, Adam
  kConvLarge,  // the same with 6x6x1x6, 5x5x6x12, 4x4x12x24, 1176-200-10
};

struct TorchStepOptions {
  TorchModel model = TorchModel::kSoftmax;
  int64_t batch = 100;
  int threads = 1;            // of torch, which are global to the process: set again before each step
  bool channels_last = true;  // memory format of the images and filters
};

// A model with its data and optimiser. One thread at a time.
class LibtorchStep {
 public:
  explicit LibtorchStep(const TorchStepOptions& options);
  ~LibtorchStep();
  LibtorchStep(const LibtorchStep&) = delete;
  LibtorchStep& operator=(const LibtorchStep&) = delete;

  // Forward, loss, backward, update; returns the loss before the update.
  double RunStep();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace::bench
