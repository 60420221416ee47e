// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/optimize/loop_invariants.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "compile/optimize/arithmetic_rules.h"
#include "op/shape_inference.h"

namespace millrace {
namespace {

// A loop holds on to this much for each node that was moved out of it, at most.
constexpr int64_t kMaxHeldBytes = int64_t{16} << 20;

bool IsConstantEnter(const Node& node) {
  return node.op_name() == "Enter" && node.Attr<bool>("is_constant").value_or(false);
}

// Integers are divided by zero, and raised to negative powers, with an error.
bool NeverFails(const Node& node) {
  const OpTraits& traits = node.traits();
  if (traits.never_fold || traits.only_checks) return false;
  if (traits.forwards || traits.metadata_only) return true;
  if (!traits.elementwise) return false;
  const bool integers =
      std::any_of(node.props().input_types.begin(), node.props().input_types.end(),
                  [](DataType t) { return arithmetic::IsExact(t) && t != DataType::kBool; });
  return !integers || node.num_inputs() == 1 || traits.associative || traits.right_unit == Unit::kZero ||
         node.output_type(0) == DataType::kBool;
}

class Mover {
 public:
  Mover(Graph* graph, const OptimizeOptions& options) : graph_(graph), rewriter_(graph, options) {}

  StatusOr<int> Run() {
    const std::vector<Node*> nodes = graph_->OpNodes();
    if (std::none_of(nodes.begin(), nodes.end(), [](const Node* n) { return IsConstantEnter(*n); })) return 0;
    MR_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(*graph_));
    for (Node* node : order) {
      if (node->IsOp() && Qualifies(*node)) Move(node);
    }
    if (moved_ > 0) graph_->FixupSourceAndSinkEdges();
    return moved_;
  }

 private:
  // The Enter behind the first input that is one; null when some input isn't the same in all iterations.
  const Node* EnterOf(const Node& node) const {
    const Node* enter = nullptr;
    for (const Edge* edge : node.data_in_edges()) {
      const Node& src = *edge->src;
      if (ConstTensorOf(src) != nullptr) continue;
      if (!IsConstantEnter(src)) return nullptr;
      if (enter != nullptr && *src.Attr<std::string>("frame_name") != *enter->Attr<std::string>("frame_name"))
        return nullptr;
      enter = &src;
    }
    return enter;
  }

  bool Qualifies(const Node& node) {
    if (node.num_inputs() == 0 || node.num_outputs() != 1 || rewriter_.MustStay(node) || !IsPure(node) ||
        !NeverFails(node) || EnterOf(node) == nullptr) {
      return false;
    }
    TensorShape shape;
    for (int i = 0; i < node.num_inputs(); ++i) {
      const auto input = rewriter_.ShapeOf(InputOf(node, i)).ToTensorShape();
      if (!input.ok()) return false;
      if (node.traits().metadata_only) continue;
      const auto both = i == 0 ? StatusOr<TensorShape>(*input) : BroadcastShapes(shape, *input);
      if (!both.ok()) return false;
      shape = *both;
    }
    const auto size = static_cast<int64_t>(DataTypeSize(node.output_type(0)));
    return size > 0 && shape.num_elements() <= kMaxHeldBytes / size;
  }

  // The tensor outside of which `input` is the value inside. A constant is made anew, in the frame of
  // `beside`.
  TensorRef Outside(const Node& node, const TensorRef& input, Node* beside) {
    if (IsConstantEnter(*input.node)) return InputOf(*input.node, 0);
    return {rewriter_.AddConst(node, "outside", *ConstTensorOf(*input.node), {beside}), 0};
  }

  void Move(Node* node) {
    const Node& enter = *EnterOf(*node);
    const TensorRef before = InputOf(enter, 0);
    const bool has_constants = std::any_of(node->data_in_edges().begin(), node->data_in_edges().end(),
                                           [](const Edge* e) { return ConstTensorOf(*e->src) != nullptr; });
    // Who waits for a Switch waits for none of its branches, so that there is nothing for the constant to
    // wait for.
    if (has_constants && before.node->traits().is_control_flow) return;
    std::vector<TensorRef> inputs;
    std::vector<TensorRef> dropped;
    for (int i = 0; i < node->num_inputs(); ++i) {
      const TensorRef input = InputOf(*node, i);
      if (!IsConstantEnter(*input.node)) dropped.push_back(input);
      inputs.push_back(Outside(*node, input, before.node));
    }
    Node* outside = rewriter_.Add(*node, "invariant", node->op_name(), node->attrs(), inputs);
    Node* entered = nullptr;
    if (outside != nullptr) {
      AttrMap attrs = enter.attrs();
      attrs.Set("T", node->output_type(0));
      entered = rewriter_.Add(*node, "enter", "Enter", std::move(attrs), {{outside, 0}});
    }
    if (entered != nullptr && rewriter_.TryReplace(node, {{entered, 0}}, dropped)) {
      ++moved_;
      return;
    }
    for (Node* unused : {entered, outside}) {
      if (unused != nullptr) rewriter_.RemoveUnused(unused);
    }
    for (const TensorRef& input : inputs) rewriter_.RemoveUnused(input.node);
  }

  Graph* const graph_;
  Rewriter rewriter_;
  int moved_ = 0;
};

}  // namespace

StatusOr<int> MoveLoopInvariants(Graph* graph, const OptimizeOptions& options) {
  return Mover(graph, options).Run();
}

}  // namespace millrace
