// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/trace/dependencies.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"

namespace millrace::cli {
namespace {

// The node that an input of a NodeDef names.
std::string_view ProducerOf(std::string_view input) {
  if (input.starts_with('^')) return input.substr(1);
  const size_t colon = input.rfind(':');
  const bool is_port = colon != std::string_view::npos && colon + 1 < input.size() &&
                       input.find_first_not_of("0123456789", colon + 1) == std::string_view::npos;
  return is_port ? input.substr(0, colon) : input;
}

// Follows the inputs of events to the events that they wait for.
class Finder {
 public:
  Finder(const Trace& trace, const DependencyGraph& graph)
      : trace_(trace), graph_(graph), runs_(graph.size()), has_events_(graph.size()), seen_(graph.size()) {
    for (const TraceNode& node : trace.nodes) {
      node_of_.push_back(graph.Find(node.name, trace.devices[node.device]));
      if (node_of_.back() != DependencyGraph::kNone) has_events_[static_cast<size_t>(node_of_.back())] = true;
    }
  }

  EventDependencies Run() && {
    for (uint32_t e = 0; e < trace_.events.size(); ++e) {
      result_.first.push_back(static_cast<uint32_t>(result_.predecessors.size()));
      const int32_t node = node_of_[trace_.events[e].node];
      if (node == DependencyGraph::kNone) continue;
      ++result_.events_in_graph;
      Follow(node, e);
      runs_[static_cast<size_t>(node)].push_back(e);
    }
    result_.first.push_back(static_cast<uint32_t>(result_.predecessors.size()));
    return std::move(result_);
  }

 private:
  // The maximum number of visits of nodes; graphs whose nodes ran need a few per edge.
  static constexpr int64_t kMostVisits = 50'000'000;
  // The maximum number of runs of one node that overlap the event and are skipped.
  static constexpr int kMostOverlapping = 64;

  void Follow(int32_t node, uint32_t event) {
    ++stamp_;
    to_visit_.assign(graph_.inputs(node).begin(), graph_.inputs(node).end());
    while (!to_visit_.empty()) {
      const auto input = static_cast<size_t>(to_visit_.back());
      to_visit_.pop_back();
      if (seen_[input] == stamp_) continue;
      seen_[input] = stamp_;
      if (++visits_ > kMostVisits) {
        result_.complete = false;
        return;
      }
      if (has_events_[input]) {
        AddLatestRun(input, trace_.events[event].start_ns);
      } else {
        const auto inputs = graph_.inputs(static_cast<int32_t>(input));
        to_visit_.insert(to_visit_.end(), inputs.begin(), inputs.end());
      }
    }
  }

  void AddLatestRun(size_t node, int64_t before_ns) {
    const std::vector<uint32_t>& runs = runs_[node];
    int passed = 0;
    for (auto run = runs.rbegin(); run != runs.rend() && passed < kMostOverlapping; ++run, ++passed) {
      // Times are rounded down, so an input may seem to end just after its consumer's start.
      if (trace_.events[*run].end_ns - trace_.resolution_ns >= before_ns) continue;
      result_.predecessors.push_back(*run);
      return;
    }
  }

  const Trace& trace_;
  const DependencyGraph& graph_;
  std::vector<int32_t> node_of_;             // of each Trace::nodes
  std::vector<std::vector<uint32_t>> runs_;  // by node of the graph, so far
  std::vector<bool> has_events_;             // by node of the graph
  std::vector<uint32_t> seen_;
  uint32_t stamp_ = 0;
  int64_t visits_ = 0;
  std::vector<int32_t> to_visit_;
  EventDependencies result_;
};

}  // namespace

int32_t DependencyGraph::AddNode(std::string_view name, std::string_view op, std::string_view device) {
  const auto index = static_cast<int32_t>(nodes_.size());
  GraphNode& node = nodes_.emplace_back(GraphNode{std::string(op), std::string(device), {}, kNone});
  const auto [it, added] = by_name_.try_emplace(std::string(name), index);
  if (!added) node.same_name = std::exchange(it->second, index);
  of_graph_[std::string(name)] = index;
  return index;
}

void DependencyGraph::AddInput(int32_t node, std::string_view input) {
  pending_inputs_.emplace_back(node, ProducerOf(input));
}

void DependencyGraph::FinishGraph() {
  for (const auto& [node, name] : pending_inputs_) {
    const auto it = of_graph_.find(name);
    if (it != of_graph_.end()) nodes_[static_cast<size_t>(node)].inputs.push_back(it->second);
  }
  pending_inputs_.clear();
  of_graph_.clear();
}

void DependencyGraph::FinishTransfers() {
  for (const auto& [node, key] : recvs_) {
    const auto it = sends_.find(key);
    if (it != sends_.end()) nodes_[static_cast<size_t>(node)].inputs.push_back(it->second);
  }
  recvs_.clear();
  sends_.clear();
}

int32_t DependencyGraph::Find(std::string_view name, std::string_view device) const {
  const auto it = by_name_.find(std::string(name));
  if (it == by_name_.end()) return kNone;
  constexpr int kMostOfOneName = 1024;  // devices; a graph with more is no graph of a step
  int looked_at = 0;
  for (int32_t i = it->second; i != kNone && looked_at < kMostOfOneName; ++looked_at) {
    if (nodes_[static_cast<size_t>(i)].device == device) return i;
    i = nodes_[static_cast<size_t>(i)].same_name;
  }
  return it->second;
}

DependencyGraph GraphOfLabels(const Trace& trace) {
  DependencyGraph graph;
  for (const TraceNode& node : trace.nodes) {
    const int32_t index = graph.AddNode(node.name, trace.ops[node.op], trace.devices[node.device]);
    for (const std::string_view input : StrSplitSkipEmpty(node.inputs, ',')) {
      graph.AddInput(index, StripWhitespace(input));
    }
  }
  graph.FinishGraph();
  return graph;
}

EventDependencies FindEventDependencies(const Trace& trace, const DependencyGraph& graph) {
  return Finder(trace, graph).Run();
}

}  // namespace millrace::cli
