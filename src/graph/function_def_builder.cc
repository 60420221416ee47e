// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/function_def_builder.h"

#include <utility>

#include "op/attr_codec.h"
#include "op/op_def_codec.h"
#include "tensorflow/core/framework/function.pb.h"

namespace millrace {
namespace {

AttrValue WithPlaceholder(const AttrValue& value) {
  const auto* text = value.As<std::string>();
  if (text == nullptr || text->size() < 2 || text->front() != '$') return value;
  return AttrPlaceholder{text->substr(1)};
}

}  // namespace

// Functions may have any name; the registration language requires CamelCase.
FunctionBuilder::FunctionBuilder(std::string name) : name_(std::move(name)), signature_("Function") {}

FunctionBuilder& FunctionBuilder::Arg(std::string spec) {
  signature_.Input(std::move(spec));
  return *this;
}

FunctionBuilder& FunctionBuilder::Ret(std::string spec) {
  signature_.Output(std::move(spec));
  return *this;
}

FunctionBuilder& FunctionBuilder::Attr(std::string spec) {
  signature_.Attr(std::move(spec));
  return *this;
}

FunctionBuilder& FunctionBuilder::Stateful() {
  signature_.Stateful();
  return *this;
}

FunctionBuilder& FunctionBuilder::NoInline() {
  no_inline_ = true;
  return *this;
}

FunctionBuilder& FunctionBuilder::Node(std::string name, std::string op, std::vector<std::string> inputs,
                                       AttrMap attrs, std::string device) {
  nodes_.push_back({std::move(name), std::move(op), std::move(inputs), std::move(attrs), std::move(device)});
  return *this;
}

FunctionBuilder& FunctionBuilder::Return(std::string ret, std::string tensor) {
  rets_[std::move(ret)] = std::move(tensor);
  return *this;
}

FunctionBuilder& FunctionBuilder::ControlReturn(std::string name, std::string node) {
  control_rets_[std::move(name)] = std::move(node);
  return *this;
}

Status FunctionBuilder::Build(tensorflow::FunctionDef* def) const {
  def->Clear();
  auto signature = signature_.Finalize();
  if (!signature.ok()) return signature.status().WithContext(StrCat("; in function '", name_, "'"));
  OpDefToProto(signature->def, def->mutable_signature());
  def->mutable_signature()->set_name(name_);
  for (const BodyNode& node : nodes_) {
    tensorflow::NodeDef* out = def->add_node_def();
    out->set_name(node.name);
    out->set_op(node.op);
    out->set_device(node.device);
    for (const std::string& input : node.inputs) out->add_input(input);
    for (const auto& [name, value] : node.attrs)
      AttrValueToProto(WithPlaceholder(value), &(*out->mutable_attr())[name]);
  }
  for (const auto& [ret, tensor] : rets_) (*def->mutable_ret())[ret] = tensor;
  for (const auto& [name, node] : control_rets_) {
    (*def->mutable_control_ret())[name] = node;
    def->mutable_signature()->add_control_output(name);
  }
  if (no_inline_) (*def->mutable_attr())["_noinline"].set_b(true);
  return Status();
}

}  // namespace millrace
