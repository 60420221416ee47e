// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "autodiff/add_gradients.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "autodiff/backprop.h"
#include "graph/function_library.h"
#include "op/function_attrs.h"

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

// The scope that the caller has chosen, or another name if an earlier computation has that one: the gradient
// TensorArrays of each need a unique name.
std::string UniqueComputation(const Graph& graph, const std::string& scope) {
  std::unordered_set<std::string> taken;
  const bool has_functions = !graph.functions().empty();
  for (const Node* node : graph.OpNodes()) {
    const bool is_array = node->op_name().starts_with("TensorArrayGrad");
    if (!is_array && !has_functions) continue;
    const AttrValue* value = node->attrs().Find(is_array ? "source" : kGradientScopeAttr);
    const auto* name = value == nullptr ? nullptr : value->As<std::string>();
    if (name != nullptr) taken.insert(*name);
  }
  std::string unique = scope;
  for (int suffix = 1; taken.contains(unique); ++suffix) unique = StrCat(scope, "_", suffix);
  return unique;
}

// The gradient computation that a name belongs to, as in TensorFlow: the scope up to its last component
// "gradients…".
std::string ComputationOf(const std::string& scope) {
  size_t end = std::string::npos;
  for (size_t at = 0; at < scope.size();) {
    const size_t next = std::min(scope.find('/', at), scope.size());
    if (std::string_view(scope).substr(at).starts_with("gradients")) end = next;
    at = next + 1;
  }
  return scope.substr(0, end);
}

// Whether a loop was given variables that start from new nodes.
bool OldNodesUse(const Graph& graph, int first_new) {
  for (int id = first_new; id < graph.num_node_ids(); ++id) {
    const Node* node = graph.node(id);
    if (node == nullptr) continue;
    for (const Edge* edge : node->out_edges()) {
      if (!edge->IsControl() && edge->dst->id() < first_new) return true;
    }
  }
  return false;
}

// After an error: removes the added nodes, unless the client may hold them.
Status TakeBack(Graph& graph, int first_new, bool adopted, const GradientOptions& options, Status error) {
  if (adopted || OldNodesUse(graph, first_new)) {
    return error.WithContext(StrCat(
        "; the ", graph.num_node_ids() - first_new,
        " nodes that were added until then stay in the graph, as a gradient function made some of them"));
  }
  graph.RemoveNodesFrom(first_new);
  if (options.shapes != nullptr) options.shapes->ForgetNodesFrom(first_new);
  return error;
}

Status Compute(Graph* graph, const std::vector<Output>& ys, const std::vector<Output>& xs,
               const std::vector<GradientValue>& grad_ys, const GradientOptions& options, bool dense,
               std::vector<GradientValue>* grads) {
  grads->clear();
  if (!grad_ys.empty() && grad_ys.size() != ys.size()) {
    return errors::InvalidArgument("There are ", ys.size(), " ys and ", grad_ys.size(), " grad_ys");
  }
  for (const Output& y : ys) MR_RETURN_IF_ERROR(CheckOutput(*graph, y, "ys"));
  for (const Output& x : xs) MR_RETURN_IF_ERROR(CheckOutput(*graph, x, "xs"));
  for (const Output& stop : options.stop_gradients)
    MR_RETURN_IF_ERROR(CheckOutput(*graph, stop, "stop_gradients"));
  const int first_new = graph->num_node_ids();
  const std::string unique =
      options.exact_scope ? UniqueComputation(*graph, options.scope) : UniqueScope(*graph, options.scope);
  Backprop backprop(*graph, ys, xs, options, options.exact_scope ? options.scope : unique, unique);
  Status status = backprop.Run(grad_ys, dense, grads);
  if (status.ok()) return status;
  grads->clear();
  return TakeBack(*graph, first_new, backprop.HasAdopted(), options, status);
}

}  // namespace

Status AddGradients(Graph* graph, const std::vector<Output>& ys, const std::vector<Output>& xs,
                    const std::vector<Output>& grad_ys, const GradientOptions& options,
                    std::vector<Output>* grads) {
  grads->clear();
  std::vector<GradientValue> values;
  MR_RETURN_IF_ERROR(
      Compute(graph, ys, xs, {grad_ys.begin(), grad_ys.end()}, options, /*dense=*/true, &values));
  for (const GradientValue& value : values) grads->push_back(value.dense);
  return Status();
}

Status AddGradients(Graph* graph, const std::vector<Output>& ys, const std::vector<Output>& xs,
                    const std::vector<Output>& grad_ys, std::vector<Output>* grads) {
  return AddGradients(graph, ys, xs, grad_ys, GradientOptions(), grads);
}

Status AddGradientValues(Graph* graph, const std::vector<Output>& ys, const std::vector<Output>& xs,
                         const std::vector<GradientValue>& grad_ys, const GradientOptions& options,
                         std::vector<GradientValue>* grads) {
  return Compute(graph, ys, xs, grad_ys, options, /*dense=*/false, grads);
}

Status AddNodeGradient(Graph* graph, Node* node, std::string_view name,
                       const std::vector<GradientValue>& grads, const GradientOptions& options,
                       std::vector<GradientValue>* input_grads) {
  input_grads->clear();
  const auto& registry = options.registry != nullptr ? *options.registry : GradientRegistry::Global();
  MR_ASSIGN_OR_RETURN(const GradientRegistry::Entry* entry,
                      name.empty() ? registry.LookUpFor(*node) : registry.LookUp(name));
  input_grads->resize(static_cast<size_t>(node->num_inputs()));
  if (entry->fn == nullptr) return Status();
  if (grads.size() != static_cast<size_t>(node->num_outputs())) {
    input_grads->clear();
    return errors::InvalidArgument("There are ", grads.size(), " gradients for the ", node->num_outputs(),
                                   " outputs of node '", node->name(), "'");
  }
  if (options.shapes == nullptr) return errors::InvalidArgument("The shapes of the graph are not given");
  const int first_new = graph->num_node_ids();
  GraphBuilder builder(*graph, *options.shapes);
  if (options.names == GradientNames::kPython) builder.UsePythonNames();
  const GradientContext::Computation computation{
      .name = ComputationOf(options.scope),
      .device = options.device.has_value() ? *options.device : node->requested_device(),
      .colocate = options.colocate};
  builder.SetScope(options.scope, computation.device);
  if (options.colocate) builder.SetColocation(ColocationOf(*node));
  GradientContext context(builder, *node, grads,
                          std::vector<bool>(static_cast<size_t>(node->num_inputs()), true), computation);
  Status status = entry->fn(context);
  status.Update(builder.status());
  *input_grads = context.input_grads();
  if (status.ok()) return status;
  input_grads->clear();
  status =
      status.WithContext(StrCat("; in the gradient of node '", node->name(), "' (op ", node->op_name(), ")"));
  return TakeBack(*graph, first_new, builder.HasAdopted(), options, status);
}

}  // namespace millrace
