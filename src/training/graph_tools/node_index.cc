// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "training/graph_tools/node_index.h"

#include <algorithm>

#include "tensor/dtype_table.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace {

StatusOr<NodeIndex> NodeIndex::Make(const tensorflow::GraphDef& graph) {
  NodeIndex index;
  const auto size = static_cast<size_t>(graph.node_size());
  index.by_name_.reserve(size);
  index.uses_.resize(size);
  for (int i = 0; i < graph.node_size(); ++i) {
    if (!index.by_name_.emplace(graph.node(i).name(), i).second) {
      return errors::InvalidArgument("Node '", graph.node(i).name(), "' is not unique");
    }
  }
  for (int i = 0; i < graph.node_size(); ++i) {
    const auto& inputs = graph.node(i).input();
    for (int j = 0; j < inputs.size(); ++j) {
      const TensorId id = ParseTensorId(inputs[j]);
      if (const int source = index.Find(id.name); source >= 0) {
        index.uses_[static_cast<size_t>(source)].push_back({i, j, id.index});
      }
    }
  }
  return index;
}

int NodeIndex::Find(std::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? -1 : it->second;
}

StatusOr<std::vector<int>> NodeIndex::FindAll(const std::vector<std::string>& names) const {
  std::vector<int> nodes;
  for (const std::string& name : names) {
    const int node = SourceOf(name);
    if (node < 0) return errors::InvalidArgument(name, " is not in graph");
    nodes.push_back(node);
  }
  return nodes;
}

void KeepNodes(const std::vector<bool>& keep, tensorflow::GraphDef* graph) {
  int kept = 0;
  for (int i = 0; i < graph->node_size(); ++i) {
    if (!keep[static_cast<size_t>(i)]) continue;
    if (i != kept) graph->mutable_node()->SwapElements(i, kept);
    ++kept;
  }
  graph->mutable_node()->DeleteSubrange(kept, graph->node_size() - kept);
}

std::vector<bool> NeededBy(const std::vector<int>& roots, const NodeIndex& index,
                           const tensorflow::GraphDef& graph) {
  std::vector<bool> needed(static_cast<size_t>(graph.node_size()), false);
  std::vector<int> open;
  const auto visit = [&](int node) {
    if (node < 0 || needed[static_cast<size_t>(node)]) return;
    needed[static_cast<size_t>(node)] = true;
    open.push_back(node);
  };
  for (const int root : roots) visit(root);
  while (!open.empty()) {
    const int node = open.back();
    open.pop_back();
    for (const std::string& input : graph.node(node).input()) visit(index.SourceOf(input));
  }
  return needed;
}

const tensorflow::AttrValue* FindAttr(const tensorflow::NodeDef& node, const std::string& name) {
  const auto it = node.attr().find(name);
  return it == node.attr().end() ? nullptr : &it->second;
}

DataType TypeAttr(const tensorflow::NodeDef& node, const std::string& name) {
  const tensorflow::AttrValue* value = FindAttr(node, name);
  return value == nullptr ? DataType::kInvalid : static_cast<DataType>(value->type());
}

bool HasControlInputs(const tensorflow::NodeDef& node) {
  return node.input_size() > 0 && node.input(node.input_size() - 1).starts_with('^');
}

void MakeConst(const Tensor& value, tensorflow::NodeDef* node) {
  node->set_op("Const");
  node->clear_input();
  node->clear_attr();
  auto& attrs = *node->mutable_attr();
  attrs["dtype"].set_type(DataTypeToProto(value.dtype()));
  tensorflow::TensorProto* proto = attrs["value"].mutable_tensor();
  if (OwnsMemory(value.dtype()) || value.num_elements() < 2) {
    TensorToProto(value, proto);
  } else {
    TensorToProtoContent(value, proto);
  }
}

StatusOr<Tensor> ConstValue(const tensorflow::NodeDef& node) {
  const tensorflow::AttrValue* value = FindAttr(node, "value");
  if (node.op() != "Const" || value == nullptr || !value->has_tensor()) {
    return errors::InvalidArgument("Node '", node.name(), "' (op ", node.op(), ") is not a constant");
  }
  auto tensor = TensorFromProto(value->tensor());
  if (!tensor.ok()) return tensor.status().WithContext(StrCat("; node '", node.name(), "'"));
  return tensor;
}

std::string FreshName(const std::string& prefix, const NodeIndex& index, std::vector<std::string>* taken) {
  std::string name = prefix;
  const auto is_taken = [&] {
    return index.Find(name) >= 0 || std::find(taken->begin(), taken->end(), name) != taken->end();
  };
  for (int i = 1; is_taken(); ++i) name = StrCat(prefix, "_", i);
  taken->push_back(name);
  return name;
}

}  // namespace millrace
