// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/place/placer.h"

#include <algorithm>
#include <vector>

#include "base/hash.h"
#include "base/logging.h"
#include "compile/place/colocation_graph.h"
#include "compile/place/cost_placement.h"

namespace millrace {
namespace {

// A node without inputs, which should be placed with its consumers.
bool IsGenerator(const Node& node) {
  return node.num_inputs() == 0 && node.num_outputs() == 1 && !IsRefType(node.output_type(0)) &&
         node.output_type(0) != DataType::kResource;
}

// Only reads its input's shape, so it should not cause a transfer of the input.
bool IsMetadata(const Node& node) { return node.traits().metadata_only && node.num_inputs() == 1; }

bool TouchesState(const Node& node) {
  const auto is_state = [](DataType type) { return IsRefType(type) || type == DataType::kResource; };
  const NodeProps& props = node.props();
  return props.op->def.is_stateful ||
         std::any_of(props.input_types.begin(), props.input_types.end(), is_state) ||
         std::any_of(props.output_types.begin(), props.output_types.end(), is_state);
}

class Placer {
 public:
  Placer(Graph* graph, const PlaceOptions& options)
      : graph_(graph), options_(options), groups_(*graph, options) {}

  Status Run() {
    for (int id = 2; id < graph_->num_node_ids(); ++id) {
      Node* node = graph_->node(id);
      if (node != nullptr && !node->has_assigned_device()) todo_.push_back(node);
    }
    if (todo_.empty()) return Status();
    MR_RETURN_IF_ERROR(groups_.Build());
    if (const auto& without = groups_.without_kernel(); !without.empty()) {
      std::erase_if(todo_, [&without](const Node* node) { return without.contains(node->id()); });
    }
    if (options_.costs != nullptr) MR_RETURN_IF_ERROR(AssignByCost(*graph_, options_, &groups_));
    if (options_.compile.spread_seed != 0) FindState();
    MR_RETURN_IF_ERROR(Choose());
    Commit();
    return Status();
  }

 private:
  Status Choose();
  void FindState();
  const DeviceDescription* SpreadDevice(const Node& node,
                                        const std::vector<const DeviceDescription*>& candidates) const;
  const DeviceDescription* DeviceOf(const Node& node) const {
    return groups_.AssignedDevice(groups_.Find(node.id()));
  }
  const DeviceDescription* ConsumersDevice(const Node& node) const;
  void Commit();

  Graph* const graph_;
  const PlaceOptions& options_;
  ColocationGraph groups_;
  std::vector<Node*> todo_;
  // By group, if nodes are spread: the first node with state (null: none).
  std::vector<const Node*> state_;
};

// The device that all consumers share; null if they don't, or if there are none.
const DeviceDescription* Placer::ConsumersDevice(const Node& node) const {
  const DeviceDescription* device = nullptr;
  for (const Edge* edge : node.out_edges()) {
    if (!edge->dst->IsOp()) continue;
    const DeviceDescription* other = DeviceOf(*edge->dst);
    if (other == nullptr || (device != nullptr && other != device)) return nullptr;
    device = other;
  }
  return device;
}

void Placer::FindState() {
  state_.resize(static_cast<size_t>(graph_->num_node_ids()));
  for (const Node* node : todo_) {
    const Node*& first = state_[static_cast<size_t>(groups_.Find(node->id()))];
    // Datasets can't be sent to another task.
    const bool is_dataset = node->op_name().find("Dataset") != std::string::npos;
    if (first == nullptr && (is_dataset || TouchesState(*node))) first = node;
  }
}

// All nodes with the name of a variable or another resource are placed on one device.
std::string NameOfState(const Node& node) {
  const std::string shared = node.Attr<std::string>("shared_name").value_or("");
  return shared.empty() ? node.name() : shared;
}

// The input of a node that reads a variable by reference after other nodes; null: none. On another device
// than the variable it would get the value that was sent when the variable's node ran.
const Edge* LateRead(const Node& node) {
  const Edge* read = nullptr;
  bool waits = false;
  for (const Edge* edge : node.in_edges()) {
    if (edge->IsControl()) {
      waits = true;
    } else if (IsRefType(edge->src->output_type(edge->src_output))) {
      read = edge;
    }
  }
  return waits ? read : nullptr;
}

// The device of a spread node; null if the node is not to be spread.
const DeviceDescription* Placer::SpreadDevice(const Node& node,
                                              const std::vector<const DeviceDescription*>& candidates) const {
  if (options_.compile.spread_seed == 0) return nullptr;
  const bool all_types = options_.compile.spread_over_types;
  const Node* const state = state_[static_cast<size_t>(groups_.Find(node.id()))];
  if (const Edge* read = state == nullptr ? LateRead(node) : nullptr; read != nullptr)
    return DeviceOf(*read->src);
  // The state of functions is placed with the caller's.
  if (state != nullptr && (!all_types || options_.default_device != nullptr)) return nullptr;
  size_t n = 1;
  while (n < candidates.size() && (all_types || candidates[n]->type() == candidates[0]->type())) ++n;
  const std::string name = state == nullptr ? node.name() : NameOfState(*state);
  return candidates[Hash64(name, options_.compile.spread_seed) % n];
}

// Devices are chosen by group; nodes that should be near another node are placed with it if their group
// allows it.
Status Placer::Choose() {
  const auto choose = [&](const Node& node, const DeviceDescription* preferred) -> Status {
    MR_ASSIGN_OR_RETURN(const std::vector<const DeviceDescription*>* candidates, groups_.Candidates(node));
    const DeviceDescription* chosen = candidates->front();
    for (const DeviceDescription* better :
         {SpreadDevice(node, *candidates), preferred, options_.default_device}) {
      if (std::find(candidates->begin(), candidates->end(), better) == candidates->end()) continue;
      chosen = better;
      break;
    }
    groups_.Assign(groups_.Find(node.id()), chosen);
    return Status();
  };
  std::vector<const Node*> generators;
  for (const Node* node : todo_) {
    if (DeviceOf(*node) != nullptr) continue;
    if (IsGenerator(*node)) {
      generators.push_back(node);
      continue;
    }
    const Edge* input = IsMetadata(*node) ? node->in_edges()[0] : nullptr;
    MR_RETURN_IF_ERROR(choose(*node, input == nullptr ? nullptr : DeviceOf(*input->src)));
  }
  for (const Node* node : generators) {
    if (DeviceOf(*node) == nullptr) MR_RETURN_IF_ERROR(choose(*node, ConsumersDevice(*node)));
  }
  return Status();
}

void Placer::Commit() {
  const DeviceDescription* last = nullptr;
  int index = 0;
  for (Node* node : todo_) {
    const DeviceDescription* device = DeviceOf(*node);
    if (device != last) {
      last = device;
      index = graph_->InternDevice(device->name());
    }
    node->set_assigned_device_index(index);
    if (options_.compile.log_device_placement) {
      MR_LOG(Info) << node->name() << ": (" << node->op_name() << "): " << device->name();
    }
  }
}

}  // namespace

Status Place(Graph* graph, const PlaceOptions& options) { return Placer(graph, options).Run(); }

}  // namespace millrace
