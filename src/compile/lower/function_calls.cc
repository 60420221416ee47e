// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "compile/lower/function_calls.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/function_library.h"
#include "op/function_attrs.h"

namespace millrace {
namespace {

bool IsNamedCall(const Node& node) {
  const FunctionLibrary& functions = node.graph().functions();
  return !functions.empty() && functions.Find(node.op_name()) != nullptr;
}

// The attributes of the function, without those of the node.
NameAttrList NamedCallee(const Node& node) {
  if (const AttrValue* forward = node.attrs().Find(kForwardAttr); forward != nullptr) {
    if (const auto* f = forward->As<NameAttrList>(); f != nullptr) return *f;
  }
  std::vector<AttrMap::Entry> entries;
  for (const auto& entry : node.attrs()) {
    if (!entry.first.starts_with('_')) entries.push_back(entry);
  }
  return {node.op_name(), std::make_shared<const AttrMap>(AttrMap::FromEntries(std::move(entries)))};
}

}  // namespace

std::optional<NameAttrList> CalleeOf(const Node& node) {
  if (IsNamedCall(node)) return NamedCallee(node);
  const bool gradient = node.op_name() == "SymbolicGradient";
  if (!gradient && node.op_name() != "PartitionedCall" && node.op_name() != "StatefulPartitionedCall")
    return std::nullopt;
  const AttrValue* f = node.attrs().Find("f");
  const auto* callee = f == nullptr ? nullptr : f->As<NameAttrList>();
  if (callee == nullptr) return std::nullopt;
  if (!gradient) return *callee;
  AttrMap attrs{{"f", *callee}, {"Tin", node.props().input_types}, {"Tout", node.props().output_types}};
  if (const AttrValue* scope = node.attrs().Find(kGradientScopeAttr); scope != nullptr)
    attrs.Set(kGradientScopeAttr, *scope);
  return NameAttrList{"SymbolicGradient", std::make_shared<const AttrMap>(std::move(attrs))};
}

StatusOr<Node*> ReplaceNode(Node* node, std::string_view op, AttrMap attrs) {
  Graph& graph = node->graph();
  MR_ASSIGN_OR_RETURN(const OpRegistration* registration, graph.LookUpOp(op));
  auto props = NodeProps::Make(*registration, std::move(attrs));
  if (!props.ok()) return props.status().WithContext(StrCat("; node '", node->name(), "' (op ", op, ")"));
  std::vector<Edge> edges;
  for (const Edge* edge : node->in_edges()) {
    if (edge != nullptr) edges.push_back(*edge);
  }
  for (const Edge* edge : node->out_edges()) edges.push_back(*edge);
  const std::string name = node->name();
  const int requested = node->requested_device_index();
  const int assigned = node->assigned_device_index();
  graph.RemoveNode(node);
  Node* made = graph.AddNodeWithProps(name, *std::move(props));
  made->set_requested_device_index(requested);
  made->set_assigned_device_index(assigned);
  for (const Edge& edge : edges) {
    Node* src = edge.src == node ? made : edge.src;
    Node* dst = edge.dst == node ? made : edge.dst;
    if (edge.IsControl()) {
      graph.AddControlEdge(src, dst);
    } else {
      graph.AddEdge(src, edge.src_output, dst, edge.dst_input);
    }
  }
  return made;
}

Status RewriteNamedCalls(Graph* graph) {
  if (graph->functions().empty()) return Status();
  const int end = graph->num_node_ids();
  for (int id = 2; id < end; ++id) {
    Node* node = graph->node(id);
    if (node == nullptr || !IsNamedCall(*node)) continue;
    AttrMap attrs{
        {"f", NamedCallee(*node)}, {"Tin", node->props().input_types}, {"Tout", node->props().output_types}};
    for (const auto& [name, value] : node->attrs()) {
      if (name.starts_with('_') && name != kForwardAttr && name != kKeptTypesAttr) attrs.Set(name, value);
    }
    const bool stateful = node->op_def().is_stateful;
    MR_RETURN_IF_ERROR(
        ReplaceNode(node, stateful ? "StatefulPartitionedCall" : "PartitionedCall", std::move(attrs))
            .status());
  }
  return Status();
}

}  // namespace millrace
