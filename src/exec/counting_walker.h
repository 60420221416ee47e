// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "exec/kernel_runner.h"
#include "exec/plan.h"
#include "exec/ready_queue.h"
#include "exec/walker.h"

namespace millrace {

// What the walkers that share their nodes through a queue have in common: nodes that take long go to other
// threads, and asynchronous kernels run while no thread is with them.
class CountingWalker : public Walker {
 protected:
  CountingWalker(const Plan& plan, const StepServices& services, ReadyQueue& queue, StepAbort& abort,
                 const NodeNotes& notes)
      : plan_(plan), services_(services), queue_(queue), abort_(abort), notes_(notes) {}

  using Runner = NodeRunner<>;
  // Whether a node is worth offering to another thread.
  bool Expensive(uint32_t index) const;
  // Calls that the step's own thread has put off need not wait until such a node, or many others, have run.
  void BeforeLongWork();
  // Starts the asynchronous kernel of a node that waits. `inputs` keep their place.
  void StartAsync(const ReadyItem& item, TensorValue* inputs);
  // An asynchronous kernel has ended: hands its outputs on, and puts what becomes ready on the queue. An
  // error names the node.
  virtual Status FollowAsync(const ReadyItem& item, TensorValue* outputs) = 0;

  const Plan& plan_;
  const StepServices& services_;
  ReadyQueue& queue_;
  StepAbort& abort_;
  const NodeNotes notes_;

 private:
  struct AsyncRun;
  // That of the thread which runs the step, or the step around this call; null: there is none.
  ReadyQueue* QueueOfOwnThread() const;
  void FinishAsync(AsyncRun* finished, const Status& status);
};

}  // namespace millrace
