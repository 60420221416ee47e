// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The baseline of resnet50. No header of torch is seen from here.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace millrace::bench {

// How libtorch runs it, in inference mode.
enum class LibtorchForm {
  kContiguous,    // operator by operator
  kChannelsLast,  // the same with images as NHWC
  kFrozen,        // TorchScript, frozen: batch norms are folded into the filters
  kFrozenLast,    // the same with images as NHWC
  kOptimized      // torch.jit.optimize_for_inference: filters in layouts of oneDNN, too
};

// Weights and images as resnet50.h has them. One thread at a time.
class LibtorchResnet50 {
 public:
  // Threads are torch's own.
  LibtorchResnet50(LibtorchForm form, int64_t batch, int threads);
  ~LibtorchResnet50();
  LibtorchResnet50(const LibtorchResnet50&) = delete;
  LibtorchResnet50& operator=(const LibtorchResnet50&) = delete;

  std::vector<float> Run();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace::bench
