// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "kernel/kernel_context.h"
#include "kernel/op_kernel.h"
#include "kernel/resource.h"

namespace millrace {

// A kernel's call that waits to be run in a batch.
struct BatchTask {
  KernelContext* context = nullptr;
  int64_t rows = 0;
  AsyncOpKernel::Done done;
  int64_t id = 0;  // unique
  CancellationManager::Token token = CancellationManager::kInvalidToken;
};

// Collects tasks until a batch is full or the timeout of its first task is over, and runs it in one of a few
// threads. Each queue name has separate batches. A task whose step is cancelled before its batch runs ends
// with Cancelled, and so do all waiting tasks when the batcher is destroyed. Threads are started on demand
// and joined by the destructor. Thread-safe.
class Batcher final : public Resource {
 public:
  struct Options {
    int64_t num_threads = 1;
    int64_t max_batch_size = 1;
    int64_t timeout_micros = 0;
    int64_t max_enqueued_batches = 10;
    std::vector<int64_t> allowed_sizes = {};
  };
  // Ends all tasks of a batch, in order of arrival. Called without a lock.
  using Run = std::function<void(std::vector<BatchTask>&)>;

  // InvalidArgument, with the name of the option that is out of range.
  static Status Check(const Options& options);
  // `functions`: what `run` calls; null if none. REQUIRES: Check(options) is OK.
  Batcher(const Options& options, Run run, const FunctionCaller* functions);
  ~Batcher() override;
  std::string DebugString() const override;
  const FunctionCaller* functions() const override { return functions_; }

  // Takes ownership of the task unless it returns an error: InvalidArgument for one larger than a batch,
  // Unavailable if the maximum number of batches is waiting.
  Status Submit(const std::string& queue, BatchTask& task);

 private:
  struct State;
  const FunctionCaller* const functions_;
  const std::shared_ptr<State> state_;
};

// The padded number of rows of a batch: the smallest allowed one that is not less than `rows`.
int64_t PaddedSize(const std::vector<int64_t>& allowed_sizes, int64_t rows);

}  // namespace millrace
