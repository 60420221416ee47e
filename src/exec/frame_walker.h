// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "base/mutex.h"
#include "exec/counting_walker.h"
#include "exec/frame_state.h"
#include "exec/item_stack.h"

namespace millrace {

// Walks one partition with switches or loops. Values are alive or dead: an edge has a dead value because a
// Switch took the other branch. A node with a dead input doesn't run, and its outputs are dead.
//
// A loop runs in a frame. Enter passes a value to its first iteration, NextIteration to the next one, Exit to
// the frame above. Up to `parallel_iterations` iterations run at once; a value for a later one waits. An
// iteration ends when its nodes have run, the loops in it have ended and the iteration before has ended; a
// frame ends when all its Enters have arrived and its iterations have ended. An Exit that is dead in the last
// iteration makes its consumers above dead; in earlier ones it only means that the loop continues.
//
// One mutex guards frames and counts; kernels run outside of it. Without other threads (one thread, no
// asynchronous kernel) it isn't taken.
class FrameWalker final : public CountingWalker {
 public:
  FrameWalker(const Plan& plan, FrameState& state, const StepServices& services, ReadyQueue& queue,
              StepAbort& abort, const NodeNotes& notes);

  void Start(uint32_t first) override;
  void RunFrom(const ReadyItem& item) override;
  Status Finish(bool ok) override;

 private:
  using Item = ItemStack::Item;

  // Returns false when the node hasn't finished (asynchronous, or failed): its successors are not run here.
  bool RunNode(Runner& runner, const Item& item, TensorValue* outputs);
  // The effect of a node without a kernel on its inputs, which it frees.
  Status RunFlow(uint32_t index, TensorValue* inputs, TensorValue* outputs) const;
  Status MoveValues(const PlanNode& node, TensorValue* inputs, TensorValue* outputs) const;
  Status FollowAsync(const ReadyItem& item, TensorValue* outputs) override;
  // Whether an ordinary node has set all outputs that have consumers.
  Status CheckOutputs(uint32_t index, const TensorValue* outputs) const;
  bool Expensive(const Item& item) const { return !item.dead() && CountingWalker::Expensive(item.node()); }
  ReadyItem ToReady(const Item& item) {
    return {.walker = this, .node = item.node(), .dead = item.dead(), .iteration = item.iteration};
  }
  void PushToQueue(ItemStack* items);

  // Under the lock. Each appends to `ready` the nodes that may run now.
  void Follow(const Item& item, TensorValue* outputs, ItemStack* ready);
  void FollowEnter(const Item& item, TensorValue* outputs, ItemStack* ready);
  void FollowNext(const Item& item, TensorValue* outputs, ItemStack* ready);
  // Passes the outputs of `node` to its consumers in `iteration` of their frame.
  void Deliver(uint32_t node, bool dead, TensorValue* outputs, FrameIteration* iteration, ItemStack* ready);
  void DeliverData(const PlanEdge& edge, bool from_enter, TensorValue* value, FrameIteration* iteration,
                   ItemStack* ready);
  static void DropLeftInputs(const PlanNode& merge, FrameIteration* iteration);
  void DeliverControl(uint32_t dst, bool dead, FrameIteration* iteration, ItemStack* ready);
  void DeliverInvariant(uint32_t node, const TensorValue& value, FrameIteration* iteration, ItemStack* ready);
  // An Exit or NextIteration of a dead value: if no iteration follows, the Exit counts.
  void FollowDead(uint32_t node, FrameIteration* iteration);
  void AddReady(uint32_t node, bool dead, FrameIteration* iteration, ItemStack* ready);
  void StartIteration(FrameInstance* frame, ItemStack* ready);
  // Ends finished iterations and frames, from the oldest iteration of `frame` up.
  void Retire(FrameInstance* frame, ItemStack* ready);
  bool OldestIsOver(const FrameInstance& frame) const;
  void EndFrame(FrameInstance* frame, ItemStack* ready);

  TensorValue* InputsOf(const Item& item) const {
    return item.iteration->slots.get() + (plan_.node(item.node()).first_input - item.iteration->first_slot);
  }

  FrameState& state_;
  const bool alone_;  // no other thread can be in this walker
  Mutex mu_;
  std::vector<bool> fetched_;  // by place in Plan::fetches(): the node has run
};

}  // namespace millrace
