// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "training/graph_tools/variable_uses.h"

#include <algorithm>
#include <string_view>

#include "op/attr_codec.h"
#include "op/op_def.h"
#include "op/op_registry.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace {
namespace {

using tensorflow::NodeDef;

// Changes the op, and keeps the inputs and the named attributes.
void ChangeOp(const std::string& op, const std::vector<std::string>& keep, NodeDef* node) {
  node->set_op(op);
  google::protobuf::Map<std::string, tensorflow::AttrValue> attrs;
  for (const std::string& name : keep) {
    if (const tensorflow::AttrValue* value = FindAttr(*node, name)) attrs[name] = *value;
  }
  for (const auto& [name, value] : node->attr()) {
    if (name.starts_with('_')) attrs[name] = value;
  }
  node->mutable_attr()->swap(attrs);
}

void SetType(const std::string& attr, DataType type, NodeDef* node) {
  (*node->mutable_attr())[attr].set_type(DataTypeToProto(type));
}

// Ops that forward their inputs: outputs 0 to outputs - 1 are input 0, or any of the inputs.
struct PassOn {
  std::string_view op;
  int outputs = 1;
  bool any_input = false;
};
constexpr PassOn kPassOn[] = {{"Identity"},      {"Enter"},     {"Exit"},
                              {"NextIteration"}, {"Switch", 2}, {"Merge", 1, true}};

const PassOn* FindPassOn(std::string_view op, int input) {
  const auto* it = std::find_if(std::begin(kPassOn), std::end(kPassOn),
                                [&](const PassOn& p) { return p.op == op && (p.any_input || input == 0); });
  return it == std::end(kPassOn) ? nullptr : it;
}

// Whether input `input` of a node must be a reference. False if unknown.
bool WantsReference(const NodeDef& node, int input) {
  const auto op = OpRegistry::Global().LookUp(node.op());
  if (!op.ok()) return false;
  auto attrs = AttrMapFromProto(node.attr());
  if (!attrs.ok() || !AddDefaultAttrs((*op)->def, &*attrs).ok()) return false;
  std::vector<DataType> inputs;
  std::vector<DataType> outputs;
  if (!InferArgTypes((*op)->def, *attrs, &inputs, &outputs).ok()) return false;
  return static_cast<size_t>(input) < inputs.size() && IsRefType(inputs[static_cast<size_t>(input)]);
}

}  // namespace

VariableUses::VariableUses(const NodeIndex& index, tensorflow::GraphDef* graph)
    : index_(index), graph_(*graph) {}
VariableUses::~VariableUses() = default;

Status VariableUses::Freeze(int variable, DataType dtype, bool is_resource) {
  variable_ = graph_.node(variable).name();
  Follow(variable, 0);
  while (!open_.empty()) {
    const auto output = open_.back();
    open_.pop_back();
    if (!seen_.insert(output).second) continue;
    for (const Use& use : index_.UsesOf(output.first)) {
      if (use.output != output.second) continue;
      MR_RETURN_IF_ERROR(is_resource ? FollowHandle(use, dtype) : FollowReference(use));
    }
  }
  return Status();
}

Status VariableUses::Refuse(const NodeDef& node) const {
  return errors::InvalidArgument("Variable '", variable_, "' cannot become a constant: node '", node.name(),
                                 "' (op ", node.op(), ") needs the variable itself");
}

Status VariableUses::FollowHandle(const Use& use, DataType dtype) {
  NodeDef& node = *graph_.mutable_node(use.node);
  if (const PassOn* pass = FindPassOn(node.op(), use.input)) {
    SetType("T", dtype, &node);
    for (int i = 0; i < pass->outputs; ++i) Follow(use.node, i);
  } else if (node.op() == "IdentityN") {
    auto* types = (*node.mutable_attr())["T"].mutable_list();
    if (use.input >= types->type_size()) return Refuse(node);
    types->set_type(use.input, DataTypeToProto(dtype));
    Follow(use.node, use.input);
  } else if (node.op() == "ReadVariableOp") {
    ChangeOp("Identity", {}, &node);
    SetType("T", dtype, &node);
  } else if (node.op() == "VariableShape") {
    ChangeOp("Shape", {"out_type"}, &node);
    SetType("T", dtype, &node);
  } else if (node.op() == "ResourceGather" && use.input == 0) {
    MakeGather(&node, dtype);
  } else if (node.op() == "ResourceGatherNd" && use.input == 0) {
    ChangeOp("GatherNd", {"Tindices"}, &node);
    SetType("Tparams", dtype, &node);
  } else if (node.op() == "VarIsInitializedOp") {
    MakeConst(Tensor::Scalar(true), &node);
  } else {
    return Refuse(node);
  }
  return Status();
}

// The rows of a gather are along the first axis that is not a batch axis.
void VariableUses::MakeGather(NodeDef* node, DataType dtype) {
  const tensorflow::AttrValue* batch = FindAttr(*node, "batch_dims");
  const auto axis = static_cast<int32_t>(batch == nullptr ? 0 : batch->i());
  ChangeOp("GatherV2", {"Tindices", "batch_dims"}, node);
  if (axis == 0) node->mutable_attr()->erase("batch_dims");
  SetType("Tparams", dtype, node);
  SetType("Taxis", DataType::kInt32, node);
  NodeDef& constant = added_.emplace_back();
  constant.set_name(FreshName(node->name() + "/axis", index_, &added_names_));
  constant.set_device(node->device());
  MakeConst(Tensor::Scalar(axis), &constant);
  node->add_input(constant.name());
  for (int i = node->input_size() - 1; i > 2; --i) node->mutable_input()->SwapElements(i, i - 1);
}

Status VariableUses::FollowReference(const Use& use) {
  NodeDef& node = *graph_.mutable_node(use.node);
  if (node.op() == "IsVariableInitialized") {
    MakeConst(Tensor::Scalar(true), &node);
    return Status();
  }
  if (node.op().starts_with("Ref")) {
    if (const PassOn* pass = FindPassOn(std::string_view(node.op()).substr(3), use.input)) {
      node.set_op(std::string(pass->op));
      for (int i = 0; i < pass->outputs; ++i) Follow(use.node, i);
      return Status();
    }
  }
  return WantsReference(node, use.input) ? Refuse(node) : Status();
}

void VariableUses::Finish() {
  for (NodeDef& node : added_) *graph_.add_node() = std::move(node);
  added_.clear();
}

}  // namespace millrace
