// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "exec/counting_walker.h"
#include "exec/step_state.h"

namespace millrace {

// Walks one partition without loops: counts down the missing inputs of each node, runs cheap successors at
// once on the thread that made them ready and queues expensive ones. One object per partition and step; the
// threads of the queue call RunFrom concurrently.
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
  // Returns false when the node hasn't finished (asynchronous, or failed): its successors are not run here.
  bool RunNode(Runner& runner, uint32_t index, TensorValue* outputs);
  Status FollowAsync(const ReadyItem& item, TensorValue* outputs) override;
  // Appends the nodes that became ready by the end of `index`.
  void Propagate(uint32_t index, NodeList* ready);

  StepState& state_;
};

}  // namespace millrace
