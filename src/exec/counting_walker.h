// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "exec/kernel_runner.h"
#include "exec/plan.h"
#include "exec/ready_queue.h"
#include "exec/walker.h"

namespace millrace {

// Common base of the walkers that share their nodes through a queue: long nodes go to other threads, and
// asynchronous kernels run without a thread of the step.
class CountingWalker : public Walker {
 protected:
  CountingWalker(const Plan& plan, const StepServices& services, ReadyQueue& queue, StepAbort& abort,
                 const NodeNotes& notes)
      : plan_(plan), services_(services), queue_(queue), abort_(abort), notes_(notes) {}

  using Runner = NodeRunner<>;
  // Whether a node is worth offering to another thread.
  bool Expensive(uint32_t index) const;
  // Whether deferred calls of the step's own thread may wait until such a node, or many others, have run.
  void BeforeLongWork();
  // Starts the asynchronous kernel of a waiting node. `inputs` are not moved.
  void StartAsync(const ReadyItem& item, TensorValue* inputs);
  // An asynchronous kernel has ended: passes its outputs on, and queues nodes that become ready. An error
  // names the node.
  virtual Status FollowAsync(const ReadyItem& item, TensorValue* outputs) = 0;

  const Plan& plan_;
  const StepServices& services_;
  ReadyQueue& queue_;
  StepAbort& abort_;
  const NodeNotes notes_;

 private:
  struct AsyncRun;
  // The queue of the thread that runs the step, or the step around this call; null: there is none.
  ReadyQueue* QueueOfOwnThread() const;
  void FinishAsync(AsyncRun* finished, const Status& status);
};

}  // namespace millrace
