// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/frame_walker.h"

#include <algorithm>
#include <memory>

#include "tensor/allocation_owner.h"

namespace millrace {
namespace {

// A node that takes longer than this is worth offering to another thread.
constexpr uint32_t kExpensiveNs = 10'000;

// Held unless the walker is alone: which threads there are is known when the step starts, so the compiler's
// analysis of locks has nothing to follow here.
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

void Move(TensorValue* from, TensorValue* to) {
  *to = std::move(*from);
  if (from->kind != TensorValue::Kind::kConstant) from->kind = TensorValue::Kind::kNone;
}

bool Alive(const TensorValue& value) { return value.kind != TensorValue::Kind::kNone; }

}  // namespace

// What an asynchronous kernel needs while no thread is with it.
struct FrameWalker::AsyncRun {
  AsyncRun(FrameWalker& w, const ReadyItem& i, const PlanNode& node, TensorValue* inputs)
      : walker(w),
        item(i),
        outputs(node.num_outputs),
        context(w.services_, node.kernel, {inputs, node.num_inputs}, outputs) {
    context.set_frame(i.iteration->frame->id, i.iteration->index);
  }
  FrameWalker& walker;
  const ReadyItem item;
  int64_t start_ns = 0;
  std::vector<TensorValue> outputs;
  KernelContext context;
};

FrameWalker::FrameWalker(const Plan& plan, FrameState& state, const StepServices& services, ReadyQueue& queue,
                         StepAbort& abort, bool measure, StepTrace* trace)
    : plan_(plan),
      state_(state),
      services_(services),
      queue_(queue),
      abort_(abort),
      measure_(measure),
      trace_(trace),
      alone_(!queue.parallel() && !plan.may_wait()) {
  fetched_.resize(plan.fetches().size());
}

void FrameWalker::Start(uint32_t /*first*/) {
  FrameIteration* top = state_.StartTop();
  Items items;
  for (const uint32_t root : plan_.roots()) {
    items.push_back({.walker = this, .node = root, .iteration = top});
    ++top->outstanding;
  }
  queue_.Push(items);
}

Status FrameWalker::Finish(bool ok) {
  if (!ok || !state_.clean()) state_.Drop();
  if (!ok) return Status();
  for (size_t i = 0; i < fetched_.size(); ++i) {
    if (fetched_[i]) continue;
    const Node& node = plan_.graph_node(plan_.fetches()[i]);
    return errors::InvalidArgument("Retval[", node.Attr<int64_t>("index").value_or(0),
                                   "] does not have value");
  }
  return Status();
}

bool FrameWalker::Expensive(const ReadyItem& item) const {
  return !item.dead && plan_.node(item.node).kernel != nullptr && plan_.cost_ns(item.node) > kExpensiveNs;
}

void FrameWalker::RunFrom(const ReadyItem& first) {
  Items ready{first};
  Items now_ready;
  Items surplus;
  std::vector<TensorValue> own(alone_ ? 0 : plan_.max_outputs());
  TensorValue* const outputs = alone_ ? state_.outputs.data() : own.data();
  while (!ready.empty()) {
    const ReadyItem item = ready.back();
    ready.pop_back();
    if (abort_.aborted()) return;
    if (!RunNode(item, outputs)) continue;
    if (!queue_.parallel()) {
      const OptionalLock lock(mu_, !alone_);
      Follow(item, outputs, &ready);
      continue;
    }
    now_ready.clear();
    surplus.clear();
    {
      const OptionalLock lock(mu_, true);
      Follow(item, outputs, &now_ready);
    }
    for (const ReadyItem& next : now_ready) (Expensive(next) ? surplus : ready).push_back(next);
    if (ready.empty() && !surplus.empty()) {
      ready.push_back(surplus.back());
      surplus.pop_back();
    }
    queue_.Push(surplus);
  }
}

bool FrameWalker::RunNode(const ReadyItem& item, TensorValue* outputs) {
  const PlanNode& node = plan_.node(item.node);
  TensorValue* const inputs = InputsOf(item);
  if (item.dead && !node.is_transfer) {
    ReleaseInputs(inputs, node.num_inputs);
    return true;
  }
  bool waits = false;
  Status status;
  if (node.has_ref_inputs && !item.dead) status = ReadReferences(plan_, item.node, inputs);
  if (status.ok()) {
    status =
        node.flow != Flow::kNone ? RunFlow(node, inputs, outputs) : Compute(item, inputs, outputs, &waits);
  }
  if (waits) {
    StartAsync(item, inputs);
    return false;
  }
  if (status.ok()) {
    ReleaseInputs(inputs, node.num_inputs);
    status = CheckOutputs(item, outputs);
  } else {
    status = AddNodeContext(status, plan_.graph_node(item.node));
  }
  if (status.ok()) return true;
  for (uint32_t i = 0; i < node.num_outputs; ++i) outputs[i] = TensorValue();
  abort_.Abort(status);
  return false;
}

Status FrameWalker::CheckOutputs(const ReadyItem& item, const TensorValue* outputs) const {
  const PlanNode& node = plan_.node(item.node);
  if (node.flow != Flow::kNone || node.is_transfer) return Status();
  for (const PlanEdge& e : plan_.data_edges(item.node)) {
    if (!Alive(outputs[e.output])) [[unlikely]]
      return MissingOutput(plan_, item.node, e.output);
  }
  return Status();
}

Status FrameWalker::Compute(const ReadyItem& item, TensorValue* inputs, TensorValue* outputs, bool* waits) {
  const PlanNode& node = plan_.node(item.node);
  if (node.kernel == nullptr) return Status();
  if (node.async != nullptr && !node.async->tries()) {
    *waits = true;
    return Status();
  }
  const uint64_t before = measure_ ? CycleCount() : 0;
  const int64_t start_ns = trace_ != nullptr ? trace_->NowNs() : 0;
  KernelContext context(services_, node.kernel, {inputs, node.num_inputs}, {outputs, node.num_outputs});
  context.set_frame(item.iteration->frame->id, item.iteration->index);
  const ScopedAllocationOwner owner(&node.kernel->name());
  Status status;
  if (node.async == nullptr) {
    if (item.dead && node.num_inputs > 0) inputs[0].is_dead = true;
    status = node.kernel->Compute(context);
    if (item.dead && node.num_inputs > 0) inputs[0].is_dead = false;
  } else if (!node.async->TryCompute(context, status)) {
    *waits = true;
    return Status();
  }
  if (measure_) {
    plan_.RecordCost(item.node,
                     static_cast<uint64_t>(static_cast<double>(CycleCount() - before) * NsPerCycle()));
  }
  if (trace_ != nullptr && status.ok()) trace_->Record(plan_, item.node, start_ns, trace_->NowNs(), outputs);
  return status;
}

Status FrameWalker::RunFlow(const PlanNode& node, TensorValue* inputs, TensorValue* outputs) const {
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
        // Even a constant must not be found here by a later iteration.
        inputs[i].kind = TensorValue::Kind::kNone;
        if (node.index_used) {
          MR_ASSIGN_OR_RETURN(outputs[1].value, Tensor::Allocate(DataType::kInt32, TensorShape(),
                                                                 services_.device->allocator()));
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

void FrameWalker::StartAsync(const ReadyItem& item, TensorValue* inputs) {
  const PlanNode& node = plan_.node(item.node);
  queue_.BeginAsync();
  auto run = std::make_unique<AsyncRun>(*this, item, node, inputs);
  if (trace_ != nullptr) run->start_ns = trace_->NowNs();
  KernelContext& context = run->context;
  node.async->ComputeAsync(context,
                           [r = run.release()](const Status& status) { r->walker.FinishAsync(r, status); });
}

void FrameWalker::FinishAsync(AsyncRun* finished, const Status& status) {
  const std::unique_ptr<AsyncRun> run(finished);
  const ReadyItem item = run->item;
  // The step, and this walker with it, may end as soon as EndAsync lets it.
  const RefPtr<ReadyQueue> queue = ShareRef(&queue_);
  const Status result = status.ok() ? CheckOutputs(item, run->outputs.data())
                                    : AddNodeContext(status, plan_.graph_node(item.node));
  if (!result.ok()) {
    abort_.Abort(result);
  } else {
    if (trace_ != nullptr)
      trace_->Record(plan_, item.node, run->start_ns, trace_->NowNs(), run->outputs.data());
    ReleaseInputs(InputsOf(item), plan_.node(item.node).num_inputs);
    Items ready;
    {
      const OptionalLock lock(mu_, !alone_);
      Follow(item, run->outputs.data(), &ready);
    }
    queue->Push(ready);
  }
  queue->EndAsync();
}

void FrameWalker::Follow(const ReadyItem& item, TensorValue* outputs, Items* ready) {
  const PlanNode& node = plan_.node(item.node);
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
      if (!item.dead) {
        if (state_.FirstExit(frame, item.node)) Deliver(item.node, false, outputs, frame->parent, ready);
      } else if (iteration->index == frame->newest) {
        frame->dead_exits.push_back(item.node);
      }
      break;
    default:
      if (node.num_outputs == 0 && !item.dead && !plan_.fetches().empty()) {
        const auto fetches = plan_.fetches();
        const auto it = std::lower_bound(fetches.begin(), fetches.end(), item.node);
        if (it != fetches.end() && *it == item.node)
          fetched_[static_cast<size_t>(it - fetches.begin())] = true;
      }
      Deliver(item.node, item.dead, outputs, iteration, ready);
      break;
  }
  for (uint32_t i = 0; i < node.num_outputs; ++i) {
    if (Alive(outputs[i])) ReleaseInputs(&outputs[i], 1);
    outputs[i].kind = TensorValue::Kind::kNone;
    outputs[i].is_dead = false;
  }
  if (--iteration->outstanding == 0) Retire(frame, ready);
}

void FrameWalker::FollowEnter(const ReadyItem& item, TensorValue* outputs, Items* ready) {
  const PlanNode& node = plan_.node(item.node);
  FrameInstance* child = nullptr;
  for (FrameInstance* c : item.iteration->children) {
    if (c->layout == node.target_frame) child = c;
  }
  if (child == nullptr) child = state_.NewFrame(node.target_frame, item.iteration);
  if (node.constant) {
    child->invariants.emplace_back(item.node, item.dead ? TensorValue() : outputs[0]);
    // Until all Enters have come, the first iteration can't end, but others may have started.
    for (FrameIteration* iteration : child->iterations) {
      DeliverCopy(item.node, child->invariants.back().second, iteration, ready);
    }
  } else {
    Deliver(item.node, item.dead, outputs, child->iterations.front(), ready);
  }
  if (--child->pending_enters == 0) Retire(child, ready);
}

void FrameWalker::FollowNext(const ReadyItem& item, TensorValue* outputs, Items* ready) {
  FrameIteration* const iteration = item.iteration;
  FrameInstance* const frame = iteration->frame;
  if (item.dead) return;
  if (iteration->index == frame->newest) {
    if (frame->iterations.size() >= plan_.frames()[frame->layout].parallel_iterations) {
      frame->deferred.emplace_back(item.node, std::move(outputs[0]));
      outputs[0].kind = TensorValue::Kind::kNone;
      return;
    }
    StartIteration(frame, ready);
  }
  // The iteration after this one is there: it can't be over before this one.
  const auto place = static_cast<size_t>(iteration->index + 1 - frame->iterations.front()->index);
  Deliver(item.node, false, outputs, frame->iterations[place], ready);
}

void FrameWalker::StartIteration(FrameInstance* frame, Items* ready) {
  FrameIteration* iteration = state_.NewIteration(frame);
  frame->dead_exits.clear();
  for (auto& [node, value] : frame->deferred) Deliver(node, false, &value, iteration, ready);
  frame->deferred.clear();
  for (const auto& [node, value] : frame->invariants) DeliverCopy(node, value, iteration, ready);
}

void FrameWalker::DeliverCopy(uint32_t node, const TensorValue& value, FrameIteration* iteration,
                              Items* ready) {
  TensorValue copy = value;
  Deliver(node, !Alive(value), &copy, iteration, ready);
}

void FrameWalker::Deliver(uint32_t node, bool dead, TensorValue* outputs, FrameIteration* iteration,
                          Items* ready) {
  const bool from_enter = plan_.node(node).flow == Flow::kEnter;
  for (const PlanEdge& e : plan_.data_edges(node)) {
    DeliverData(e, from_enter, outputs, iteration, ready);
  }
  for (const uint32_t dst : plan_.control_edges(node)) DeliverControl(dst, dead, iteration, ready);
}

void FrameWalker::DeliverData(const PlanEdge& edge, bool from_enter, TensorValue* outputs,
                              FrameIteration* iteration, Items* ready) {
  const FrameLayout& layout = plan_.frames()[iteration->frame->layout];
  const PlanNode& to = plan_.node(edge.dst);
  PendingCount& count = iteration->counts[edge.dst - layout.first_node];
  TensorValue& value = outputs[edge.output];
  const bool alive = Alive(value);
  bool wanted = alive;
  bool is_ready;
  bool dead;
  if (to.flow == Flow::kMerge) {
    if (alive) {
      wanted = (count.waits & 1) != 0;  // only the first that is alive counts
      is_ready = count.waits == 1;
      dead = false;
      count.waits &= ~1;
    } else {
      ++count.dead;
      // A loop that is not entered has no second input to wait for.
      dead = count.dead == static_cast<int32_t>(to.num_inputs) || from_enter;
      is_ready = dead && count.waits == 1;
      if (is_ready) count.waits = 0;  // whatever comes now is late
    }
  } else {
    if (!alive) ++count.dead;
    dead = count.dead > 0;
    is_ready = --count.waits == 0;
  }
  if (wanted) {
    TensorValue& slot = iteration->slots[edge.slot - layout.first_slot];
    if (edge.last_use) {
      Move(&value, &slot);
    } else {
      slot = value;
    }
  }
  if (is_ready) AddReady(edge.dst, dead, iteration, ready);
}

void FrameWalker::DeliverControl(uint32_t dst, bool dead, FrameIteration* iteration, Items* ready) {
  const PlanNode& to = plan_.node(dst);
  PendingCount& count = iteration->counts[dst - plan_.frames()[to.frame].first_node];
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

void FrameWalker::AddReady(uint32_t node, bool dead, FrameIteration* iteration, Items* ready) {
  ++iteration->outstanding;
  ready->push_back({.walker = this,
                    .node = node,
                    .dead = dead && plan_.node(node).flow != Flow::kTrigger,
                    .iteration = iteration});
}

bool FrameWalker::OldestIsOver(const FrameInstance& frame) const {
  const FrameIteration& oldest = *frame.iterations.front();
  return oldest.outstanding == 0 && oldest.children.empty() && frame.pending_enters == 0;
}

void FrameWalker::Retire(FrameInstance* frame, Items* ready) {
  // Upwards: the end of a frame may end the iteration that it was entered from.
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

void FrameWalker::EndFrame(FrameInstance* frame, Items* ready) {
  FrameIteration* const above = frame->parent;
  TensorValue none;
  for (const uint32_t exit : frame->dead_exits) {
    if (state_.FirstExit(frame, exit)) Deliver(exit, true, &none, above, ready);
  }
  state_.FreeFrame(frame);
}

}  // namespace millrace
