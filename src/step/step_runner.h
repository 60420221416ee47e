// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "base/cancellation.h"
#include "base/mutex.h"
#include "base/thread_slot.h"
#include "kernel/resource.h"
#include "step/step_compiler.h"

namespace millrace {

class Rendezvous;
class ThreadPool;

// Runs steps one after the other or at the same time, and can stop them all. Thread-safe.
class StepRunner {
 public:
  struct Request {
    std::span<const Tensor* const> args;  // by feed slot
    std::span<Tensor> rets;               // by fetch slot
    ThreadPool* inter_op_pool = nullptr;
    ThreadPool* intra_op_pool = nullptr;
    int64_t timeout_in_ms = 0;                    // 0: none
    RunMetadata* metadata = nullptr;              // null: not traced
    bool report_allocations = false;              // see StepArgs
    Rendezvous* rendezvous = nullptr;             // for a partial run: where its feeds come in
    CancellationManager* cancellation = nullptr;  // when not null, cancelling it cancels the step
  };

  StepRunner() = default;
  ~StepRunner();
  StepRunner(const StepRunner&) = delete;
  StepRunner& operator=(const StepRunner&) = delete;

  // Runs one step to its end. The first error of any worker wins and aborts the others. Cancelled after
  // Close, DeadlineExceeded when the time is up.
  Status Run(const CompiledStep& step, const Request& request);
  // Cancels the steps in progress and refuses later ones. Does not wait. Idempotent.
  void Close() MR_EXCLUDES(mu_);
  bool closed() const { return closed_.load(std::memory_order_seq_cst); }

 private:
  // What a step in progress needs beyond the plan's state. Kept for later steps, so that a step allocates
  // nothing; all ever made stay in lists_, so that Close reaches those in use without a list of them on the
  // hot path.
  struct alignas(kCacheApart) Context {
    CancellationManager cancellation;
    ResourceManager step_resources{"the step's container"};  // emptied when a step ends
    std::atomic<bool> in_use{false};
    Context* next = nullptr;
    // Numbers of steps that are set aside for this context; of whoever has it in use.
    int64_t next_step_id = 0;
    int64_t end_step_ids = 0;
  };
  // Contexts that were made for threads with the same slot: others don't touch their memory, so that threads
  // which run steps at the same time share no line that is written. A list only grows.
  struct alignas(kCacheApart) List {
    std::atomic<Context*> first{nullptr};
  };
  static constexpr int kLists = 16;
  static constexpr int64_t kStepIds = 256;  // set aside at a time
  Context* Acquire() MR_EXCLUDES(mu_);
  int64_t NextStepId(Context& context);
  Status RunWorkers(const CompiledStep& step, StepArgs& args);

  std::atomic<bool> closed_{false};
  std::atomic<int64_t> next_step_id_{1};
  std::array<List, kLists> lists_;
  Mutex mu_;  // serialises Close
};

}  // namespace millrace
