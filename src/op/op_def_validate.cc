// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Checks that a registration is consistent by itself.
#include <algorithm>
#include <set>

#include "op/op_def.h"

namespace millrace {
namespace {

bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool IsUpper(char c) { return c >= 'A' && c <= 'Z'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// CamelCase, with a leading '_' for ops that no client may use; '>' separates a namespace.
bool IsOpName(std::string_view name) {
  if (name.starts_with("_")) name.remove_prefix(1);
  if (name.empty() || !IsUpper(name[0])) return false;
  return std::ranges::all_of(
      name, [](char c) { return IsLower(c) || IsUpper(c) || IsDigit(c) || c == '_' || c == '>'; });
}

bool IsArgName(std::string_view name) {
  if (name.empty() || !IsLower(name[0])) return false;
  return std::ranges::all_of(name, [](char c) { return IsLower(c) || IsDigit(c) || c == '_'; });
}

bool IsAttrName(std::string_view name) {
  if (name.empty() || !(IsLower(name[0]) || IsUpper(name[0]))) return false;
  return std::ranges::all_of(name, [](char c) { return IsLower(c) || IsUpper(c) || IsDigit(c) || c == '_'; });
}

bool IsAttrType(std::string_view type) {
  if (type.starts_with("list(") && type.ends_with(")")) type = type.substr(5, type.size() - 6);
  static constexpr std::string_view kTypes[] = {"string", "int",   "float",  "bool",
                                                "type",   "shape", "tensor", "func"};
  return std::ranges::find(kTypes, type) != std::end(kTypes);
}

// The subject of the rules: the names of registered ops, or signatures of functions, which may be named
// freely.
enum class Names { kOp, kFree };

Status ValidateAttr(const AttrDef& attr, Names names) {
  if (attr.name.empty() || (names == Names::kOp && !IsAttrName(attr.name))) {
    return errors::InvalidArgument("Invalid name for attr '", attr.name, "'");
  }
  if (names == Names::kOp && ParseDataType(attr.name).has_value()) {
    return errors::InvalidArgument("Attr can't have name ", attr.name, " that matches a data type");
  }
  if (!IsAttrType(attr.type)) {
    return errors::InvalidArgument("Unrecognized type '", attr.type, "' in attr '", attr.name, "'");
  }
  if (attr.has_minimum) {
    const bool is_list = attr.type.starts_with("list(");
    if (!is_list && attr.type != "int") {
      return errors::InvalidArgument("Attr '", attr.name, "' has minimum for unsupported type ", attr.type);
    }
    if (is_list && attr.minimum < 0) {
      return errors::InvalidArgument("Attr '", attr.name,
                                     "' with list type must have a non-negative minimum, not ", attr.minimum);
    }
  }
  if (attr.allowed_values.IsSet()) {
    const bool types = attr.type == "type" || attr.type == "list(type)";
    const bool strings = attr.type == "string" || attr.type == "list(string)";
    if (!attr.allowed_values.HasType(types ? "list(type)" : "list(string)") || !(types || strings)) {
      return errors::InvalidArgument("Attr '", attr.name, "' has allowed values that don't suit its type ",
                                     attr.type);
    }
  }
  if (attr.default_value.IsSet()) {
    MR_RETURN_IF_ERROR(ValidateAttrValue(attr, attr.default_value).WithContext(", which is its default"));
  }
  return Status::Ok();
}

// The attr `name` must exist and have type `type`.
Status CheckReference(const OpDef& op, const ArgDef& arg, const std::string& name, std::string_view type) {
  const AttrDef* attr = op.FindAttr(name);
  if (attr == nullptr)
    return errors::InvalidArgument("No attr with name '", name, "' for argument '", arg.name, "'");
  if (attr->type != type) {
    return errors::InvalidArgument("Attr '", name, "' used for argument '", arg.name, "' has type ",
                                   attr->type, " instead of ", type);
  }
  return Status::Ok();
}

Status ValidateArg(const OpDef& op, const ArgDef& arg, bool output, Names rule,
                   std::set<std::string>* names) {
  if (arg.name.empty() || (rule == Names::kOp && !IsArgName(arg.name))) {
    return errors::InvalidArgument("Invalid name for ", output ? "output" : "input", " argument '", arg.name,
                                   "'");
  }
  if (!names->insert(arg.name).second) return errors::InvalidArgument("Duplicate name: ", arg.name);
  const int kinds = (arg.type != DataType::kInvalid) + !arg.type_attr.empty() + !arg.type_list_attr.empty();
  if (kinds != 1) {
    return errors::InvalidArgument("Argument '", arg.name, "' has ",
                                   kinds == 0 ? "no type" : "more than one type");
  }
  if (arg.type != DataType::kInvalid && (!IsKnownDataType(arg.type) || IsRefType(arg.type))) {
    return errors::InvalidArgument("Illegal type ", DataTypeName(arg.type), " of argument '", arg.name,
                                   "'; references are written Ref(type)");
  }
  if (!arg.type_attr.empty()) MR_RETURN_IF_ERROR(CheckReference(op, arg, arg.type_attr, "type"));
  if (!arg.type_list_attr.empty()) {
    MR_RETURN_IF_ERROR(CheckReference(op, arg, arg.type_list_attr, "list(type)"));
    if (!arg.number_attr.empty()) {
      return errors::InvalidArgument("Can't have both number_attr and type_list_attr for argument '",
                                     arg.name, "'");
    }
  }
  if (!arg.number_attr.empty()) {
    MR_RETURN_IF_ERROR(CheckReference(op, arg, arg.number_attr, "int"));
    const AttrDef* number = op.FindAttr(arg.number_attr);
    if (rule == Names::kFree) return Status::Ok();
    if (!number->has_minimum) {
      return errors::InvalidArgument("Attr '", number->name, "' used as number_attr for argument '", arg.name,
                                     "' should have a minimum");
    }
    if (number->minimum < 0) {
      return errors::InvalidArgument("Attr '", number->name,
                                     "' used as number_attr must have a minimum >= 0");
    }
  }
  return Status::Ok();
}

Status ValidateWithoutContext(const OpDef& op, Names rule) {
  std::set<std::string> names;
  for (const AttrDef& attr : op.attrs) {
    MR_RETURN_IF_ERROR(ValidateAttr(attr, rule));
    if (!names.insert(attr.name).second) return errors::InvalidArgument("Duplicate name: ", attr.name);
  }
  // Arguments of a function may be called like its attributes.
  if (rule == Names::kFree) names.clear();
  for (const ArgDef& arg : op.inputs) MR_RETURN_IF_ERROR(ValidateArg(op, arg, false, rule, &names));
  // An output may carry the name of an input, never that of an attr.
  names.clear();
  if (rule == Names::kOp) {
    for (const AttrDef& attr : op.attrs) names.insert(attr.name);
  }
  for (const ArgDef& arg : op.outputs) MR_RETURN_IF_ERROR(ValidateArg(op, arg, true, rule, &names));
  return Status::Ok();
}

Status Validate(const OpDef& op, Names rule) {
  if (Status s = ValidateWithoutContext(op, rule); !s.ok())
    return s.WithContext(StrCat("; in OpDef: ", SummarizeOp(op)));
  return Status::Ok();
}

}  // namespace

Status ValidateSignature(const OpDef& op) { return Validate(op, Names::kFree); }

Status ValidateOpDef(const OpDef& op) {
  if (!IsOpName(op.name))
    return errors::InvalidArgument("Invalid name: ", op.name, " (Did you use CamelCase?)");
  return Validate(op, Names::kOp);
}

}  // namespace millrace
