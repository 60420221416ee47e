// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/optimize/inline_cleanup.h"

#include <algorithm>
#include <vector>

namespace millrace {
namespace {

constexpr int kMaxRounds = 10;

// Redirects the consumers of output `output` of `node` (kControlSlot: its control outputs) to `src`.
void RedirectConsumers(Node* node, int output, Node* src, int src_output) {
  Graph& graph = node->graph();
  std::vector<Edge*> edges;
  for (Edge* edge : node->out_edges()) {
    if (edge->src_output == output) edges.push_back(edge);
  }
  for (Edge* edge : edges) {
    Node* dst = edge->dst;
    const int input = edge->dst_input;
    graph.RemoveEdge(edge);
    if (!dst->IsOp()) continue;
    if (output == Edge::kControlSlot) {
      graph.AddControlEdge(src, dst);
    } else {
      graph.AddEdge(src, src_output, dst, input);
    }
  }
}

bool Contains(const std::vector<Node*>& nodes, const Node* node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

bool HasControlInput(const Node& node) {
  return std::any_of(node.control_in_edges().begin(), node.control_in_edges().end(),
                     [](const Edge* e) { return e->src->IsOp(); });
}

bool IsAwaited(const Node& node) {
  return std::any_of(node.out_edges().begin(), node.out_edges().end(),
                     [](const Edge* e) { return e->IsControl() && e->dst->IsOp(); });
}

bool IsRemovableIdentity(const Node& node) {
  if (node.op_name() != "Identity" || !node.requested_device().empty() || HasControlInput(node)) return false;
  const Edge* input = node.in_edges()[0];
  if (input == nullptr || IsRefType(input->src->output_type(input->src_output))) return false;
  return !IsAwaited(node) || !input->src->traits().is_control_flow;
}

bool IsListArrayConverter(const Node& node) {
  if (node.op_name() != "_ListToArray" && node.op_name() != "_ArrayToList") return false;
  if (node.num_inputs() != node.num_outputs()) return false;
  const auto edges = node.data_in_edges();
  return std::all_of(edges.begin(), edges.end(), [](const Edge* e) {
    return e != nullptr && !IsRefType(e->src->output_type(e->src_output));
  });
}

// An Identity for each tensor, with the converter's control inputs. None if one can't be made.
std::vector<Node*> MakeIdentities(Node* converter) {
  Graph& graph = converter->graph();
  std::vector<Node*> made;
  for (int i = 0; i < converter->num_inputs(); ++i) {
    auto identity = graph.AddNode(graph.NewName(converter->name()), "Identity",
                                  {{"T", BaseType(converter->output_type(i))}});
    if (!identity.ok()) {
      for (Node* node : made) graph.RemoveNode(node);
      return {};
    }
    made.push_back(*identity);
    made.back()->set_requested_device(converter->requested_device());
  }
  for (int i = 0; i < converter->num_inputs(); ++i) {
    const Edge input = *converter->in_edges()[static_cast<size_t>(i)];
    graph.AddEdge(input.src, input.src_output, made[static_cast<size_t>(i)], 0);
    for (const Edge* edge : converter->control_in_edges()) {
      if (edge->src->IsOp()) graph.AddControlEdge(edge->src, made[static_cast<size_t>(i)]);
    }
  }
  return made;
}

}  // namespace

int RemoveListArrayConverters(Graph* graph, const std::vector<Node*>& keep) {
  int removed = 0;
  for (Node* node : graph->OpNodes()) {
    if (!IsListArrayConverter(*node) || Contains(keep, node)) continue;
    std::vector<Node*> identities;
    if (HasControlInput(*node) || IsAwaited(*node)) {
      identities = MakeIdentities(node);
      if (identities.empty()) continue;
    }
    for (int i = 0; i < node->num_inputs(); ++i) {
      const Edge input = *node->in_edges()[static_cast<size_t>(i)];
      if (identities.empty()) {
        RedirectConsumers(node, i, input.src, input.src_output);
      } else {
        RedirectConsumers(node, i, identities[static_cast<size_t>(i)], 0);
      }
    }
    std::vector<Node*> waiting;
    for (const Edge* edge : node->out_edges()) {
      if (edge->IsControl() && edge->dst->IsOp()) waiting.push_back(edge->dst);
    }
    for (Node* dst : waiting) {
      for (Node* identity : identities) graph->AddControlEdge(identity, dst);
    }
    graph->RemoveNode(node);
    ++removed;
  }
  return removed;
}

int RemoveDeadNodes(Graph* graph, const std::vector<Node*>& keep) {
  std::vector<bool> alive(static_cast<size_t>(graph->num_node_ids()), false);
  std::vector<const Node*> work(keep.begin(), keep.end());
  for (const Node* node : graph->OpNodes()) {
    if (node->op_def().is_stateful || node->traits().has_side_effects) work.push_back(node);
  }
  while (!work.empty()) {
    const Node* node = work.back();
    work.pop_back();
    if (alive[static_cast<size_t>(node->id())]) continue;
    alive[static_cast<size_t>(node->id())] = true;
    for (const Edge* edge : node->in_edges()) {
      if (edge != nullptr) work.push_back(edge->src);
    }
  }
  int removed = 0;
  for (Node* node : graph->OpNodes()) {
    if (alive[static_cast<size_t>(node->id())]) continue;
    graph->RemoveNode(node);
    ++removed;
  }
  return removed;
}

int RemoveIdentityNodes(Graph* graph, const std::vector<Node*>& keep) {
  int removed = 0;
  for (Node* node : graph->OpNodes()) {
    if (!IsRemovableIdentity(*node) || Contains(keep, node)) continue;
    const Edge input = *node->in_edges()[0];
    RedirectConsumers(node, 0, input.src, input.src_output);
    RedirectConsumers(node, Edge::kControlSlot, input.src, Edge::kControlSlot);
    graph->RemoveNode(node);
    ++removed;
  }
  return removed;
}

void CleanUpBody(FunctionBody* body) {
  Graph* graph = body->graph.get();
  for (int round = 0; round < kMaxRounds; ++round) {
    int removed = RemoveListArrayConverters(graph, body->control_rets);
    removed += RemoveDeadNodes(graph, body->control_rets);
    removed += RemoveIdentityNodes(graph, body->control_rets);
    if (removed == 0) break;
  }
  graph->FixupSourceAndSinkEdges();
}

}  // namespace millrace
