// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The baseline of the inference benchmarks. No header of torch is seen from here.
#pragma once

#include <cstdint>
#include <memory>

namespace millrace::bench {

// relu(x W + b) again and again, random weights, in inference mode. One thread at a time.
class LibtorchMlp {
 public:
  // Threads are torch's own.
  LibtorchMlp(int layers, int64_t width, int64_t batch, int threads);
  ~LibtorchMlp();
  LibtorchMlp(const LibtorchMlp&) = delete;
  LibtorchMlp& operator=(const LibtorchMlp&) = delete;

  // Returns one of the results.
  float Run();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace::bench
