// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cli/trace/trace.h"

namespace millrace::cli {

// Dependencies between nodes, by name. Graphs may be inconsistent: inputs without a node are left
// out.
class DependencyGraph {
 public:
  static constexpr int32_t kNone = -1;

  bool empty() const { return nodes_.empty(); }
  // A number for the node. Nodes of one name on several devices stay apart.
  int32_t AddNode(std::string_view name, std::string_view op, std::string_view device);
  // `input` as a NodeDef has it: "name", "name:1" or "^name".
  void AddInput(int32_t node, std::string_view input);
  // A transfer with this key: its receivers wait for its senders.
  void AddSend(int32_t node, std::string key) { sends_[std::move(key)] = node; }
  void AddRecv(int32_t node, std::string key) { recvs_.emplace_back(node, std::move(key)); }
  // Ends a graph: its inputs mean nodes of the same graph.
  void FinishGraph();
  // Ends the last one: receivers get their senders.
  void FinishTransfers();

  // The node of that name, on the device if there are several; kNone if there is none.
  int32_t Find(std::string_view name, std::string_view device) const;
  std::span<const int32_t> inputs(int32_t node) const { return nodes_[static_cast<size_t>(node)].inputs; }
  const std::string& op(int32_t node) const { return nodes_[static_cast<size_t>(node)].op; }
  size_t size() const { return nodes_.size(); }

 private:
  struct GraphNode {
    std::string op;
    std::string device;
    std::vector<int32_t> inputs;
    int32_t same_name = kNone;  // another node of this name
  };
  std::vector<GraphNode> nodes_;
  std::unordered_map<std::string, int32_t> by_name_;   // the latest; the others by same_name
  std::unordered_map<std::string, int32_t> of_graph_;  // of the graph being added
  std::vector<std::pair<int32_t, std::string>> pending_inputs_;
  std::unordered_map<std::string, int32_t> sends_;
  std::vector<std::pair<int32_t, std::string>> recvs_;
};

// The graph given by the labels of the nodes ("name = Op(inputs)").
DependencyGraph GraphOfLabels(const Trace& trace);

// For each event, the events that it had to wait for. Predecessors come before their event in
// Trace::events.
struct EventDependencies {
  std::vector<uint32_t> first;  // of each event, and one more: where its predecessors begin
  std::vector<uint32_t> predecessors;
  size_t events_in_graph = 0;
  bool complete = true;  // false: there were more than could be followed
  std::span<const uint32_t> of(size_t event) const {
    return {predecessors.data() + first[event], predecessors.data() + first[event + 1]};
  }
};

// Computes them: a node that ran several times (in a loop) depends on the latest runs of its inputs before
// it; nodes of the graph without events are passed through.
EventDependencies FindEventDependencies(const Trace& trace, const DependencyGraph& graph);

}  // namespace millrace::cli
