// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "autodiff/add_gradients.h"

#include <string_view>
#include <unordered_set>

#include "autodiff/backprop.h"

namespace millrace {

Status CheckOutput(const Graph& graph, const Output& tensor, const char* what) {
  if (!tensor.IsSet()) return errors::InvalidArgument("One of the ", what, " is unset");
  if (&tensor.node->graph() != &graph) {
    return errors::InvalidArgument(what, " has '", tensor.node->name(), "', a node of another graph");
  }
  if (tensor.index < 0 || tensor.index >= tensor.node->num_outputs()) {
    return errors::InvalidArgument("Node '", tensor.node->name(), "' of ", what, " has no output ",
                                   tensor.index);
  }
  return Status();
}

namespace {

// "gradients", "gradients_1", …: the first under which the graph has no node.
std::string UniqueScope(const Graph& graph, const std::string& scope) {
  std::unordered_set<std::string_view> taken;
  for (const Node* node : graph.OpNodes()) {
    const std::string_view name = node->name();
    if (name.starts_with(scope)) taken.insert(name.substr(0, name.find('/', scope.size())));
  }
  std::string unique = scope;
  for (int suffix = 1; taken.contains(unique); ++suffix) unique = StrCat(scope, "_", suffix);
  return unique;
}

}  // namespace

Status AddGradients(Graph* graph, const std::vector<Output>& ys, const std::vector<Output>& xs,
                    const std::vector<Output>& grad_ys, const GradientOptions& options,
                    std::vector<Output>* grads) {
  grads->clear();
  if (!grad_ys.empty() && grad_ys.size() != ys.size()) {
    return errors::InvalidArgument("There are ", ys.size(), " ys and ", grad_ys.size(), " grad_ys");
  }
  for (const Output& y : ys) MR_RETURN_IF_ERROR(CheckOutput(*graph, y, "ys"));
  for (const Output& x : xs) MR_RETURN_IF_ERROR(CheckOutput(*graph, x, "xs"));
  const int first_new = graph->num_node_ids();
  Status status = Backprop(*graph, ys, xs, options, UniqueScope(*graph, options.scope)).Run(grad_ys, grads);
  if (!status.ok()) {
    grads->clear();
    graph->RemoveNodesFrom(first_new);
    if (options.shapes != nullptr) options.shapes->ForgetNodesFrom(first_new);
  }
  return status;
}

Status AddGradients(Graph* graph, const std::vector<Output>& ys, const std::vector<Output>& xs,
                    const std::vector<Output>& grad_ys, std::vector<Output>* grads) {
  return AddGradients(graph, ys, xs, grad_ys, GradientOptions(), grads);
}

}  // namespace millrace
