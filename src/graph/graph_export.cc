// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "graph/function_library.h"
#include "graph/graph_import.h"
#include "op/attr_codec.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace {

void ExportNodeDef(const Node& node, tensorflow::NodeDef* def) {
  def->set_name(node.name());
  def->set_op(node.op_name());
  const std::string& device = node.has_assigned_device() ? node.assigned_device() : node.requested_device();
  if (!device.empty()) def->set_device(device);
  for (const Edge* edge : node.data_in_edges()) {
    def->add_input(edge == nullptr ? "" : TensorId{edge->src->name(), edge->src_output}.ToString());
  }
  std::vector<const Node*> control;
  for (const Edge* edge : node.control_in_edges()) {
    if (edge->src->IsOp()) control.push_back(edge->src);
  }
  std::sort(control.begin(), control.end(), [](const Node* a, const Node* b) { return a->id() < b->id(); });
  for (const Node* src : control) def->add_input(StrCat("^", src->name()));
  AttrMapToProto(node.attrs(), def->mutable_attr());
}

void ExportGraphDef(const Graph& graph, tensorflow::GraphDef* def) {
  def->Clear();
  def->mutable_node()->Reserve(graph.num_nodes());
  for (int id = 2; id < graph.num_node_ids(); ++id) {
    if (const Node* node = graph.node(id); node != nullptr) ExportNodeDef(*node, def->add_node());
  }
  const GraphVersions& versions = graph.versions();
  def->mutable_versions()->set_producer(versions.producer);
  def->mutable_versions()->set_min_consumer(versions.min_consumer);
  for (const int bad : versions.bad_consumers) def->mutable_versions()->add_bad_consumers(bad);
  if (!graph.functions().empty()) graph.functions().Export(def->mutable_library());
}

}  // namespace millrace
