// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "op/op_def_codec.h"

#include "op/attr_codec.h"
#include "op/op_registry.h"
#include "tensorflow/core/framework/op_def.pb.h"

namespace millrace {
namespace {

ArgDef ArgFromProto(const tensorflow::OpDef::ArgDef& proto) {
  return ArgDef{.name = proto.name(),
                .type = static_cast<DataType>(proto.type()),
                .type_attr = proto.type_attr(),
                .number_attr = proto.number_attr(),
                .type_list_attr = proto.type_list_attr(),
                .is_ref = proto.is_ref(),
                .description = proto.description()};
}

void ArgToProto(const ArgDef& arg, tensorflow::OpDef::ArgDef* proto) {
  proto->set_name(arg.name);
  proto->set_type(static_cast<tensorflow::DataType>(arg.type));
  proto->set_type_attr(arg.type_attr);
  proto->set_number_attr(arg.number_attr);
  proto->set_type_list_attr(arg.type_list_attr);
  proto->set_is_ref(arg.is_ref);
  proto->set_description(arg.description);
}

StatusOr<AttrDef> AttrFromProto(const tensorflow::OpDef::AttrDef& proto) {
  AttrDef attr{.name = proto.name(),
               .type = proto.type(),
               .default_value = {},
               .has_minimum = proto.has_minimum(),
               .minimum = proto.minimum(),
               .allowed_values = {},
               .description = proto.description()};
  if (proto.has_default_value()) {
    MR_ASSIGN_OR_RETURN(attr.default_value, AttrValueFromProto(proto.default_value(), proto.name()));
  }
  if (proto.has_allowed_values()) {
    MR_ASSIGN_OR_RETURN(attr.allowed_values, AttrValueFromProto(proto.allowed_values(), proto.name()));
  }
  return attr;
}

void AttrToProto(const AttrDef& attr, tensorflow::OpDef::AttrDef* proto) {
  proto->set_name(attr.name);
  proto->set_type(attr.type);
  if (attr.default_value.IsSet()) AttrValueToProto(attr.default_value, proto->mutable_default_value());
  if (attr.has_minimum) {
    proto->set_has_minimum(true);
    proto->set_minimum(attr.minimum);
  }
  if (attr.allowed_values.IsSet()) AttrValueToProto(attr.allowed_values, proto->mutable_allowed_values());
  proto->set_description(attr.description);
}

}  // namespace

StatusOr<OpDef> OpDefFromProto(const tensorflow::OpDef& proto) {
  OpDef op;
  op.name = proto.name();
  for (const auto& arg : proto.input_arg()) op.inputs.push_back(ArgFromProto(arg));
  for (const auto& arg : proto.output_arg()) op.outputs.push_back(ArgFromProto(arg));
  for (const auto& attr_proto : proto.attr()) {
    auto attr = AttrFromProto(attr_proto);
    if (!attr.ok()) return attr.status().WithContext(StrCat("; in OpDef '", proto.name(), "'"));
    op.attrs.push_back(*std::move(attr));
  }
  op.summary = proto.summary();
  op.description = proto.description();
  if (proto.has_deprecation()) {
    op.deprecated_version = proto.deprecation().version();
    op.deprecated_explanation = proto.deprecation().explanation();
  }
  op.is_commutative = proto.is_commutative();
  op.is_aggregate = proto.is_aggregate();
  op.is_stateful = proto.is_stateful();
  op.allows_uninitialized_input = proto.allows_uninitialized_input();
  return op;
}

void OpDefToProto(const OpDef& op, tensorflow::OpDef* proto) {
  proto->Clear();
  proto->set_name(op.name);
  for (const ArgDef& arg : op.inputs) ArgToProto(arg, proto->add_input_arg());
  for (const ArgDef& arg : op.outputs) ArgToProto(arg, proto->add_output_arg());
  for (const AttrDef& attr : op.attrs) AttrToProto(attr, proto->add_attr());
  proto->set_summary(op.summary);
  proto->set_description(op.description);
  if (op.deprecated_version > 0) {
    proto->mutable_deprecation()->set_version(op.deprecated_version);
    proto->mutable_deprecation()->set_explanation(op.deprecated_explanation);
  }
  proto->set_is_commutative(op.is_commutative);
  proto->set_is_aggregate(op.is_aggregate);
  proto->set_is_stateful(op.is_stateful);
  proto->set_allows_uninitialized_input(op.allows_uninitialized_input);
}

void ExportOps(const OpRegistry& registry, tensorflow::OpList* list) {
  list->Clear();
  std::vector<const OpRegistration*> ops = registry.All();
  for (const OpRegistration* declared : registry.Declared()) ops.push_back(declared);
  std::ranges::sort(ops, {}, [](const OpRegistration* op) { return std::string_view(op->def.name); });
  for (const OpRegistration* op : ops) OpDefToProto(op->def, list->add_op());
}

}  // namespace millrace
