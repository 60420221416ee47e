// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/optimize/branches.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace millrace {
namespace {

bool IsSwitch(const Node& node) { return node.op_name() == "Switch"; }
bool IsMerge(const Node& node) { return node.op_name() == "Merge"; }

bool ClosesLoop(const Node& merge) {
  return std::any_of(merge.data_in_edges().begin(), merge.data_in_edges().end(),
                     [](const Edge* e) { return IsLoopBackEdge(*e); });
}

// What a Switch that always goes one way makes dead.
class DeadPart {
 public:
  explicit DeadPart(const Rewriter& rewriter) : rewriter_(rewriter) {}

  // False when it can't be taken out.
  bool Find(const Node& node, int dead_output) {
    for (const Edge* edge : node.out_edges()) {
      if (edge->src_output == dead_output && !Reach(*edge)) return false;
    }
    for (size_t next = 0; next < queue_.size(); ++next) {
      for (const Edge* edge : queue_[next]->out_edges()) {
        if (!Reach(*edge)) return false;
      }
    }
    for (const auto& [merge, dead_inputs] : merges_) {
      if (nodes_.contains(merge)) continue;
      if (static_cast<int>(dead_inputs) != merge->num_inputs() - 1) return false;
    }
    return true;
  }

  const std::vector<Node*>& nodes() const { return queue_; }
  bool Contains(Node* node) const { return nodes_.contains(node); }
  // Merges of which one input is left.
  std::vector<Node*> Merges() const {
    std::vector<Node*> merges;
    for (const auto& [merge, dead_inputs] : merges_) {
      if (!nodes_.contains(merge)) merges.push_back(merge);
    }
    std::sort(merges.begin(), merges.end(), [](const Node* a, const Node* b) { return a->id() < b->id(); });
    return merges;
  }

 private:
  bool Reach(const Edge& edge) {
    Node* node = edge.dst;
    if (!node->IsOp() || nodes_.contains(node)) return true;
    if (IsMerge(*node)) {
      if (edge.IsControl() || ClosesLoop(*node)) return false;
      if (++merges_[node] < static_cast<size_t>(node->num_inputs())) return true;
    } else if ((node->traits().is_control_flow && !IsSwitch(*node)) || node->traits().is_send ||
               node->op_name() == "_Retval") {
      return false;
    }
    if (rewriter_.IsPreserved(*node)) return false;
    nodes_.insert(node);
    queue_.push_back(node);
    return true;
  }

  const Rewriter& rewriter_;
  std::unordered_set<Node*> nodes_;
  std::vector<Node*> queue_;
  std::unordered_map<Node*, size_t> merges_;  // and how many of their inputs are dead
};

class BranchResolver {
 public:
  BranchResolver(Graph* graph, const OptimizeOptions& options) : graph_(graph), rewriter_(graph, options) {}

  int Run() {
    for (Node* node : graph_->OpNodes()) {
      if (!node->IsOp() || rewriter_.IsPreserved(*node)) continue;
      if (IsSwitch(*node)) ResolveSwitch(node);
      if (node->IsOp() && IsMerge(*node)) ResolveMerge(node);
    }
    if (resolved_ > 0) graph_->FixupSourceAndSinkEdges();
    return resolved_;
  }

 private:
  // Whether an Identity can stand in for a node.
  bool HasIdentity(const Node& node) const {
    AttrMap attrs;
    attrs.Set("T", BaseType(node.output_type(0)));
    const auto op = graph_->LookUpOp("Identity");
    if (!op.ok()) return false;
    const auto props = NodeProps::Make(**op, std::move(attrs));
    return props.ok() && rewriter_.HasKernel(node, **props);
  }

  // An Identity of `value` in the place of `node`: with what it waited for, and who waited for it.
  Node* StandIn(Node* node, const TensorRef& value) {
    AttrMap attrs;
    attrs.Set("T", BaseType(value.node->output_type(value.output)));
    Node* identity = rewriter_.Add(*node, "taken", "Identity", std::move(attrs), {value});
    if (identity == nullptr) return nullptr;
    for (Node* wait : Rewriter::ControlInputs(*node)) graph_->AddControlEdge(wait, identity);
    std::vector<Edge*> waiting;
    for (Edge* edge : node->out_edges()) {
      if (edge->IsControl() && edge->dst->IsOp()) waiting.push_back(edge);
    }
    for (Edge* edge : waiting) {
      Node* dst = edge->dst;
      graph_->RemoveEdge(edge);
      graph_->AddControlEdge(identity, dst);
    }
    return identity;
  }

  void ResolveSwitch(Node* node) {
    const TensorRef pred = InputOf(*node, 1);
    const Tensor* value = IsFreeConst(*pred.node) ? ConstTensorOf(*pred.node) : nullptr;
    if (value == nullptr || value->dtype() != DataType::kBool || value->rank() != 0) return;
    const int live = value->scalar<bool>() ? 1 : 0;
    DeadPart dead(rewriter_);
    if (!dead.Find(*node, 1 - live)) return;
    for (Node* merge : dead.Merges()) {
      if (rewriter_.IsPreserved(*merge) || !HasIdentity(*merge)) return;
    }
    const TensorRef data = InputOf(*node, 0);
    Node* taken = StandIn(node, data);
    if (taken == nullptr) return;
    rewriter_.MoveConsumers({node, live}, {taken, 0});
    for (Node* merge : dead.Merges()) {
      for (int i = 0; i < merge->num_inputs(); ++i) {
        const TensorRef input = InputOf(*merge, i);
        if (!dead.Contains(input.node) && input.node != node) TakeInput(merge, i);
        if (!merge->IsOp()) break;
      }
    }
    for (Node* gone : dead.nodes()) graph_->RemoveNode(gone);
    graph_->RemoveNode(node);
    ++resolved_;
  }

  // Makes `merge` hand on its input i for good.
  void TakeInput(Node* merge, int i) {
    Node* taken = StandIn(merge, InputOf(*merge, i));
    if (taken == nullptr) return;
    rewriter_.MoveConsumers({merge, 0}, {taken, 0});
    if (merge->num_outputs() > 1) {
      std::vector<Node*> after;
      if (!IsFreeConst(*InputOf(*taken, 0).node)) after.push_back(taken);
      Node* index = rewriter_.AddConst(*merge, "index", Tensor::Scalar(static_cast<int32_t>(i)), after);
      rewriter_.MoveConsumers({merge, 1}, {index, 0});
    }
    graph_->RemoveNode(merge);
    ++resolved_;
  }

  void ResolveMerge(Node* node) {
    if (ClosesLoop(*node) || !HasIdentity(*node)) return;
    for (int i = 0; i < node->num_inputs(); ++i) {
      if (!IsFreeConst(*InputOf(*node, i).node)) continue;
      std::vector<Node*> inputs;
      for (int j = 0; j < node->num_inputs(); ++j) inputs.push_back(InputOf(*node, j).node);
      TakeInput(node, i);
      for (Node* input : inputs) rewriter_.RemoveUnused(input);
      return;
    }
  }

  Graph* const graph_;
  Rewriter rewriter_;
  int resolved_ = 0;
};

}  // namespace

int ResolveBranches(Graph* graph, const OptimizeOptions& options) {
  const std::vector<Node*> nodes = graph->OpNodes();
  const bool any = std::any_of(nodes.begin(), nodes.end(), [](const Node* n) {
    return n->traits().is_control_flow && (IsSwitch(*n) || IsMerge(*n));
  });
  return any ? BranchResolver(graph, options).Run() : 0;
}

}  // namespace millrace
