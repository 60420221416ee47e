// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/optimize/loop_variables.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "graph/frames.h"

namespace millrace {
namespace {

int CountUses(const Node& node) {
  return static_cast<int>(std::count_if(node.out_edges().begin(), node.out_edges().end(),
                                        [](const Edge* e) { return e->dst->IsOp(); }));
}

bool IsWaitedFor(const Node& node) {
  return std::any_of(node.out_edges().begin(), node.out_edges().end(),
                     [](const Edge* e) { return e->IsControl() && e->dst->IsOp(); });
}

// The source of a value that is only forwarded.
TensorRef Origin(TensorRef tensor) {
  while (tensor.node->op_name() == "Identity" && !HasControlInputs(*tensor.node))
    tensor = InputOf(*tensor.node, 0);
  return tensor;
}

class Freezer {
 public:
  explicit Freezer(Rewriter* rewriter) : rewriter_(*rewriter), graph_(rewriter->graph()) {}

  StatusOr<int> Run() {
    MR_ASSIGN_OR_RETURN(order_, TopologicalOrder(graph_));
    // Other passes refuse malformed loops.
    const StatusOr<Frames> frames = FindFrames(graph_, order_);
    if (!frames.ok()) return 0;
    FindEffects(*frames);
    frozen_.assign(static_cast<size_t>(graph_.num_node_ids()), false);
    FindCandidates(*frames);
    for (Node* node : order_) {
      if (!node->IsOp()) continue;
      const auto id = static_cast<size_t>(node->id());
      if (candidate_[id] && changes_[FrameOf(*frames, *node)]) Freeze(node);
      if (node->IsOp() && node->op_name() == "Exit") TakeFromOutside(node);
    }
    return removed_;
  }

 private:
  static size_t FrameOf(const Frames& frames, const Node& node) {
    return static_cast<size_t>(frames.frame_of[static_cast<size_t>(node.id())]);
  }

  // An effect in a loop is also an effect in the enclosing loops.
  void FindEffects(const Frames& frames) {
    has_effects_.assign(frames.frames.size(), false);
    for (const Node* node : order_) {
      if (!node->IsOp() || node->traits().is_control_flow || !rewriter_.MustStay(*node)) continue;
      has_effects_[FrameOf(frames, *node)] = true;
    }
    for (size_t f = has_effects_.size(); f-- > 1;) {
      if (has_effects_[f]) has_effects_[static_cast<size_t>(frames.frames[f].parent)] = true;
    }
    // There are no loop variables outside of loops.
    has_effects_[0] = true;
  }

  // A loop none of whose variables changes makes no iteration or never ends, and is kept.
  void FindCandidates(const Frames& frames) {
    candidate_.assign(static_cast<size_t>(graph_.num_node_ids()), false);
    changes_.assign(frames.frames.size(), false);
    for (Node* node : order_) {
      if (!node->IsOp() || FlowOf(*node) != Flow::kMerge) continue;
      const size_t frame = FrameOf(frames, *node);
      const auto edges = node->data_in_edges();
      if (has_effects_[frame] ||
          std::none_of(edges.begin(), edges.end(), [](const Edge* e) { return IsLoopBackEdge(*e); }))
        continue;
      const bool may_freeze = MayFreeze(node);
      candidate_[static_cast<size_t>(node->id())] = may_freeze;
      if (!may_freeze) changes_[frame] = true;
    }
  }

  // The Switch of a variable that each iteration forwards unchanged.
  static Node* SwitchOf(Node* merge, const Node& next) {
    const TensorRef last = Origin(InputOf(next, 0));
    if (last.node->op_name() != "Switch" || last.output != 1) return nullptr;
    if (InputOf(*last.node, 0) != TensorRef{merge, 0}) return nullptr;
    return FlowOf(*InputOf(*last.node, 1).node) == Flow::kCond ? last.node : nullptr;
  }

  static std::pair<Node*, Node*> EnterAndNext(const Node& merge) {
    Node* const enter = InputOf(merge, 0).node;
    Node* const next = InputOf(merge, 1).node;
    return FlowOf(*enter) == Flow::kNext ? std::pair(next, enter) : std::pair(enter, next);
  }

  bool MayFreeze(Node* merge) const {
    if (merge->op_name() != "Merge" || merge->num_inputs() != 2 || HasControlInputs(*merge) ||
        CountConsumers(*merge, 1) > 0)
      return false;
    const auto [enter, next] = EnterAndNext(*merge);
    if (enter->op_name() != "Enter" || next->op_name() != "NextIteration" || IsConstantEnter(*enter))
      return false;
    if (CountUses(*enter) != 1 || CountUses(*next) != 1 || HasControlInputs(*next)) return false;
    for (const Node* node :
         {static_cast<const Node*>(merge), static_cast<const Node*>(enter), static_cast<const Node*>(next)}) {
      if (rewriter_.IsPreserved(*node)) return false;
    }
    const TensorRef value = InputOf(*enter, 0);
    return SwitchOf(merge, *next) != nullptr && !IsRefType(value.node->output_type(value.output));
  }

  void Freeze(Node* merge) {
    const auto [enter, next] = EnterAndNext(*merge);
    enter->SetAttr("is_constant", true);
    rewriter_.MoveConsumers({merge, 0}, {enter, 0});
    const std::vector<Edge*> edges(merge->out_edges().begin(), merge->out_edges().end());
    for (Edge* edge : edges) {
      if (edge->dst->IsOp()) graph_.AddControlEdge(enter, edge->dst);
    }
    Node* const before = InputOf(*next, 0).node;
    graph_.RemoveNode(next);
    graph_.RemoveNode(merge);
    removed_ += 2;
    frozen_[static_cast<size_t>(enter->id())] = true;
    rewriter_.RemoveUnused(before);  // and the Enter, if there is no other consumer of the variable
  }

  // Values that leave the loop unchanged: directly from an Enter, or through the Switch of a frozen variable.
  void TakeFromOutside(Node* exit) {
    if (HasControlInputs(*exit) || IsWaitedFor(*exit) || rewriter_.IsPreserved(*exit)) return;
    TensorRef from = Origin(InputOf(*exit, 0));
    if (from.node->op_name() == "Switch" && from.output == 0 && !HasControlInputs(*from.node)) {
      const TensorRef data = InputOf(*from.node, 0);
      if (!frozen_[static_cast<size_t>(data.node->id())]) return;
      if (FlowOf(*InputOf(*from.node, 1).node) != Flow::kCond) return;
      from = data;
    }
    if (from.node->op_name() != "Enter" || HasControlInputs(*from.node)) return;
    const TensorRef value = InputOf(*from.node, 0);
    if (IsRefType(value.node->output_type(value.output))) return;
    rewriter_.MoveConsumers({exit, 0}, value);
    rewriter_.RemoveUnused(exit);
    ++removed_;
  }

  Rewriter& rewriter_;
  Graph& graph_;
  std::vector<Node*> order_;
  std::vector<bool> has_effects_;  // by frame
  std::vector<bool> changes_;      // by frame: whether any variable of the loop changes
  std::vector<bool> candidate_;    // by id: Merges of variables that don't change
  std::vector<bool> frozen_;       // by id: Enters of variables that this call froze
  int removed_ = 0;
};

}  // namespace

StatusOr<int> FreezeLoopVariables(Rewriter* rewriter) { return Freezer(rewriter).Run(); }

}  // namespace millrace
