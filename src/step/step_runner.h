// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <string_view>
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
    std::span<const Tensor* const> args = {};  // by feed slot
    std::span<Tensor> rets = {};               // by fetch slot
    ThreadPool* inter_op_pool = nullptr;
    ThreadPool* intra_op_pool = nullptr;
    int64_t timeout_in_ms = 0;                    // 0: none
    RunMetadata* metadata = nullptr;              // null: not traced
    bool report_allocations = false;              // see StepInfo
    Rendezvous* rendezvous = nullptr;             // for a partial run: where its feeds come in
    CancellationManager* cancellation = nullptr;  // when not null, cancelling it cancels the step
    // The step's container, which stays as it is; null: one of the runner's, emptied when the step ends.
    ResourceManager* step_resources = nullptr;
    int64_t step_id = 0;                      // 0: the runner finds one
    int64_t collective_step = 0;              // see StepInfo
    std::string_view collective_leader = {};  // see StepInfo
  };
  using Done = UniqueFunction<void(const Status&)>;

  StepRunner() = default;
  ~StepRunner();
  StepRunner(const StepRunner&) = delete;
  StepRunner& operator=(const StepRunner&) = delete;

  // Runs one step to its end. The first error of any worker wins and aborts the others. Cancelled after
  // Close, DeadlineExceeded when the time is up.
  Status Run(const CompiledStep& step, const Request& request);
  // The same without a thread that waits: begins soon, on a thread of request.inter_op_pool, and calls `done`
  // on one, when nothing of the step runs any more. Until then what the request points to must live.
  // REQUIRES: request.inter_op_pool; neither timeout nor metadata.
  void Start(const CompiledStep& step, const Request& request, Done done) MR_EXCLUDES(started_mu_);
  // Waits until what Start has begun has ended.
  void WaitForStarted() MR_EXCLUDES(started_mu_);
  // Cancels the steps in progress and refuses later ones. Does not wait. Idempotent.
  void Close() MR_EXCLUDES(mu_);
  // Cancels the steps in progress. Does not wait.
  void CancelSteps() MR_EXCLUDES(mu_);
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
    StepIds step_ids;  // of the step that uses it
  };
  // Contexts that were made for threads with the same slot: others don't touch their memory, so that threads
  // which run steps at the same time share no line that is written. A list only grows.
  struct alignas(kCacheApart) List {
    std::atomic<Context*> first{nullptr};
  };
  static constexpr unsigned kSharedLists = 16;
  struct StartedStep;
  static Context* Acquire(List& list);
  // From a list that no other thread takes from.
  static Context* AcquireOwn(List& list);
  static Context* AddContext(List& list);
  static void ForgetLateCancel(Context& context);
  // Makes the context serve the request.
  static StepArgs Begin(Context& context, const CompiledStep& step, const Request& request,
                        CancellationManager::Token* token);
  // Releases the context; returns the client's status.
  Status End(Context* context, const Request& request, CancellationManager::Token token, Status status,
             bool expired);
  static Status RunWorkers(const CompiledStep& step, StepArgs& args);

  std::atomic<bool> closed_{false};
  std::array<List, kOwnedSlots + kSharedLists> lists_;
  List started_list_;  // for steps without a thread, of which there may be many
  Mutex mu_;           // serialises Close
  Mutex started_mu_;
  CondVar started_ended_;
  int64_t started_ MR_GUARDED_BY(started_mu_) = 0;
};

}  // namespace millrace
