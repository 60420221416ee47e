// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/summary.h"

#include "graph/graph_import.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace {
namespace {

void AppendInputs(const Node& node, std::string* out) {
  out->push_back('(');
  bool first = true;
  for (const Edge* e : node.in_edges()) {
    if (e == nullptr || !e->src->IsOp()) continue;
    if (!first) out->append(", ");
    first = false;
    out->append(TensorId{e->src->name(), e->src_output}.ToString());
  }
  out->push_back(')');
}

}  // namespace

std::string SummarizeNode(const Node& node) {
  std::string out = StrCat(node.name(), " = ", node.op_name(), "[");
  bool first = true;
  for (const auto& [name, value] : node.attrs()) {
    if (!first) out.append(", ");
    first = false;
    out.append(StrCat(name, "=", value.ToString()));
  }
  if (!node.requested_device().empty())
    out.append(StrCat(first ? "" : ", ", "_device=\"", node.requested_device(), "\""));
  out.push_back(']');
  AppendInputs(node, &out);
  return out;
}

std::string NodeLabel(const Node& node) {
  std::string out = StrCat(node.name(), " = ", node.op_name());
  AppendInputs(node, &out);
  return out;
}

std::string SerializeGraph(const Graph& graph) {
  tensorflow::GraphDef def;
  ExportGraphDef(graph, &def);
  return def.SerializeAsString();
}

}  // namespace millrace
