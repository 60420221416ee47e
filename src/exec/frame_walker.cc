// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/frame_walker.h"

#include <algorithm>

namespace millrace {
namespace {

// After this number of nodes a thread checks whether another thread waits for it.
constexpr uint32_t kNodesPerTurn = 256;

// Locks unless the walker is alone: the number of threads is known when the step starts, so the compiler's
// analysis of locks does not apply here.
class OptionalLock {
 public:
  OptionalLock(Mutex& mu, bool lock) MR_NO_THREAD_SAFETY_ANALYSIS : mu_(lock ? &mu : nullptr) {
    if (mu_ != nullptr) mu_->Lock();
  }
  ~OptionalLock() MR_NO_THREAD_SAFETY_ANALYSIS {
    if (mu_ != nullptr) mu_->Unlock();
  }
  OptionalLock(const OptionalLock&) = delete;
  OptionalLock& operator=(const OptionalLock&) = delete;

 private:
  Mutex* const mu_;
};

inline void Move(TensorValue* from, TensorValue* to) {
  if (from->kind == TensorValue::Kind::kValue) {
    to->value = std::move(from->value);
    to->kind = TensorValue::Kind::kValue;
    from->kind = TensorValue::Kind::kNone;
    return;
  }
  *to = *from;
  if (from->kind != TensorValue::Kind::kConstant) from->kind = TensorValue::Kind::kNone;
}

inline bool Alive(const TensorValue& value) { return value.kind != TensorValue::Kind::kNone; }

void Own(TensorValue* value) {
  value->value = *value->borrowed;
  value->kind = TensorValue::Kind::kValue;
}

}  // namespace

FrameWalker::FrameWalker(const Plan& plan, FrameState& state, const StepServices& services, ReadyQueue& queue,
                         StepAbort& abort, const NodeNotes& notes)
    : CountingWalker(plan, services, queue, abort, notes),
      state_(state),
      alone_(!queue.parallel() && !plan.may_wait()) {
  fetched_.resize(plan.fetches().size());
}

void FrameWalker::Start(uint32_t /*first*/) {
  FrameIteration* top = state_.StartTop();
  ItemStack items;
  for (const uint32_t root : plan_.roots()) AddReady(root, false, top, &items);
  PushToQueue(&items);
}

Status FrameWalker::Finish(bool ok) {
  if (!ok || !state_.clean()) state_.Drop();
  if (!ok) return Status();
  for (size_t i = 0; i < fetched_.size(); ++i) {
    if (fetched_[i]) continue;
    state_.Drop();  // drops nodes that wait for the same
    const Node& node = plan_.graph_node(plan_.fetches()[i]);
    return errors::InvalidArgument("Retval[", node.Attr<int64_t>("index").value_or(0),
                                   "] does not have value");
  }
  return Status();
}

void FrameWalker::PushToQueue(ItemStack* items) {
  std::vector<ReadyItem> out(items->size());
  for (size_t i = out.size(); i-- > 0;) {
    out[i] = ToReady(items->Pop());
  }
  queue_.Push(out);
}

void FrameWalker::RunFrom(const ReadyItem& first) {
  ItemStack ready;
  ItemStack now_ready;
  ItemStack surplus;
  ready.Push(first.iteration, first.node, first.dead);
  std::vector<TensorValue> own(alone_ ? 0 : plan_.max_outputs());
  TensorValue* const outputs = alone_ ? state_.outputs.data() : own.data();
  KernelContext context(services_, nullptr, {}, {});
  Runner runner(plan_, notes_, context);
  for (uint32_t turn = 1; !ready.empty(); ++turn) {
    // Gives other threads a turn: the loop may run until they have done something.
    if (turn % kNodesPerTurn == 0) {
      BeforeLongWork();
      if (queue_.maybe_ready()) return PushToQueue(&ready);
    }
    const Item item = ready.Pop();
    if (abort_.aborted()) return;
    if (!RunNode(runner, item, outputs)) continue;
    if (!queue_.parallel()) {
      const OptionalLock lock(mu_, !alone_);
      Follow(item, outputs, &ready);
      continue;
    }
    {
      const OptionalLock lock(mu_, true);
      Follow(item, outputs, &now_ready);
    }
    while (!now_ready.empty()) {
      const Item next = now_ready.Pop();
      (Expensive(next) ? surplus : ready).Push(next.iteration, next.node(), next.dead());
    }
    if (ready.empty() && !surplus.empty()) {
      const Item next = surplus.Pop();
      if (plan_.cost_ns(next.node()) < kHandOverNs || !queue_.HandOver(ToReady(next)))
        ready.Push(next.iteration, next.node(), next.dead());
    }
    if (!surplus.empty()) PushToQueue(&surplus);
  }
}

bool FrameWalker::RunNode(Runner& runner, const Item& item, TensorValue* outputs) {
  const uint32_t index = item.node();
  const PlanNode& node = plan_.node(index);
  TensorValue* const inputs = InputsOf(item);
  if (item.dead() && !node.is_transfer) {
    ReleaseInputs(inputs, node.num_inputs);
    return true;
  }
  Status status;
  if (node.flow != Flow::kNone || node.kernel == nullptr) {
    status = RunFlow(index, inputs, outputs);
    if (status.ok()) {
      runner.Skip(index, outputs);
      return true;
    }
  } else {
    runner.context().set_frame(item.iteration->frame->id, item.iteration->index);
    if (CountingWalker::Expensive(index)) [[unlikely]]
      BeforeLongWork();
    const NodeEnd end = runner.Run(index, node, inputs, outputs, item.dead());
    if (end == NodeEnd::kWaits) {
      StartAsync(ToReady(item), inputs);
      return false;
    }
    status = end == NodeEnd::kDone ? CheckOutputs(index, outputs) : runner.status();
    if (status.ok()) return true;
  }
  for (uint32_t i = 0; i < node.num_outputs; ++i) outputs[i] = TensorValue();
  abort_.Abort(status);
  return false;
}

Status FrameWalker::CheckOutputs(uint32_t index, const TensorValue* outputs) const {
  if (plan_.node(index).is_transfer) return Status();
  for (const PlanEdge& e : plan_.data_edges(index)) {
    if (!Alive(outputs[e.output])) [[unlikely]]
      return MissingOutput(plan_, index, e.output);
  }
  return Status();
}

Status FrameWalker::RunFlow(uint32_t index, TensorValue* inputs, TensorValue* outputs) const {
  const PlanNode& node = plan_.node(index);
  Status status;
  if (node.has_ref_inputs) status = ReadReferences(plan_, index, inputs);
  if (status.ok() && node.flow != Flow::kNone) status = MoveValues(node, inputs, outputs);
  if (!status.ok()) [[unlikely]]
    return AddNodeContext(status, plan_.graph_node(index));
  ReleaseInputs(inputs, node.num_inputs);
  return Status();
}

Status FrameWalker::MoveValues(const PlanNode& node, TensorValue* inputs, TensorValue* outputs) const {
  switch (node.flow) {
    case Flow::kSwitch: {
      const Tensor& pred = inputs[1].tensor();
      if (pred.shape().rank() != 0 || !pred.IsInitialized()) {
        return errors::InvalidArgument("The second input must be a scalar, but it has shape ",
                                       pred.shape().ToString());
      }
      Move(&inputs[0], &outputs[pred.scalar<bool>() ? 1 : 0]);
      return Status();
    }
    case Flow::kMerge:
      for (uint32_t i = 0; i < node.num_inputs; ++i) {
        if (!Alive(inputs[i])) continue;
        Move(&inputs[i], &outputs[0]);
        // A later iteration must not find even a constant here.
        inputs[i].kind = TensorValue::Kind::kNone;
        if (node.index_used) {
          Allocator* const host = plan_.host_allocator();
          MR_ASSIGN_OR_RETURN(outputs[1].value,
                              Tensor::Allocate(DataType::kInt32, TensorShape(),
                                               host == nullptr ? *services_.allocator : *host));
          outputs[1].value.scalar<int32_t>() = static_cast<int32_t>(i);
          outputs[1].kind = TensorValue::Kind::kValue;
        }
        return Status();
      }
      return errors::Internal("Merge has no input that is alive");
    case Flow::kTrigger:
      return Status();
    default:
      Move(&inputs[0], &outputs[0]);
      return Status();
  }
}

Status FrameWalker::FollowAsync(const ReadyItem& item, TensorValue* outputs) {
  MR_RETURN_IF_ERROR(CheckOutputs(item.node, outputs));
  ItemStack ready;
  {
    const OptionalLock lock(mu_, !alone_);
    ready.Push(item.iteration, item.node, item.dead);
    Follow(ready.Pop(), outputs, &ready);
  }
  PushToQueue(&ready);
  return Status();
}

void FrameWalker::Follow(const Item& item, TensorValue* outputs, ItemStack* ready) {
  const PlanNode& node = plan_.node(item.node());
  FrameIteration* const iteration = item.iteration;
  FrameInstance* const frame = iteration->frame;
  switch (node.flow) {
    case Flow::kEnter:
      FollowEnter(item, outputs, ready);
      break;
    case Flow::kNext:
      FollowNext(item, outputs, ready);
      break;
    case Flow::kExit:
      if (item.dead()) {
        FollowDead(item.node(), iteration);
      } else if (state_.FirstExit(frame, item.node())) {
        // The contents of the frame do not outlive it.
        if (outputs[0].kind == TensorValue::Kind::kConstant) Own(&outputs[0]);
        Deliver(item.node(), false, outputs, frame->parent, ready);
      }
      break;
    default:
      if (node.num_outputs == 0 && !item.dead() && !plan_.fetches().empty()) {
        const auto fetches = plan_.fetches();
        const auto it = std::lower_bound(fetches.begin(), fetches.end(), item.node());
        if (it != fetches.end() && *it == item.node())
          fetched_[static_cast<size_t>(it - fetches.begin())] = true;
      }
      Deliver(item.node(), item.dead(), outputs, iteration, ready);
      break;
  }
  for (uint32_t i = 0; i < node.num_outputs; ++i) {
    if (Alive(outputs[i])) ReleaseInputs(&outputs[i], 1);
    outputs[i].kind = TensorValue::Kind::kNone;
    outputs[i].is_dead = false;
  }
  if (--iteration->outstanding == 0) Retire(frame, ready);
}

void FrameWalker::FollowEnter(const Item& item, TensorValue* outputs, ItemStack* ready) {
  const PlanNode& node = plan_.node(item.node());
  FrameInstance* child = nullptr;
  for (FrameInstance* c : item.iteration->children) {
    if (c->layout == node.target_frame) child = c;
  }
  if (child == nullptr) child = state_.NewFrame(node.target_frame, item.iteration);
  if (node.constant) {
    TensorValue& value = child->invariants[node.invariant];
    if (!item.dead()) Move(&outputs[0], &value);
    child->invariants_come.push_back(node.invariant);
    child->invariants_alive &= Alive(value);
    // The first iteration can't end until all Enters have arrived, but others may have started.
    for (FrameIteration* iteration : child->iterations) {
      DeliverInvariant(item.node(), value, iteration, ready);
    }
  } else {
    Deliver(item.node(), item.dead(), outputs, child->iterations.front(), ready);
  }
  if (--child->pending_enters == 0) Retire(child, ready);
}

void FrameWalker::FollowNext(const Item& item, TensorValue* outputs, ItemStack* ready) {
  FrameIteration* const iteration = item.iteration;
  FrameInstance* const frame = iteration->frame;
  if (item.dead()) return;
  if (iteration->index == frame->newest) {
    if (frame->iterations.size() >= plan_.frames()[frame->layout].parallel_iterations) {
      frame->deferred.emplace_back(item.node(), std::move(outputs[0]));
      outputs[0].kind = TensorValue::Kind::kNone;
      return;
    }
    StartIteration(frame, ready);
  }
  // The next iteration exists: it can't be over before this one.
  const auto place = static_cast<size_t>(iteration->index + 1 - frame->iterations.front()->index);
  Deliver(item.node(), false, outputs, frame->iterations[place], ready);
}

void FrameWalker::StartIteration(FrameInstance* frame, ItemStack* ready) {
  const FrameLayout& layout = plan_.frames()[frame->layout];
  const bool preset = layout.can_preset && frame->invariants_alive &&
                      frame->invariants_come.size() == layout.invariants.size();
  FrameIteration* const iteration = state_.NewIteration(frame, preset);
  frame->dead_exits.clear();
  for (auto& [node, value] : frame->deferred) Deliver(node, false, &value, iteration, ready);
  frame->deferred.clear();
  if (preset) {
    for (const uint32_t node : layout.invariant_consumers) AddReady(node, false, iteration, ready);
    return;
  }
  for (const uint32_t i : frame->invariants_come) {
    DeliverInvariant(layout.invariants[i], frame->invariants[i], iteration, ready);
  }
}

void FrameWalker::DeliverInvariant(uint32_t node, const TensorValue& value, FrameIteration* iteration,
                                   ItemStack* ready) {
  TensorValue borrowed;
  Borrow(value, &borrowed);
  Deliver(node, !Alive(value), &borrowed, iteration, ready);
}

inline void FrameWalker::Deliver(uint32_t node, bool dead, TensorValue* outputs, FrameIteration* iteration,
                                 ItemStack* ready) {
  const bool from_enter = plan_.node(node).flow == Flow::kEnter;
  for (const PlanEdge& e : plan_.data_edges(node)) {
    DeliverData(e, from_enter, &outputs[e.output], iteration, ready);
  }
  for (const uint32_t dst : plan_.control_edges(node)) DeliverControl(dst, dead, iteration, ready);
}

inline void FrameWalker::DeliverData(const PlanEdge& edge, bool from_enter, TensorValue* value,
                                     FrameIteration* iteration, ItemStack* ready) {
  const PlanNode& to = plan_.node(edge.dst);
  PendingCount& count = iteration->counts[edge.dst - iteration->first_node];
  TensorValue& slot = iteration->slots[edge.slot - iteration->first_slot];
  const bool alive = Alive(*value);
  bool wanted = alive;
  bool is_ready;
  bool dead;
  if (to.flow == Flow::kMerge) {
    if (alive) {
      wanted = (count.waits & 1) != 0;  // only the first live one counts
      if (wanted) DropLeftInputs(to, iteration);
      is_ready = count.waits == 1;
      dead = false;
      count.waits &= ~1;
    } else {
      ++count.dead;
      // A loop that is not entered has no second input to wait for.
      dead = count.dead == static_cast<int32_t>(to.num_inputs) || from_enter;
      is_ready = dead && count.waits == 1;
      if (is_ready) count.waits = 0;  // later inputs are ignored
    }
  } else {
    if (!alive) {
      ++count.dead;
      // Memory that an earlier iteration borrowed may be freed.
      if (slot.kind == TensorValue::Kind::kConstant) slot.kind = TensorValue::Kind::kNone;
    }
    dead = count.dead > 0;
    is_ready = --count.waits == 0;
  }
  if (wanted) {
    if (edge.last_use) {
      Move(value, &slot);
    } else {
      slot = *value;
    }
  }
  if (!is_ready) return;
  if (dead && (to.flow == Flow::kExit || to.flow == Flow::kNext)) {
    // Each iteration of a loop has them: they are not worth a separate turn.
    ReleaseInputs(&slot, 1);
    return FollowDead(edge.dst, iteration);
  }
  AddReady(edge.dst, dead, iteration, ready);
}

// In a malformed loop a node may have received inputs in an earlier use of the iteration without running. An
// ordinary node receives all of them again; a Merge would take a stale one.
inline void FrameWalker::DropLeftInputs(const PlanNode& merge, FrameIteration* iteration) {
  TensorValue* const inputs = iteration->slots.get() + (merge.first_input - iteration->first_slot);
  for (uint32_t i = 0; i < merge.num_inputs; ++i) {
    if (Alive(inputs[i])) [[unlikely]]
      inputs[i] = TensorValue();
  }
}

void FrameWalker::FollowDead(uint32_t node, FrameIteration* iteration) {
  FrameInstance* const frame = iteration->frame;
  if (plan_.node(node).flow == Flow::kExit && iteration->index == frame->newest)
    frame->dead_exits.push_back(node);
}

inline void FrameWalker::DeliverControl(uint32_t dst, bool dead, FrameIteration* iteration,
                                        ItemStack* ready) {
  const PlanNode& to = plan_.node(dst);
  PendingCount& count = iteration->counts[dst - iteration->first_node];
  if (to.flow == Flow::kMerge) {
    count.waits -= 2;
    const bool all_dead = count.dead == static_cast<int32_t>(to.num_inputs);
    if (count.waits == 0 || (count.waits == 1 && all_dead)) {
      count.waits = 0;
      AddReady(dst, all_dead, iteration, ready);
    }
    return;
  }
  if (dead) ++count.dead;
  if (--count.waits == 0) AddReady(dst, count.dead > 0, iteration, ready);
}

inline void FrameWalker::AddReady(uint32_t node, bool dead, FrameIteration* iteration, ItemStack* ready) {
  ++iteration->outstanding;
  ready->Push(iteration, node, dead && plan_.node(node).flow != Flow::kTrigger);
}

bool FrameWalker::OldestIsOver(const FrameInstance& frame) const {
  const FrameIteration& oldest = *frame.iterations.front();
  return oldest.outstanding == 0 && oldest.children.empty() && frame.pending_enters == 0;
}

void FrameWalker::Retire(FrameInstance* frame, ItemStack* ready) {
  // Continues upwards: the end of a frame may end the iteration from which it was entered.
  while (frame->parent != nullptr) {
    while (!frame->iterations.empty() && OldestIsOver(*frame)) {
      state_.FreeOldest(frame);
      if (!frame->deferred.empty()) StartIteration(frame, ready);
    }
    if (!frame->iterations.empty() || frame->pending_enters > 0) return;
    FrameIteration* const above = frame->parent;
    EndFrame(frame, ready);
    if (above->outstanding > 0) return;
    frame = above->frame;
  }
}

void FrameWalker::EndFrame(FrameInstance* frame, ItemStack* ready) {
  FrameIteration* const above = frame->parent;
  TensorValue none;
  for (const uint32_t exit : frame->dead_exits) {
    if (state_.FirstExit(frame, exit)) Deliver(exit, true, &none, above, ready);
  }
  state_.FreeFrame(frame);
}

}  // namespace millrace
