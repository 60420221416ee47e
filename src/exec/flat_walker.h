// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "exec/kernel_runner.h"
#include "exec/plan.h"
#include "exec/ready_queue.h"
#include "exec/step_state.h"
#include "exec/walker.h"

namespace millrace {

// Walks one partition without loops: counts down what each node waits for, runs cheap successors at once on
// the thread that made them ready and leaves expensive ones to the queue. One object per partition and step;
// the threads of the queue call RunFrom at the same time.
class FlatWalker final : public Walker {
 public:
  FlatWalker(const Plan& plan, StepState& state, const StepServices& services, ReadyQueue& queue,
             StepAbort& abort, bool measure, StepTrace* trace);

  void Start(uint32_t first) override;
  void RunFrom(const ReadyItem& item) override;
  Status Finish(bool ok) override;

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
  // Frees the inputs of a node that has run and delivers its outputs.
  Status HandOn(uint32_t index, TensorValue* outputs);

  const Plan& plan_;
  StepState& state_;
  const StepServices& services_;
  ReadyQueue& queue_;
  StepAbort& abort_;
  const bool measure_;
  StepTrace* const trace_;
};

}  // namespace millrace
