// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/optimize/elementwise.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "op/elementwise_program.h"

namespace millrace {
namespace {

using Program = ElementwiseProgram;

// The number of instructions of a node: sums of many terms take several.
int InstructionsOf(const Node& node, const ElementwiseForm& form) {
  return form.operands == ElementwiseForm::Operands::kSum ? node.num_inputs() - 1 : 1;
}

// Whether the shapes may be equal: true unless they are known to differ.
bool MayBeSame(const PartialShape& a, const PartialShape& b) {
  if (a.unknown_rank() || b.unknown_rank()) return true;
  if (a.rank() != b.rank()) return false;
  for (int i = 0; i < a.rank(); ++i) {
    if (a.dim(i) >= 0 && b.dim(i) >= 0 && a.dim(i) != b.dim(i)) return false;
  }
  return true;
}

// Whether tensors of these shapes with equal numbers of elements have equal shapes.
bool AreSameWithEqualCounts(const PartialShape& a, const PartialShape& b) {
  if (a.unknown_rank() || b.unknown_rank() || !MayBeSame(a, b)) return false;
  int unknown = 0;
  for (int i = 0; i < a.rank(); ++i) unknown += a.dim(i) < 0 || b.dim(i) < 0;
  return unknown <= 1;
}

// Nodes that are fused. All lead to the first, and only the results of the first are used outside the group,
// so no path leaves the group and returns to it.
struct Group {
  std::vector<Node*> nodes;  // consumers before their producers
  std::vector<TensorRef> inputs;
  int instructions = 0;

  Node* last() const { return nodes.front(); }
};

class Grouper {
 public:
  Grouper(Graph* graph, const OptimizeOptions& options) : graph_(graph), rewriter_(graph, options) {}

  StatusOr<int> Run() {
    MR_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(*graph_));
    group_of_.assign(static_cast<size_t>(graph_->num_node_ids()), kNone);
    for (auto it = order.rbegin(); it != order.rend(); ++it) Visit(*it);
    int removed = 0;
    for (const Group& group : groups_) {
      if (group.nodes.size() > 1 && Replace(group)) removed += static_cast<int>(group.nodes.size()) - 1;
    }
    if (removed > 0) graph_->FixupSourceAndSinkEdges();
    return removed;
  }

 private:
  static constexpr int kNone = -1;

  int& GroupOf(const Node& node) { return group_of_[static_cast<size_t>(node.id())]; }

  void Visit(Node* node) {
    if (!node->IsOp() || !IsPure(*node)) return;
    const ElementwiseForm* const form = InstructionOf(node->props());
    if (form == nullptr || InstructionsOf(*node, *form) > Program::kMaxInstructions) return;
    // Groups do not support different shapes, even if the op's own kernel does.
    if (form->operands == ElementwiseForm::Operands::kSameCount &&
        !AreSameWithEqualCounts(rewriter_.ShapeOf(InputOf(*node, 0)), rewriter_.ShapeOf(InputOf(*node, 1)))) {
      return;
    }
    int group = GroupOfConsumers(*node);
    if (group == kNone || !Fits(*node, *form, groups_[static_cast<size_t>(group)])) {
      group = static_cast<int>(groups_.size());
      groups_.emplace_back();
    }
    Join(node, *form, &groups_[static_cast<size_t>(group)]);
    GroupOf(*node) = group;
  }

  // The group to which all consumers of the node belong.
  int GroupOfConsumers(const Node& node) {
    int group = kNone;
    for (const Edge* edge : node.out_edges()) {
      if (!edge->dst->IsOp()) continue;
      const int other = GroupOf(*edge->dst);
      if (edge->IsControl() || other == kNone || (group != kNone && other != group)) return kNone;
      group = other;
    }
    return rewriter_.IsPreserved(node) ? kNone : group;
  }

  bool Fits(Node& node, const ElementwiseForm& form, const Group& group) {
    if (node.assigned_device_index() != group.last()->assigned_device_index()) return false;
    if (group.instructions + InstructionsOf(node, form) > Program::kMaxInstructions) return false;
    return NewInputs(node, group) + group.inputs.size() - 1 <= Program::kMaxInputs &&
           MayBeSame(rewriter_.ShapeOf({&node, 0}), rewriter_.ShapeOf({group.last(), 0}));
  }

  static size_t NewInputs(const Node& node, const Group& group) {
    size_t added = 0;
    for (int i = 0; i < node.num_inputs(); ++i)
      added += std::find(group.inputs.begin(), group.inputs.end(), InputOf(node, i)) == group.inputs.end();
    return added;
  }

  static void Join(Node* node, const ElementwiseForm& form, Group* group) {
    group->nodes.push_back(node);
    group->instructions += InstructionsOf(*node, form);
    std::erase(group->inputs, TensorRef{node, 0});
    for (int i = 0; i < node->num_inputs(); ++i) {
      const TensorRef input = InputOf(*node, i);
      if (std::find(group->inputs.begin(), group->inputs.end(), input) == group->inputs.end())
        group->inputs.push_back(input);
    }
  }

  static Program ProgramOf(const Group& group) {
    Program program;
    program.num_inputs = static_cast<int>(group.inputs.size());
    std::vector<TensorRef> values = group.inputs;
    for (const TensorRef& input : values) program.types.push_back(input.node->output_type(input.output));
    const auto operand = [&](const Node& node, int i) {
      return static_cast<uint8_t>(std::find(values.begin(), values.end(), InputOf(node, i)) - values.begin());
    };
    for (auto it = group.nodes.rbegin(); it != group.nodes.rend(); ++it) {
      Node* const node = *it;
      const OpRegistration* const op = node->props().op;
      Program::Instruction instruction{.op = op, .type = node->output_type(0), .node = node->name()};
      for (int i = 0; i < instruction.form().arity(); ++i)
        instruction.operands[static_cast<size_t>(i)] = operand(*node, i);
      const int count = InstructionsOf(*node, instruction.form());
      for (int i = 0; i < count; ++i) {
        if (i > 0) {
          instruction.operands = {static_cast<uint8_t>(values.size() - 1), operand(*node, i + 1)};
        }
        program.instructions.push_back(instruction);
        program.types.push_back(instruction.type);
        values.push_back(i == count - 1 ? TensorRef{node, 0} : TensorRef{});
      }
    }
    program.results = {program.num_values() - 1};
    return program;
  }

  // False if there is no kernel.
  bool Replace(const Group& group) {
    const auto op = graph_->LookUpOp("_FusedElementwise");
    if (!op.ok()) return false;
    const auto props = NodeProps::Make(**op, ProgramOf(group).ToAttrs());
    if (!props.ok() || !rewriter_.HasKernel(*group.last(), **props)) return false;
    std::vector<Node*> waits;
    for (const Node* node : group.nodes) {
      for (Node* wait : Rewriter::ControlInputs(*node)) waits.push_back(wait);
    }
    std::vector<Edge> uses;
    for (const Edge* edge : group.last()->out_edges()) {
      if (edge->dst->IsOp()) uses.push_back(*edge);
    }
    const std::string name = group.last()->name();
    const int assigned = group.last()->assigned_device_index();
    const int requested = group.last()->requested_device_index();
    for (Node* node : group.nodes) graph_->RemoveNode(node);

    Node* const fused = graph_->AddNodeWithProps(name, *props);
    fused->set_assigned_device_index(assigned);
    fused->set_requested_device_index(requested);
    for (size_t i = 0; i < group.inputs.size(); ++i)
      graph_->AddEdge(group.inputs[i].node, group.inputs[i].output, fused, static_cast<int>(i));
    for (Node* wait : waits) graph_->AddControlEdge(wait, fused);
    for (const Edge& use : uses) {
      if (use.IsControl()) {
        graph_->AddControlEdge(fused, use.dst);
      } else {
        graph_->AddEdge(fused, 0, use.dst, use.dst_input);
      }
    }
    return true;
  }

  Graph* const graph_;
  Rewriter rewriter_;
  std::vector<int> group_of_;  // by node id
  std::vector<Group> groups_;
};

}  // namespace

StatusOr<int> FuseElementwise(Graph* graph, const OptimizeOptions& options) {
  return Grouper(graph, options).Run();
}

}  // namespace millrace
