// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/optimize/loop_invariants.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compile/optimize/loop_variables.h"
#include "graph/frames.h"

namespace millrace {
namespace {

// The most memory that a loop holds for each node that was moved out of it.
constexpr int64_t kMaxHeldBytes = int64_t{16} << 20;

class Mover {
 public:
  Mover(Graph* graph, const OptimizeOptions& options) : graph_(graph), rewriter_(graph, options) {}

  StatusOr<int> Run() {
    const std::vector<Node*> nodes = graph_->OpNodes();
    if (std::none_of(nodes.begin(), nodes.end(), [](const Node* n) { return FlowOf(*n) == Flow::kEnter; }))
      return 0;
    MR_ASSIGN_OR_RETURN(int changes, FreezeLoopVariables(&rewriter_));
    MR_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(*graph_));
    for (Node* node : order) {
      if (node->IsOp() && Qualifies(*node) && Move(node)) ++changes;
    }
    if (changes > 0) graph_->FixupSourceAndSinkEdges();
    return changes;
  }

 private:
  // The sources of a node's inputs.
  struct Origin {
    const Node* enter = nullptr;     // a constant Enter of the loop; null: differs between iterations
    const Node* iterates = nullptr;  // the Switch of the loop's condition on the path of the inputs; or null
  };

  // A value that enters the loop, with or without passing the Switch that ends it.
  static const Node* EnterOf(const TensorRef& input, const Node** iterates) {
    const Node* node = input.node;
    if (FlowOf(*node) == Flow::kSwitch && input.output == 1 && !HasControlInputs(*node) &&
        FlowOf(*InputOf(*node, 1).node) == Flow::kCond) {
      *iterates = node;
      node = InputOf(*node, 0).node;
    }
    return IsConstantEnter(*node) ? node : nullptr;
  }

  static Origin OriginOf(const Node& node) {
    Origin origin;
    for (int i = 0; i < node.num_inputs(); ++i) {
      const TensorRef input = InputOf(node, i);
      if (input.node->op_name() == "Const") continue;
      const Node* iterates = nullptr;
      const Node* enter = EnterOf(input, &iterates);
      if (enter == nullptr) return {};
      const bool same_loop = origin.enter == nullptr || *enter->Attr<std::string>("frame_name") ==
                                                            *origin.enter->Attr<std::string>("frame_name");
      const bool same_condition = origin.iterates == nullptr || iterates == nullptr ||
                                  InputOf(*iterates, 1) == InputOf(*origin.iterates, 1);
      if (!same_loop || !same_condition) return {};
      origin.enter = enter;
      if (iterates != nullptr) origin.iterates = iterates;
    }
    return origin;
  }

  bool Qualifies(const Node& node) {
    if (node.num_inputs() == 0 || node.num_outputs() != 1 || rewriter_.MustStay(node) || !IsPure(node) ||
        OriginOf(node).enter == nullptr) {
      return false;
    }
    const DataType type = node.output_type(0);
    if (DataTypeSize(type) == 0) return false;
    if (!rewriter_.CannotFail(node)) return false;
    // A result of unknown size may be at most as large as the values that enter the loop.
    const auto shape = rewriter_.ShapeOf({const_cast<Node*>(&node), 0}).ToTensorShape();
    const auto size = static_cast<int64_t>(DataTypeSize(type));
    if (shape.ok()) return shape->num_elements() <= kMaxHeldBytes / size;
    return DataTypeSize(node.input_type(0)) >= DataTypeSize(type);
  }

  // The tensor outside of the loop that is `input` inside. A constant is copied to the frame of
  // `beside`.
  TensorRef Outside(const Node& node, const TensorRef& input, Node* beside) {
    const Node* iterates = nullptr;
    if (const Node* enter = EnterOf(input, &iterates); enter != nullptr) return InputOf(*enter, 0);
    std::vector<Node*> after;
    if (!IsFreeConst(*beside)) after.push_back(beside);
    return {rewriter_.AddConst(node, "outside", *ConstTensorOf(*input.node), after), 0};
  }

  bool Move(Node* node) {
    const Origin origin = OriginOf(*node);
    Node* beside = InputOf(*origin.enter, 0).node;
    std::vector<TensorRef> dropped;
    for (int i = 0; i < node->num_inputs(); ++i) {
      const TensorRef input = InputOf(*node, i);
      if (input.node->op_name() == "Const") dropped.push_back(input);
    }
    if (!dropped.empty()) beside = rewriter_.Anchor(*node, InputOf(*origin.enter, 0));
    if (beside == nullptr) return false;
    std::vector<TensorRef> inputs;
    for (int i = 0; i < node->num_inputs(); ++i) inputs.push_back(Outside(*node, InputOf(*node, i), beside));
    std::vector<Node*> made;
    const TensorRef inside = BringIn(*node, origin, inputs, &made);
    if (inside.node != nullptr && rewriter_.TryReplace(node, {inside}, dropped)) return true;
    for (auto it = made.rbegin(); it != made.rend(); ++it) {
      if ((*it)->IsOp()) rewriter_.RemoveUnused(*it);
    }
    for (const TensorRef& input : inputs) {
      if (input.node->IsOp()) rewriter_.RemoveUnused(input.node);
    }
    return false;
  }

  // Computes the node outside, and adds an Enter for it. Appends new nodes to `made`, also unused ones.
  TensorRef BringIn(const Node& node, const Origin& origin, const std::vector<TensorRef>& inputs,
                    std::vector<Node*>* made) {
    const auto add = [&](std::string_view suffix, std::string_view op, AttrMap attrs,
                         const std::vector<TensorRef>& from) {
      Node* added = rewriter_.Add(node, suffix, op, std::move(attrs), from);
      if (added != nullptr) made->push_back(added);
      return added;
    };
    Node* const outside = add("invariant", node.op_name(), node.attrs(), inputs);
    if (outside == nullptr) return {};
    AttrMap attrs = origin.enter->attrs();
    attrs.Set("T", node.output_type(0));
    Node* const entered = add("enter", "Enter", std::move(attrs), {{outside, 0}});
    if (entered == nullptr || origin.iterates == nullptr) return {entered, 0};
    AttrMap type;
    type.Set("T", node.output_type(0));
    return {add("iterates", "Switch", std::move(type), {{entered, 0}, InputOf(*origin.iterates, 1)}), 1};
  }

  Graph* const graph_;
  Rewriter rewriter_;
};

}  // namespace

StatusOr<int> MoveLoopInvariants(Graph* graph, const OptimizeOptions& options) {
  return Mover(graph, options).Run();
}

}  // namespace millrace
