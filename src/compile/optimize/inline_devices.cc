// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/optimize/inline_devices.h"

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device/device_name.h"

namespace millrace {
namespace {

constexpr std::string_view kLoc = "loc:@";

// As in ColocationGraph: these carry values across borders, and need no colocation.
bool IsBorder(const Node& node) { return node.op_name().starts_with('_'); }

// Nodes that must share a device, by union-find.
class Groups {
 public:
  explicit Groups(const Graph& graph) : parent_(static_cast<size_t>(graph.num_node_ids())) {
    for (size_t i = 0; i < parent_.size(); ++i) parent_[i] = static_cast<int>(i);
    std::unordered_map<std::string_view, int> first_of_class;
    for (int id = 2; id < graph.num_node_ids(); ++id) {
      const Node* node = graph.node(id);
      if (node == nullptr || IsBorder(*node)) continue;
      for (int i = 0; i < node->num_inputs(); ++i) {
        const DataType type = node->input_type(i);
        if (!IsRefType(type) && type != DataType::kResource) continue;
        const Edge* edge = node->in_edges()[static_cast<size_t>(i)];
        if (edge != nullptr && !IsBorder(*edge->src)) Unite(edge->src->id(), id);
      }
      const AttrValue* value = node->attrs().Find("_class");
      const auto* classes = value == nullptr ? nullptr : value->As<std::vector<std::string>>();
      if (classes == nullptr) continue;
      for (const std::string& entry : *classes) {
        if (!entry.starts_with(kLoc)) continue;
        const std::string_view name = std::string_view(entry).substr(kLoc.size());
        const auto [it, is_new] = first_of_class.try_emplace(name, id);
        const Node* named = is_new ? graph.FindNode(name) : nullptr;
        if (named != nullptr && named->IsOp()) it->second = named->id();
        Unite(it->second, id);
      }
    }
  }

  int Find(int id) {
    while (parent_[static_cast<size_t>(id)] != id) {
      int& parent = parent_[static_cast<size_t>(id)];
      parent = parent_[static_cast<size_t>(parent)];
      id = parent;
    }
    return id;
  }

 private:
  void Unite(int a, int b) { parent_[static_cast<size_t>(Find(a))] = Find(b); }

  std::vector<int> parent_;  // by node id
};

class Release {
 public:
  Release(Graph* graph, int first_id, const std::unordered_set<int>& own, const HasKernelFn& has_kernel)
      : graph_(*graph), first_id_(first_id), own_(own), has_kernel_(has_kernel) {}

  void Run() {
    if (!FindInherited()) return;
    Groups groups(graph_);
    FindRestrictions(&groups);
    for (Node* node : inherited_) {
      const DeviceName& device = Parsed(node->requested_device());
      const int root = groups.Find(node->id());
      if (const auto wanted = wanted_.find(root); wanted != wanted_.end()) {
        DeviceName merged = wanted->second;
        if (!merged.MergeFrom(device).ok()) {
          node->set_requested_device("");
          continue;
        }
      }
      if (!device.type || has_all_kernels_.at({root, *device.type})) continue;
      DeviceName task = device;
      task.type.reset();
      task.index.reset();
      node->set_requested_device(task.ToString());
    }
  }

 private:
  // False if there can be no conflict: all kernels are for the CPU, or there are none.
  bool FindInherited() {
    bool may_conflict = !own_.empty();
    for (int id = first_id_; id < graph_.num_node_ids(); ++id) {
      Node* node = graph_.node(id);
      if (node == nullptr || own_.contains(id) || node->requested_device().empty()) continue;
      const DeviceName& device = Parsed(node->requested_device());
      if (!device.HasAnything()) continue;
      may_conflict |= device.type && *device.type != "CPU";
      inherited_.push_back(node);
    }
    return may_conflict && !inherited_.empty();
  }

  void FindRestrictions(Groups* groups) {
    std::vector<bool> inherits(static_cast<size_t>(graph_.num_node_ids()));
    std::unordered_map<int, std::vector<std::string>> types;  // inherited by members of a group, by root
    for (const Node* node : inherited_) {
      inherits[static_cast<size_t>(node->id())] = true;
      const DeviceName& device = Parsed(node->requested_device());
      const int root = groups->Find(node->id());
      std::vector<std::string>& of_group = types[root];
      if (device.type && has_all_kernels_.try_emplace({root, *device.type}, true).second)
        of_group.push_back(*device.type);
    }
    for (int id = 2; id < graph_.num_node_ids(); ++id) {
      const Node* node = graph_.node(id);
      if (node == nullptr) continue;
      const int root = groups->Find(id);
      const auto of_group = types.find(root);
      if (of_group == types.end()) continue;
      for (const std::string& type : of_group->second) {
        bool& has_all = has_all_kernels_.at({root, type});
        has_all = has_all && (type == "CPU" || has_kernel_(type, node->props()));
      }
      if (inherits[static_cast<size_t>(id)]) continue;
      // The placer reports groups whose members contradict each other.
      wanted_[root]
          .MergeFrom(Parsed(node->has_assigned_device() ? node->assigned_device() : node->requested_device()))
          .IgnoreError("the placer reports it");
    }
  }

  // Empty if it is malformed, which the placer reports.
  const DeviceName& Parsed(const std::string& device) {
    const auto [it, is_new] = parsed_.try_emplace(device);
    if (is_new) it->second = DeviceName::Parse(device).value_or(DeviceName());
    return it->second;
  }

  Graph& graph_;
  const int first_id_;
  const std::unordered_set<int>& own_;
  const HasKernelFn& has_kernel_;
  std::vector<Node*> inherited_;
  std::map<std::pair<int, std::string>, bool> has_all_kernels_;  // by root and type
  std::unordered_map<int, DeviceName> wanted_;                   // by members that inherit no device; by root
  std::unordered_map<std::string, DeviceName> parsed_;
};

}  // namespace

void ReleaseInheritedDevices(Graph* graph, int first_id, const std::unordered_set<int>& own,
                             const HasKernelFn& has_kernel) {
  if (has_kernel && graph->num_node_ids() > first_id) Release(graph, first_id, own, has_kernel).Run();
}

}  // namespace millrace
