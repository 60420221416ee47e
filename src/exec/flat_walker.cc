// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/flat_walker.h"

#include <memory>

#include "tensor/allocation_owner.h"

namespace millrace {
namespace {

// A node that takes longer than this is worth offering to another thread.
constexpr uint32_t kExpensiveNs = 10'000;

}  // namespace

// The state of an asynchronous kernel between its threads.
struct FlatWalker::AsyncRun {
  AsyncRun(FlatWalker& w, uint32_t i, const PlanNode& node)
      : walker(w),
        index(i),
        outputs(node.num_outputs),
        context(w.services_, node.kernel, {w.state_.slots() + node.first_input, node.num_inputs}, outputs) {}
  void Finish(const Status& status) { walker.FinishAsync(this, status); }
  FlatWalker& walker;
  const uint32_t index;
  int64_t start_ns = 0;
  std::vector<TensorValue> outputs;
  KernelContext context;
};

FlatWalker::FlatWalker(const Plan& plan, StepState& state, const StepServices& services, ReadyQueue& queue,
                       StepAbort& abort, bool measure, StepTrace* trace)
    : plan_(plan),
      state_(state),
      services_(services),
      queue_(queue),
      abort_(abort),
      measure_(measure),
      trace_(trace) {}

void FlatWalker::Start(uint32_t first) {
  state_.ResetPending();
  std::vector<ReadyItem> items;
  if (first > 0) {
    NodeList ready(plan_.roots().begin(), plan_.roots().end());
    for (uint32_t i = 0; i < first; ++i) Propagate(i, &ready);
    for (const uint32_t node : ready) {
      if (node >= first) items.push_back({.walker = this, .node = node});
    }
  } else if (queue_.parallel()) {
    for (uint32_t root : plan_.roots()) items.push_back({.walker = this, .node = root});
  } else if (!plan_.roots().empty()) {
    // One thread takes them all in one go: see RunFrom.
    items.push_back({.walker = this, .node = plan_.roots().front()});
  }
  queue_.Push(items);
}

Status FlatWalker::Finish(bool ok) {
  if (!ok) state_.DropValues();
  return Status();
}

bool FlatWalker::Expensive(uint32_t index) const {
  const PlanNode& node = plan_.node(index);
  if (node.kernel == nullptr) return false;
  return plan_.cost_ns(index) > kExpensiveNs;
}

void FlatWalker::RunFrom(const ReadyItem& item) {
  const uint32_t first = item.node;
  NodeList ready{first};
  NodeList now_ready;
  std::vector<ReadyItem> surplus;
  std::vector<TensorValue> outputs(plan_.max_outputs());
  if (!queue_.parallel() && first == 0) {  // the first node is a root, and only Start() puts it on the queue
    ready.assign(plan_.roots().rbegin(), plan_.roots().rend());
  }
  while (!ready.empty()) {
    const uint32_t index = ready.back();
    ready.pop_back();
    if (abort_.aborted()) return;
    if (!RunNode(index, outputs.data())) continue;
    now_ready.clear();
    Propagate(index, &now_ready);
    surplus.clear();
    for (uint32_t next : now_ready) {
      if (queue_.parallel() && Expensive(next)) {
        surplus.push_back({.walker = this, .node = next});
      } else {
        ready.push_back(next);
      }
    }
    if (ready.empty() && !surplus.empty()) {
      const ReadyItem next = surplus.back();
      surplus.pop_back();
      if (plan_.cost_ns(next.node) < kHandOverNs || !queue_.HandOver(next)) ready.push_back(next.node);
    }
    queue_.Push(surplus);
  }
}

bool FlatWalker::RunNode(uint32_t index, TensorValue* outputs) {
  const PlanNode& node = plan_.node(index);
  if (node.kernel == nullptr) {
    if (trace_ != nullptr) trace_->RecordInstant(plan_, index, nullptr);
    return true;
  }
  TensorValue* const inputs = state_.slots() + node.first_input;
  Status status;
  if (node.has_ref_inputs) status = ReadReferences(plan_, index, inputs);
  if (status.ok() && node.async != nullptr && !node.async->tries()) {
    StartAsync(index);
    return false;
  }
  if (status.ok()) {
    const uint64_t before = measure_ ? CycleCount() : 0;
    const int64_t start_ns = trace_ != nullptr ? trace_->NowNs() : 0;
    KernelContext context(services_, node.kernel, {inputs, node.num_inputs}, {outputs, node.num_outputs});
    const ScopedAllocationOwner owner(&node.kernel->name());
    if (node.async == nullptr) {
      status = ComputeKernel(*node.kernel, context);
    } else if (!TryComputeKernel(*node.async, context, status)) {
      StartAsync(index);
      return false;
    }
    if (measure_) {
      plan_.RecordCost(index,
                       static_cast<uint64_t>(static_cast<double>(CycleCount() - before) * NsPerCycle()));
    }
    if (trace_ != nullptr && status.ok()) trace_->Record(plan_, index, start_ns, trace_->NowNs(), outputs);
  }
  if (!status.ok()) {
    ReleaseInputs(outputs, node.num_outputs);
    abort_.Abort(AddNodeContext(status, plan_.graph_node(index)));
    return false;
  }
  status = HandOn(index, outputs);
  if (!status.ok()) {
    abort_.Abort(status);
    return false;
  }
  return true;
}

Status FlatWalker::HandOn(uint32_t index, TensorValue* outputs) {
  const PlanNode& node = plan_.node(index);
  ReleaseInputs(state_.slots() + node.first_input, node.num_inputs);
  return DeliverOutputs(plan_, index, outputs, state_.slots());
}

void FlatWalker::StartAsync(uint32_t index) {
  const PlanNode& node = plan_.node(index);
  queue_.BeginAsync();
  auto run = std::make_unique<AsyncRun>(*this, index, node);
  if (trace_ != nullptr) run->start_ns = trace_->NowNs();
  const ScopedAllocationOwner owner(&node.kernel->name());
  StartAsyncKernel(*node.async, std::move(run));
}

void FlatWalker::FinishAsync(AsyncRun* finished, const Status& status) {
  const std::unique_ptr<AsyncRun> run(finished);
  const uint32_t index = run->index;
  // The step, and this walker with it, may end as soon as EndAsync lets it.
  const RefPtr<ReadyQueue> queue = ShareRef(&queue_);
  Status result = status;
  if (result.ok()) {
    if (trace_ != nullptr) trace_->Record(plan_, index, run->start_ns, trace_->NowNs(), run->outputs.data());
    result = HandOn(index, run->outputs.data());
  } else {
    result = AddNodeContext(result, plan_.graph_node(index));
  }
  if (!result.ok()) {
    abort_.Abort(result);
  } else {
    NodeList ready;
    Propagate(index, &ready);
    std::vector<ReadyItem> items;
    for (uint32_t next : ready) items.push_back({.walker = this, .node = next});
    queue->Push(items);
  }
  queue->EndAsync();
}

void FlatWalker::Propagate(uint32_t index, NodeList* ready) {
  // acq_rel: the thread that counts down to zero sees what the other producers wrote into the slots.
  const auto count_down = [&](uint32_t dst) {
    if (state_.pending(dst).fetch_sub(1, std::memory_order_acq_rel) == 1) ready->push_back(dst);
  };
  for (const PlanEdge& e : plan_.data_edges(index)) count_down(e.dst);
  for (uint32_t dst : plan_.control_edges(index)) count_down(dst);
}

}  // namespace millrace
