// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "base/cancellation.h"
#include "base/mutex.h"
#include "kernel/rendezvous.h"
#include "millrace/status.h"

namespace millrace {

struct FrameIteration;
class Walker;

// A node that is ready to run.
struct ReadyItem {
  Walker* walker = nullptr;
  uint32_t node = 0;
  bool dead = false;                    // it only passes on that it is dead
  FrameIteration* iteration = nullptr;  // where, in a plan with frames
};

// What the walkers of one step share: the first error, and how to stop the rest. Thread-safe.
class StepAbort {
 public:
  StepAbort(Rendezvous* rendezvous, CancellationManager* cancellation)
      : rendezvous_(rendezvous), cancellation_(cancellation) {}
  bool aborted() const { return aborted_.load(std::memory_order_relaxed); }  // advice: nodes may still start
  // The first error wins; wakes everything that waits within the step.
  void Abort(const Status& status) MR_EXCLUDES(mu_);
  // The same when the step is cancelled from outside: a node that was waiting says more than that.
  void Cancel() MR_EXCLUDES(mu_);
  Status status() const MR_EXCLUDES(mu_);

 private:
  Rendezvous* const rendezvous_;
  CancellationManager* const cancellation_;
  std::atomic<bool> aborted_{false};
  mutable Mutex mu_;
  Status status_ MR_GUARDED_BY(mu_);
  bool cancelled_ MR_GUARDED_BY(mu_) = false;  // and status_ says no more than that
};

// Walks one partition through one step, counting down what each node waits for. The threads of the ready
// queue call RunFrom at the same time.
class Walker {
 public:
  virtual ~Walker() = default;
  // Puts the nodes that wait for nothing on the queue. Those before `first` have run, and their outputs lie
  // in their consumers' slots; in a plan with frames it is 0.
  virtual void Start(uint32_t first) = 0;
  // Runs a node and what becomes ready by it. Called by the queue.
  virtual void RunFrom(const ReadyItem& item) = 0;
  // Nothing of the step runs any more: drops what an unsuccessful one has left, or says what a successful one
  // lacks.
  virtual Status Finish(bool ok) = 0;
};

}  // namespace millrace
