// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "exec/counting_walker.h"
#include "exec/step_state.h"

namespace millrace {

// Walks one partition without loops: counts down what each node waits for, runs cheap successors at once on
// the thread that made them ready and leaves expensive ones to the queue. One object per partition and step;
// the threads of the queue call RunFrom at the same time.
class FlatWalker final : public CountingWalker {
 public:
  FlatWalker(const Plan& plan, StepState& state, const StepServices& services, ReadyQueue& queue,
             StepAbort& abort, const NodeNotes& notes)
      : CountingWalker(plan, services, queue, abort, notes), state_(state) {}

  void Start(uint32_t first) override;
  void RunFrom(const ReadyItem& item) override;
  Status Finish(bool ok) override;

 private:
  using NodeList = std::vector<uint32_t>;
  // Returns false when the node hasn't finished (asynchronous, or failed): nothing follows from it here.
  bool RunNode(Runner& runner, uint32_t index, TensorValue* outputs);
  Status FollowAsync(const ReadyItem& item, TensorValue* outputs) override;
  // Appends the nodes that the end of `index` made ready.
  void Propagate(uint32_t index, NodeList* ready);

  StepState& state_;
};

}  // namespace millrace
