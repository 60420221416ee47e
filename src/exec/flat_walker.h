// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "exec/kernel_runner.h"
#include "exec/plan.h"
#include "exec/ready_queue.h"
#include "exec/step_state.h"

namespace millrace {

// What the walkers of one step share: the first error, and how to stop the rest. Thread-safe.
class StepAbort {
 public:
  StepAbort(Rendezvous* rendezvous, CancellationManager* cancellation)
      : rendezvous_(rendezvous), cancellation_(cancellation) {}
  bool aborted() const { return aborted_.load(std::memory_order_relaxed); }  // advice: nodes may still start
  // The first error wins; wakes everything that waits within the step.
  void Abort(const Status& status) MR_EXCLUDES(mu_);
  Status status() const MR_EXCLUDES(mu_);

 private:
  Rendezvous* const rendezvous_;
  CancellationManager* const cancellation_;
  std::atomic<bool> aborted_{false};
  mutable Mutex mu_;
  Status status_ MR_GUARDED_BY(mu_);
};

// Walks one partition without loops: counts down what each node waits for, runs cheap successors at once on
// the thread that made them ready and leaves expensive ones to the queue. One object per partition and step;
// the threads of the queue call RunFrom at the same time.
class FlatWalker {
 public:
  FlatWalker(const Plan& plan, StepState& state, const StepServices& services, ReadyQueue& queue,
             StepAbort& abort, bool measure, StepTrace* trace);

  // Puts the nodes that wait for nothing on the queue.
  void Start();
  // The same when the nodes before `first` have run and their outputs lie in their consumers' slots.
  void StartAt(uint32_t first);
  // Runs `node` and what becomes ready by it. Called by the queue.
  void RunFrom(uint32_t node);

 private:
  using NodeList = std::vector<uint32_t>;
  struct AsyncRun;
  // Returns false when the node hasn't finished (asynchronous, or failed): nothing follows from it here.
  bool RunNode(uint32_t index, TensorValue* outputs);
  void StartAsync(uint32_t index);
  void FinishAsync(AsyncRun* run, const Status& status);
  // Appends the nodes that the end of `index` made ready.
  void Propagate(uint32_t index, NodeList* ready);
  bool Expensive(uint32_t index) const;
  Status Finish(uint32_t index, TensorValue* outputs);

  const Plan& plan_;
  StepState& state_;
  const StepServices& services_;
  ReadyQueue& queue_;
  StepAbort& abort_;
  const bool measure_;
  StepTrace* const trace_;
};

}  // namespace millrace
