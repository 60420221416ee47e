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
  bool dead = false;                    // it only passes its deadness on
  FrameIteration* iteration = nullptr;  // where, in a plan with frames
};

// State shared by the walkers of one step: the first error, and the means to stop the rest. Thread-safe.
class StepAbort {
 public:
  StepAbort(Rendezvous* rendezvous, CancellationManager* cancellation)
      : rendezvous_(rendezvous), cancellation_(cancellation) {}
  bool aborted() const { return aborted_.load(std::memory_order_relaxed); }  // a hint: nodes may still start
  // Records the first error, and wakes everything that waits within the step.
  void Abort(const Status& status) MR_EXCLUDES(mu_);
  // The same for a step that is cancelled from outside: the error of a waiting node takes precedence.
  void Cancel() MR_EXCLUDES(mu_);
  Status status() const MR_EXCLUDES(mu_);

 private:
  Rendezvous* const rendezvous_;
  CancellationManager* const cancellation_;
  std::atomic<bool> aborted_{false};
  mutable Mutex mu_;
  Status status_ MR_GUARDED_BY(mu_);
  bool cancelled_ MR_GUARDED_BY(mu_) = false;  // and status_ has no other error
};

// Walks one partition through one step, counting down the missing inputs of each node. The threads of the
// ready queue call RunFrom concurrently.
class Walker {
 public:
  virtual ~Walker() = default;
  // Queues the nodes that wait for nothing. Those before `first` have run, and their outputs are in their
  // consumers' slots; in a plan with frames it is 0.
  virtual void Start(uint32_t first) = 0;
  // Runs a node and nodes that become ready by it. Called by the queue.
  virtual void RunFrom(const ReadyItem& item) = 0;
  // To be called when nothing of the step runs any more: drops values of a failed step, or returns the error
  // of a step that did not set all fetches.
  virtual Status Finish(bool ok) = 0;
};

}  // namespace millrace
