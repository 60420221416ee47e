// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/optimize/identities.h"

#include <vector>

namespace millrace {
namespace {

// Whether `node` forwards each of its inputs, including resources and variants.
bool Forwards(const Node& node, bool remove_checks) {
  const bool unchecked = remove_checks && node.traits().only_checks;
  if (node.num_inputs() != node.num_outputs() || node.num_inputs() == 0) return false;
  if (node.op_def().is_stateful && !unchecked) return false;
  if (!node.traits().forwards && !unchecked)
    return node.op_name() == "Cast" && node.input_type(0) == node.output_type(0);
  for (int i = 0; i < node.num_inputs(); ++i) {
    const Edge* edge = node.in_edges()[static_cast<size_t>(i)];
    if (edge == nullptr || edge->src->output_type(edge->src_output) != node.output_type(i)) return false;
    if (IsRefType(node.output_type(i))) return false;
  }
  return true;
}

// Nodes that waited for a check wait for the inputs of the check instead.
void RemoveCheck(Graph* graph, Node* node, Rewriter* rewriter) {
  std::vector<Node*> inputs = Rewriter::ControlInputs(*node);
  for (const Edge* edge : node->data_in_edges()) {
    if (!edge->src->traits().is_control_flow) inputs.push_back(edge->src);
  }
  Node* stand_in = rewriter->Add(*node, "unchecked", "NoOp", {}, {});
  if (stand_in == nullptr) return;
  for (Node* input : inputs) graph->AddControlEdge(input, stand_in);
  std::vector<Node*> waiting;
  for (const Edge* edge : node->out_edges()) {
    if (edge->dst->IsOp()) waiting.push_back(edge->dst);
  }
  for (Node* dst : waiting) graph->AddControlEdge(stand_in, dst);
  graph->RemoveNode(node);
}

// A Print that no longer prints forwards its first input, once all inputs are available.
bool RemovePrint(Graph* graph, Node* node, Rewriter* rewriter) {
  if (node->op_name() != "Print") return false;
  std::vector<TensorRef> printed;
  for (int i = 1; i < node->num_inputs(); ++i) printed.push_back(InputOf(*node, i));
  if (!rewriter->TryReplace(node, {InputOf(*node, 0)}, printed)) return false;
  if (node->IsOp()) graph->RemoveNode(node);  // as it is stateful
  return true;
}

bool IsRemovableCheck(const Node& node) {
  if (!node.traits().only_checks || node.num_outputs() != 0) return false;
  // Next to a Switch the branch would be lost.
  for (const Edge* edge : node.data_in_edges()) {
    if (edge->src->traits().is_control_flow) return false;
  }
  return true;
}

}  // namespace

int RemoveIdentities(Graph* graph, const OptimizeOptions& options) {
  Rewriter rewriter(graph, options);
  std::vector<TensorRef> inputs;
  int removed = 0;
  for (Node* node : graph->OpNodes()) {
    if (!node->IsOp()) continue;  // removed together with another one
    if (options.compile.strip_checks && IsRemovableCheck(*node) && !rewriter.IsPreserved(*node)) {
      RemoveCheck(graph, node, &rewriter);
      ++removed;
      continue;
    }
    if (options.compile.strip_checks && RemovePrint(graph, node, &rewriter)) {
      ++removed;
      continue;
    }
    if (!Forwards(*node, options.compile.strip_checks)) continue;
    inputs.clear();
    for (int i = 0; i < node->num_inputs(); ++i) inputs.push_back(InputOf(*node, i));
    if (rewriter.CanReplace(*node, inputs)) {
      rewriter.Replace(node, inputs);
      if (node->IsOp()) graph->RemoveNode(node);  // of a resource: RemoveUnused does not remove it
      ++removed;
    }
  }
  if (removed > 0) graph->FixupSourceAndSinkEdges();
  return removed;
}

int RemoveDeadNodes(Graph* graph, const OptimizeOptions& options) {
  const int removed = Rewriter(graph, options).RemoveDead();
  if (removed > 0) graph->FixupSourceAndSinkEdges();
  return removed;
}

}  // namespace millrace
