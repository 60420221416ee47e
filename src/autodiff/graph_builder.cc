// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "autodiff/graph_builder.h"

namespace millrace {
namespace {

DataType TypeOf(const Output& tensor) { return BaseType(tensor.node->output_type(tensor.index)); }

void SetIfAbsent(AttrMap* attrs, std::string_view name, AttrValue value) {
  if (attrs->Find(name) == nullptr) attrs->Set(name, std::move(value));
}

Status InferFromArg(const ArgDef& arg, const InputArg& input, AttrMap* attrs) {
  const bool takes_list = !arg.number_attr.empty() || !arg.type_list_attr.empty();
  if (takes_list != input.is_list) {
    return errors::InvalidArgument("argument '", arg.name, "' takes ", takes_list ? "a list" : "one tensor");
  }
  if (!arg.number_attr.empty()) {
    SetIfAbsent(attrs, arg.number_attr, static_cast<int64_t>(input.tensors.size()));
  }
  if (!arg.type_list_attr.empty()) {
    std::vector<DataType> types;
    for (const Output& tensor : input.tensors) types.push_back(TypeOf(tensor));
    SetIfAbsent(attrs, arg.type_list_attr, std::move(types));
  } else if (!arg.type_attr.empty() && !input.tensors.empty()) {
    SetIfAbsent(attrs, arg.type_attr, TypeOf(input.tensors.front()));
  }
  return Status();
}

// Connects the inputs in order; the types were worked out from the attributes.
Status Connect(Graph& graph, Node* node, std::span<const InputArg> inputs) {
  int slot = 0;
  for (const InputArg& input : inputs) {
    for (const Output& tensor : input.tensors) {
      const DataType got = tensor.node->output_type(tensor.index);
      if (slot >= node->num_inputs()) return errors::InvalidArgument("too many inputs");
      const DataType want = node->input_type(slot);
      if (got != want && !(IsRefType(got) && BaseType(got) == want)) {
        return errors::InvalidArgument("input ", slot, " is ", got, " from '", tensor.node->name(),
                                       "', expected ", want);
      }
      graph.AddEdge(tensor.node, tensor.index, node, slot++);
    }
  }
  if (slot != node->num_inputs()) {
    return errors::InvalidArgument("has ", slot, " inputs, expected ", node->num_inputs());
  }
  return Status();
}

// Default node names of TensorFlow's Python client that differ from the op's name.
constexpr std::pair<std::string_view, std::string_view> kPythonNames[] = {
    {"Add", "add"},
    {"AddV2", "add"},
    {"ConcatV2", "concat"},
    {"DivNoNan", "div_no_nan"},
    {"FloorDiv", "floordiv"},
    {"FloorMod", "mod"},
    {"Mul", "mul"},
    {"OnesLike", "ones_like"},
    {"Pack", "stack"},
    {"Range", "range"},
    {"RealDiv", "truediv"},
    {"Split", "split"},
    {"StridedSlice", "strided_slice"},
    {"Sub", "sub"},
    {"Transpose", "transpose"},
    {"Unpack", "unstack"},
    {"ZerosLike", "zeros_like"},
};

std::string_view PythonName(std::string_view op) {
  for (const auto& [name, python_name] : kPythonNames) {
    if (name == op) return python_name;
  }
  return op;
}

}  // namespace

Status InferInputAttrs(const OpDef& op, std::span<const InputArg> inputs, AttrMap* attrs) {
  if (inputs.size() != op.inputs.size()) {
    return errors::InvalidArgument("got ", inputs.size(), " input arguments, expected ", op.inputs.size());
  }
  for (size_t i = 0; i < inputs.size(); ++i) MR_RETURN_IF_ERROR(InferFromArg(op.inputs[i], inputs[i], attrs));
  return Status();
}

StatusOr<Node*> AddCheckedNode(Graph& graph, ShapeRefiner& shapes, std::string_view name, std::string_view op,
                               std::span<const InputArg> inputs, AttrMap attrs, std::string_view device) {
  MR_ASSIGN_OR_RETURN(const OpRegistration* registration, graph.LookUpOp(op));
  MR_RETURN_IF_ERROR(InferInputAttrs(registration->def, inputs, &attrs));
  MR_ASSIGN_OR_RETURN(Node * node, graph.AddNode(name, op, std::move(attrs), device));
  Status status = Connect(graph, node, inputs);
  if (status.ok()) status = shapes.AddNode(*node);
  if (!status.ok()) {
    graph.RemoveNode(node);
    return status;
  }
  return node;
}

StatusOr<Node*> GraphBuilder::TryAdd(std::string_view op, const std::vector<InputArg>& inputs, AttrMap attrs,
                                     std::string_view name) {
  for (const InputArg& input : inputs) {
    for (const Output& tensor : input.tensors) {
      if (!tensor.IsSet()) return errors::Internal("an input is unset");
    }
  }
  const std::string path = scope_.empty() ? std::string(name) : StrCat(scope_, "/", name);
  if (!colocation_.empty()) SetIfAbsent(&attrs, "_class", colocation_);
  return AddCheckedNode(graph_, shapes_, graph_.NewName(path), op, inputs, std::move(attrs), device_);
}

Node* GraphBuilder::Add(std::string_view op, std::vector<InputArg> inputs, AttrMap attrs,
                        std::string_view name) {
  if (!status_.ok()) return nullptr;
  if (name.empty()) name = python_names_ ? PythonName(op) : op;
  auto node = TryAdd(op, inputs, std::move(attrs), name);
  if (node.ok()) {
    if (place_.pivot != nullptr && (*node)->num_inputs() == 0) graph_.AddControlEdge(place_.pivot, *node);
    if (place_.added != nullptr) place_.added->push_back(*node);
    return *node;
  }
  std::string_view text = node.status().message();
  if (text.ends_with('.')) text.remove_suffix(1);
  Fail(Status(node.status().code(), StrCat(text, "; while adding ", op, " under '", scope_, "'")));
  return nullptr;
}

void GraphBuilder::AdoptFrom(int first_id) {
  // Nodes that this builder has added are known already.
  std::unordered_set<const Node*> known;
  if (place_.added != nullptr) {
    for (auto it = place_.added->rbegin(); it != place_.added->rend() && (*it)->id() >= first_id; ++it)
      known.insert(*it);
  }
  for (int id = first_id; id < graph_.num_node_ids(); ++id) {
    Node* node = graph_.node(id);
    if (node == nullptr || known.contains(node)) continue;
    bool has_input = false;
    for (const Edge* edge : node->in_edges()) has_input = has_input || edge != nullptr;
    if (place_.pivot != nullptr && !has_input) graph_.AddControlEdge(place_.pivot, node);
    if (place_.added != nullptr) place_.added->push_back(node);
    adopted_.insert(node);
  }
}

Output GraphBuilder::Constant(Tensor value, std::string_view name) {
  const DataType dtype = value.dtype();
  return {Add("Const", {}, {{"dtype", dtype}, {"value", std::move(value)}}, name), 0};
}

PartialShape GraphBuilder::ShapeOf(Output tensor) const {
  return tensor.IsSet() ? shapes_.OutputShape(*tensor.node, tensor.index) : PartialShape();
}

StatusOr<Tensor> GraphBuilder::ValueOf(Output tensor) const {
  if (!tensor.IsSet()) return errors::InvalidArgument("no tensor");
  return ConstantValue(*tensor.node, tensor.index, &shapes_);
}

}  // namespace millrace
