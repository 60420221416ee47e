// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/optimize/dependencies.h"

#include <algorithm>
#include <vector>

#include "graph/frames.h"

namespace millrace {
namespace {

// The limits of edges visited by one search for another path, and, per edge of the graph, by all of a call.
constexpr int kSearchEdges = 64;
constexpr int64_t kTotalFactor = 4;

bool IsNoOp(const Node& node) {
  return node.num_inputs() == 0 && node.num_outputs() == 0 && !node.traits().is_control_flow && IsPure(node);
}

// Whether a node is dead if any input is dead: not a Merge or a ControlTrigger.
bool DiesWithInputs(const Node& node) {
  const Flow flow = FlowOf(node);
  return flow != Flow::kMerge && flow != Flow::kTrigger;
}

class DependencyOptimizer {
 public:
  DependencyOptimizer(Graph* graph, const OptimizeOptions& options)
      : graph_(graph), rewriter_(graph, options), may_be_any_(!options.preserve.empty()) {}

  StatusOr<int> Run() {
    if (!HasWork()) return 0;
    for (Node* node : graph_->OpNodes()) {
      if (!node->IsOp()) continue;  // removed together with another one
      DropWaitsForConstants(node);
      if (IsOnlyWaitedFor(*node)) node = MakeNoOp(node);
      if (node->IsOp() && IsNoOp(*node)) RemoveNoOp(node);
    }
    MR_RETURN_IF_ERROR(DropImpliedEdges());
    if (changes_ > 0) graph_->FixupSourceAndSinkEdges();
    return changes_;
  }

 private:
  bool HasWork() const {
    for (int id = 0; id < graph_->num_edge_ids(); ++id) {
      const Edge* edge = graph_->edge(id);
      if (edge != nullptr && edge->IsControl() && edge->src->IsOp() && edge->dst->IsOp()) return true;
    }
    return false;
  }
  bool IsPreserved(const Node& node) const { return may_be_any_ && rewriter_.IsPreserved(node); }

  void DropWaitsForConstants(Node* node);
  bool IsOnlyWaitedFor(const Node& node);
  Node* MakeNoOp(Node* node);
  void RemoveNoOp(Node* node);
  Status DropImpliedEdges();
  bool IsImplied(const Node& node, const Edge& edge);

  Graph* const graph_;
  Rewriter rewriter_;
  const bool may_be_any_;
  int changes_ = 0;
  std::vector<int> position_;  // by id: place in a topological order
  std::vector<int> seen_;      // by id: the last search that visited it
  std::vector<const Node*> queue_;
  int search_ = 0;
  int64_t edges_left_ = 0;
};

void DependencyOptimizer::DropWaitsForConstants(Node* node) {
  if (!IsFreeConst(*node)) return;
  for (size_t i = node->out_edges().size(); i-- > 0;) {
    Edge* edge = node->out_edges()[i];
    if (!edge->IsControl() || !edge->dst->IsOp()) continue;
    graph_->RemoveEdge(edge);
    ++changes_;
  }
  rewriter_.RemoveUnused(node);
}

// A pure node with control outputs only, all of whose inputs are alive whenever it is: none comes from a
// Switch, only one of whose outputs is alive. Nodes with possible errors are kept.
bool DependencyOptimizer::IsOnlyWaitedFor(const Node& node) {
  if (!node.IsOp() || node.num_outputs() == 0 || !IsPure(node) || node.out_edges().empty() ||
      IsPreserved(node))
    return false;
  bool waited_for = false;
  for (const Edge* edge : node.out_edges()) {
    if (!edge->dst->IsOp()) continue;
    if (!edge->IsControl()) return false;
    waited_for = true;
  }
  if (!waited_for || IsFreeConst(node)) return false;
  return std::all_of(node.data_in_edges().begin(), node.data_in_edges().end(),
                     [](const Edge* e) { return CanBeWaitedFor(*e->src); }) &&
         rewriter_.CannotFail(node);
}

Node* DependencyOptimizer::MakeNoOp(Node* node) {
  Node* no_op = rewriter_.Add(*node, "waits", "NoOp", {}, {});
  if (no_op == nullptr) return node;
  for (const Edge* edge : node->in_edges()) {
    if (edge->src->IsOp() && !IsFreeConst(*edge->src)) graph_->AddControlEdge(edge->src, no_op);
  }
  const std::vector<Edge*> edges(node->out_edges().begin(), node->out_edges().end());
  for (Edge* edge : edges) {
    Node* dst = edge->dst;
    if (!dst->IsOp()) continue;
    graph_->RemoveEdge(edge);
    graph_->AddControlEdge(no_op, dst);
  }
  rewriter_.RemoveUnused(node);
  ++changes_;
  return no_op;
}

// Only between neighbours on one device, as each edge between devices costs a transfer.
void DependencyOptimizer::RemoveNoOp(Node* node) {
  if (IsPreserved(*node)) return;
  std::vector<Node*> before;
  std::vector<Node*> after;
  for (const Edge* edge : node->in_edges()) {
    if (edge->src->IsOp()) before.push_back(edge->src);
  }
  bool movable = true;
  const int device = node->assigned_device_index();
  for (const Edge* edge : node->out_edges()) {
    if (!edge->dst->IsOp()) continue;
    after.push_back(edge->dst);
    movable &= DiesWithInputs(*edge->dst) && edge->dst->assigned_device_index() == device;
  }
  for (const Node* src : before) movable &= src->assigned_device_index() == device;
  if (!movable || before.size() * after.size() > before.size() + after.size()) return;
  // Without inputs it belongs to no frame and is never dead.
  for (Node* src : before) {
    for (Node* dst : after) graph_->AddControlEdge(src, dst);
  }
  graph_->RemoveNode(node);
  ++changes_;
  for (Node* src : before) rewriter_.RemoveUnused(src);
}

// Whether `node` waits for edge.src without the edge. Nodes of control flow may forward dead tensors, so that
// nothing is concluded across them.
bool DependencyOptimizer::IsImplied(const Node& node, const Edge& edge) {
  const Node* const target = edge.src;
  const int first = position_[static_cast<size_t>(target->id())];
  ++search_;
  queue_.clear();
  int edges = 0;
  const auto look_at = [&](const Node& at, const Edge* skip) {
    for (const Edge* in : at.in_edges()) {
      if (in == skip || !in->src->IsOp()) continue;
      if (++edges > kSearchEdges) return false;
      // A Switch has run before its consumers, whichever of its outputs they use; its deadness is
      // theirs.
      if (in->src == target) return true;
      const auto id = static_cast<size_t>(in->src->id());
      if (seen_[id] == search_ || position_[id] <= first || in->src->traits().is_control_flow) continue;
      seen_[id] = search_;
      queue_.push_back(in->src);
    }
    return false;
  };
  bool found = look_at(node, &edge);
  for (size_t next = 0; !found && next < queue_.size() && edges <= kSearchEdges; ++next)
    found = look_at(*queue_[next], nullptr);
  edges_left_ -= edges;
  return found;
}

Status DependencyOptimizer::DropImpliedEdges() {
  MR_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(*graph_));
  position_.assign(static_cast<size_t>(graph_->num_node_ids()), 0);
  seen_.assign(static_cast<size_t>(graph_->num_node_ids()), 0);
  for (size_t i = 0; i < order.size(); ++i)
    position_[static_cast<size_t>(order[i]->id())] = static_cast<int>(i);
  edges_left_ = kTotalFactor * graph_->num_edge_ids() + 1024;
  std::vector<Edge*> edges;
  for (Node* node : order) {
    if (!node->IsOp() || !DiesWithInputs(*node) || node->in_edges().size() < 2) continue;
    edges.clear();
    for (Edge* edge : node->control_in_edges()) {
      if (edge->src->IsOp()) edges.push_back(edge);
    }
    for (Edge* edge : edges) {
      if (edges_left_ < 0) return Status();
      if (!IsImplied(*node, *edge)) continue;
      graph_->RemoveEdge(edge);
      ++changes_;
    }
  }
  return Status();
}

}  // namespace

StatusOr<int> OptimizeDependencies(Graph* graph, const OptimizeOptions& options) {
  return DependencyOptimizer(graph, options).Run();
}

}  // namespace millrace
