// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/place/cost_placement.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compile/place/cost_model.h"

namespace millrace {
namespace {

constexpr int64_t kDefaultBytes = 4;
constexpr int64_t kForever = INT64_MAX / 4;

// The edge that closes a loop: the first iteration does not wait for it.
bool IsBackEdge(const Edge& edge) {
  return edge.src->op_name() == "NextIteration" || edge.src->op_name() == "RefNextIteration";
}

class Simulation {
 public:
  Simulation(const Graph& graph, const PlaceOptions& options, ColocationGraph* groups)
      : graph_(graph),
        costs_(*options.costs),
        groups_(*groups),
        nodes_(static_cast<size_t>(graph.num_node_ids())) {}

  Status Run() {
    Prepare();
    while (!ready_.empty()) {
      const Node& node = *graph_.node(ready_.top().second);
      ready_.pop();
      MR_RETURN_IF_ERROR(Place(node));
      for (const Edge* edge : node.out_edges()) {
        if (edge->dst->IsOp() && !IsBackEdge(*edge)) Arrive(*edge->dst, StateOf(node).end_ns);
      }
    }
    return Status();
  }

 private:
  struct NodeState {
    int waits_for = 0;
    int64_t ready_ns = 0;  // when the last input is computed, on any device
    int64_t end_ns = 0;
    int64_t output_bytes = 0;      // of all outputs
    std::vector<int64_t> outputs;  // bytes of each
    const DeviceDescription* device = nullptr;
  };
  using Ready = std::pair<int64_t, int>;  // by time, then by id

  NodeState& StateOf(const Node& node) { return nodes_[static_cast<size_t>(node.id())]; }

  void Prepare() {
    stateful_.assign(nodes_.size(), false);
    for (int id = 2; id < graph_.num_node_ids(); ++id) {
      const Node* node = graph_.node(id);
      if (node == nullptr) continue;
      if (node->op_def().is_stateful) stateful_[static_cast<size_t>(groups_.Find(id))] = true;
      for (const Edge* edge : node->in_edges()) {
        if (edge != nullptr && edge->src->IsOp() && !IsBackEdge(*edge)) ++StateOf(*node).waits_for;
      }
      if (StateOf(*node).waits_for == 0) ready_.push({0, id});
    }
  }

  void Arrive(const Node& node, int64_t ns) {
    NodeState& state = StateOf(node);
    state.ready_ns = std::max(state.ready_ns, ns);
    if (--state.waits_for == 0) ready_.push({state.ready_ns, node.id()});
  }

  // An unknown size is assumed to be that of the largest input.
  int64_t EstimateSizes(const Node& node) {
    int64_t input_bytes = 0;
    int64_t largest = kDefaultBytes;
    for (const Edge* edge : node.in_edges()) {
      if (edge == nullptr || edge->IsControl() || !edge->src->IsOp() || IsBackEdge(*edge)) continue;
      const int64_t bytes = StateOf(*edge->src).outputs[static_cast<size_t>(edge->src_output)];
      input_bytes = std::min(input_bytes + bytes, kForever);
      largest = std::max(largest, bytes);
    }
    NodeState& state = StateOf(node);
    for (int i = 0; i < node.num_outputs(); ++i) {
      const int64_t known = costs_.output_bytes(node, i);
      state.outputs.push_back(known >= 0 ? std::min(known, kForever) : largest);
      state.output_bytes = std::min(state.output_bytes + state.outputs.back(), kForever);
    }
    return input_bytes;
  }

  // The time at which the inputs of `node` would all be on `device`.
  int64_t InputsAt(const Node& node, const DeviceDescription& device) {
    int64_t at = 0;
    for (const Edge* edge : node.in_edges()) {
      if (edge == nullptr || !edge->src->IsOp() || IsBackEdge(*edge)) continue;
      const NodeState& src = StateOf(*edge->src);
      int64_t ns = src.end_ns;
      if (src.device != &device) {
        const int64_t bytes = edge->IsControl() ? 0 : src.outputs[static_cast<size_t>(edge->src_output)];
        ns = std::min(ns + costs_.transfer_ns(*src.device, device, bytes), kForever);
      }
      at = std::max(at, ns);
    }
    return at;
  }

  Status Place(const Node& node) {
    const int root = groups_.Find(node.id());
    const DeviceDescription* assigned = groups_.AssignedDevice(root);
    std::vector<const DeviceDescription*> candidates = {assigned};
    if (assigned == nullptr) {
      MR_ASSIGN_OR_RETURN(const std::vector<const DeviceDescription*>* allowed, groups_.Candidates(node));
      candidates = *allowed;
      if (stateful_[static_cast<size_t>(root)]) candidates.resize(1);
    }
    const int64_t input_bytes = EstimateSizes(node);
    NodeState& state = StateOf(node);
    state.end_ns = kForever + 1;
    for (const DeviceDescription* device : candidates) {
      const int64_t start = std::max(InputsAt(node, *device), busy_until_[device]);
      const int64_t cost =
          std::max<int64_t>(costs_.compute_ns(node, *device, input_bytes, state.output_bytes), 0);
      const int64_t end = std::min(start + std::min(cost, kForever), kForever);
      if (end >= state.end_ns) continue;
      state.end_ns = end;
      state.device = device;
    }
    busy_until_[state.device] = state.end_ns;
    if (assigned == nullptr) groups_.Assign(root, state.device);
    return Status();
  }

  const Graph& graph_;
  const PlacementCosts& costs_;
  ColocationGraph& groups_;
  std::vector<NodeState> nodes_;  // by id
  std::vector<bool> stateful_;    // by root of a group
  std::unordered_map<const DeviceDescription*, int64_t> busy_until_;
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready_;
};

}  // namespace

Status AssignByCost(const Graph& graph, const PlaceOptions& options, ColocationGraph* groups) {
  return Simulation(graph, options, groups).Run();
}

}  // namespace millrace
