// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Algorithms over a whole graph: order and invariants.
#include <algorithm>
#include <utility>

#include "graph/graph.h"

namespace millrace {
namespace {

// Some nodes of a cycle, searched from a node that depends on a cycle. `waiting[id]` is the number of inputs
// that were never satisfied.
std::vector<const Node*> FindCycle(const Node* start, const std::vector<int>& waiting) {
  std::vector<bool> seen(waiting.size(), false);
  const Node* node = start;
  std::vector<const Node*> path;
  while (!seen[node->id()]) {
    seen[node->id()] = true;
    path.push_back(node);
    for (const Edge* edge : node->in_edges()) {
      if (edge != nullptr && waiting[edge->src->id()] > 0 && !IsLoopBackEdge(*edge)) {
        node = edge->src;
        break;
      }
    }
  }
  // The walk entered the cycle at `node`; the nodes before it lead to the cycle, but are not part of it.
  path.erase(path.begin(), std::find(path.begin(), path.end(), node));
  std::reverse(path.begin(), path.end());
  return path;
}

Status CycleError(const Graph& graph, const std::vector<int>& waiting, int missing) {
  const Node* start = nullptr;
  for (int id = 0; start == nullptr; ++id) {
    if (graph.node(id) != nullptr && waiting[id] > 0) start = graph.node(id);
  }
  constexpr size_t kMaxNames = 5;
  const std::vector<const Node*> cycle = FindCycle(start, waiting);
  std::string names;
  for (size_t i = 0; i < cycle.size() && i < kMaxNames; ++i) names += (i == 0 ? "" : ", ") + cycle[i]->name();
  if (cycle.size() > kMaxNames) names += ", ...";
  return errors::InvalidArgument("Graph is invalid, contains a cycle with ", missing,
                                 " nodes, including: ", names);
}

Status CheckEdge(const Graph& graph, const Edge* edge, int id) {
  const auto fail = [&](const char* what) {
    return errors::Internal("Edge ", id, " from '", edge->src->name(), "' to '", edge->dst->name(),
                            "': ", what);
  };
  if (edge->id != id) return errors::Internal("Edge ", id, " has id ", edge->id);
  if (graph.node(edge->src->id()) != edge->src || graph.node(edge->dst->id()) != edge->dst) {
    return errors::Internal("Edge ", id, " joins nodes that are not in the graph");
  }
  const auto out = edge->src->out_edges();
  const auto in = edge->dst->in_edges();
  if (edge->out_pos < 0 || edge->out_pos >= static_cast<int>(out.size()) || out[edge->out_pos] != edge) {
    return fail("not in the list of its source");
  }
  if (edge->in_pos < 0 || edge->in_pos >= static_cast<int>(in.size()) || in[edge->in_pos] != edge) {
    return fail("not in the list of its destination");
  }
  if (edge->IsControl()) {
    if (edge->dst_input != Edge::kControlSlot || edge->in_pos < edge->dst->num_inputs())
      return fail("half a control edge");
    return Status();
  }
  if (edge->src_output < 0 || edge->src_output >= edge->src->num_outputs()) return fail("no such output");
  if (edge->dst_input != edge->in_pos || edge->dst_input >= edge->dst->num_inputs())
    return fail("no such input");
  const DataType given = edge->src->output_type(edge->src_output);
  const DataType wanted = edge->dst->input_type(edge->dst_input);
  if (given != wanted && (IsRefType(wanted) || BaseType(given) != wanted)) return fail("types differ");
  return Status();
}

Status CheckNode(const Graph& graph, const Node* node, int id) {
  if (node->id() != id || &node->graph() != &graph)
    return errors::Internal("Node '", node->name(), "' has a wrong id");
  if (graph.FindNode(node->name()) != node) {
    return errors::Internal("Node '", node->name(), "' is not the one found under its name");
  }
  if (static_cast<int>(node->in_edges().size()) < node->num_inputs()) {
    return errors::Internal("Node '", node->name(), "' lacks input slots");
  }
  for (int i = 0; i < node->num_inputs(); ++i) {
    if (node->in_edges()[i] == nullptr) {
      return errors::Internal("Node '", node->name(), "' (op ", node->op_name(), "): input ", i,
                              " is not connected");
    }
  }
  return Status();
}

}  // namespace

StatusOr<std::vector<Node*>> TopologicalOrder(const Graph& graph) {
  std::vector<int> waiting(static_cast<size_t>(graph.num_node_ids()), 0);
  std::vector<Node*> order;
  order.reserve(static_cast<size_t>(graph.num_nodes()));
  order.push_back(graph.source());
  const auto waits_for = [](const Edge* edge) { return !edge->src->IsSource() && !IsLoopBackEdge(*edge); };
  for (int id = 2; id < graph.num_node_ids(); ++id) {
    Node* node = graph.node(id);
    if (node == nullptr) continue;
    for (const Edge* edge : node->in_edges()) {
      if (edge != nullptr && waits_for(edge)) ++waiting[id];
    }
    if (waiting[id] == 0) order.push_back(node);
  }
  // All nodes in `order` are ready; the edges of those from `next` on have not been followed yet.
  for (size_t next = 1; next < order.size(); ++next) {
    for (const Edge* edge : order[next]->out_edges()) {
      if (edge->dst->IsSink() || !waits_for(edge)) continue;
      if (--waiting[edge->dst->id()] == 0) order.push_back(edge->dst);
    }
  }
  const int missing = graph.num_nodes() - 1 - static_cast<int>(order.size());
  if (missing > 0) return CycleError(graph, waiting, missing);
  order.push_back(graph.sink());
  return order;
}

// Depth first, inputs before the node, from node to node by id.
StatusOr<std::vector<Node*>> TopologicalOrderById(const Graph& graph) {
  enum State : uint8_t { kNew, kOpen, kDone };
  std::vector<State> state(static_cast<size_t>(graph.num_node_ids()), kNew);
  std::vector<Node*> order = {graph.source()};
  order.reserve(static_cast<size_t>(graph.num_nodes()));
  state[Graph::kSourceId] = kDone;
  std::vector<std::pair<Node*, size_t>> path;  // with the next input to look at
  for (int id = 2; id < graph.num_node_ids(); ++id) {
    if (graph.node(id) == nullptr || state[id] == kDone) continue;
    path.emplace_back(graph.node(id), 0);
    while (!path.empty()) {
      auto& [node, next] = path.back();
      state[node->id()] = kOpen;
      const Edge* edge = next < node->in_edges().size() ? node->in_edges()[next++] : nullptr;
      if (edge != nullptr) {
        if (state[edge->src->id()] == kDone || IsLoopBackEdge(*edge)) continue;
        if (state[edge->src->id()] == kOpen) return TopologicalOrder(graph).status();  // names the cycle
        path.emplace_back(edge->src, 0);
      } else if (next >= node->in_edges().size()) {
        state[node->id()] = kDone;
        order.push_back(node);
        path.pop_back();
      }
    }
  }
  order.push_back(graph.sink());
  return order;
}

Status Graph::Validate() const {
  int count = 0;
  for (int id = 0; id < num_node_ids(); ++id) {
    if (nodes_[id] == nullptr) continue;
    ++count;
    MR_RETURN_IF_ERROR(CheckNode(*this, nodes_[id], id));
  }
  if (count != num_nodes_) return errors::Internal("The graph counts ", num_nodes_, " nodes but has ", count);
  size_t edges = 0;
  for (int id = 0; id < num_edge_ids(); ++id) {
    if (edges_[id] == nullptr) continue;
    ++edges;
    MR_RETURN_IF_ERROR(CheckEdge(*this, edges_[id], id));
  }
  size_t listed = 0;
  for (const Node* node : nodes_) {
    if (node != nullptr) listed += node->out_edges().size();
  }
  if (listed != edges) return errors::Internal("Nodes list ", listed, " edges but the graph has ", edges);
  return Status();
}

}  // namespace millrace
