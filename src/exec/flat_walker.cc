// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/flat_walker.h"

namespace millrace {

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
    // One thread takes them all at once: see RunFrom.
    items.push_back({.walker = this, .node = plan_.roots().front()});
  }
  queue_.Push(items);
}

Status FlatWalker::Finish(bool ok) {
  if (!ok) state_.DropValues();
  return Status();
}

void FlatWalker::RunFrom(const ReadyItem& item) {
  const uint32_t first = item.node;
  NodeList ready{first};
  NodeList now_ready;
  std::vector<ReadyItem> surplus;
  std::vector<TensorValue> outputs(plan_.max_outputs());
  KernelContext context(services_, nullptr, {}, {});
  Runner runner(plan_, notes_, context);
  if (!queue_.parallel() && first == 0) {  // the first node is a root, and only Start() puts it on the queue
    ready.assign(plan_.roots().rbegin(), plan_.roots().rend());
  }
  while (!ready.empty()) {
    const uint32_t index = ready.back();
    ready.pop_back();
    if (abort_.aborted()) return;
    if (!RunNode(runner, index, outputs.data())) continue;
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

bool FlatWalker::RunNode(Runner& runner, uint32_t index, TensorValue* outputs) {
  const PlanNode& node = plan_.node(index);
  if (node.kernel == nullptr) {
    runner.Skip(index, nullptr);
    return true;
  }
  TensorValue* const inputs = state_.slots() + node.first_input;
  if (Expensive(index)) [[unlikely]]
    BeforeLongWork();
  const NodeEnd end = runner.Run(index, node, inputs, outputs);
  if (end == NodeEnd::kWaits) {
    StartAsync({.walker = this, .node = index}, inputs);
    return false;
  }
  const Status status =
      end == NodeEnd::kDone ? DeliverOutputs(plan_, index, outputs, state_.slots()) : runner.status();
  if (status.ok()) return true;
  ReleaseInputs(outputs, node.num_outputs);
  abort_.Abort(status);
  return false;
}

Status FlatWalker::FollowAsync(const ReadyItem& item, TensorValue* outputs) {
  MR_RETURN_IF_ERROR(DeliverOutputs(plan_, item.node, outputs, state_.slots()));
  NodeList ready;
  Propagate(item.node, &ready);
  std::vector<ReadyItem> items;
  for (const uint32_t next : ready) items.push_back({.walker = this, .node = next});
  queue_.Push(items);
  return Status();
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
