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

// The call of a kernel that waits for others to run as one with it.
struct BatchTask {
  KernelContext* context = nullptr;
  int64_t rows = 0;
  AsyncOpKernel::Done done;
  int64_t id = 0;  // unlike those of all other tasks
  CancellationManager::Token token = CancellationManager::kInvalidToken;
};

// Puts tasks together until a batch is full or its first task has waited long enough, and has one of a few
// threads run it. Each name of a queue has batches of its own. A task whose step is cancelled before its
// batch runs ends with Cancelled, and so do all that wait when the batcher goes. Threads are started as they
// are needed and joined when it goes. Thread-safe.
class Batcher final : public Resource {
 public:
  struct Options {
    int64_t num_threads = 1;
    int64_t max_batch_size = 1;
    int64_t timeout_micros = 0;
    int64_t max_enqueued_batches = 10;
    std::vector<int64_t> allowed_sizes = {};
  };
  // Ends all tasks of a batch, in the order in which they came. Called without a lock.
  using Run = std::function<void(std::vector<BatchTask>&)>;

  // InvalidArgument names the option that is out of range.
  static Status Check(const Options& options);
  // `functions`: what `run` calls; null if none. REQUIRES: Check(options) is OK.
  Batcher(const Options& options, Run run, const FunctionCaller* functions);
  ~Batcher() override;
  std::string DebugString() const override;
  const FunctionCaller* functions() const override { return functions_; }

  // Takes the task over unless it returns an error: InvalidArgument for one larger than a batch, Unavailable
  // when as many batches wait as may.
  Status Submit(const std::string& queue, BatchTask& task);

 private:
  struct State;
  const FunctionCaller* const functions_;
  const std::shared_ptr<State> state_;
};

// The number of rows that a batch is made to have: the smallest allowed one that is not less.
int64_t PaddedSize(const std::vector<int64_t>& allowed_sizes, int64_t rows);

}  // namespace millrace
