// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "op/op_def.h"

#include <algorithm>

namespace millrace {
namespace {

// A node with more inputs than this is refused before memory is spent on it.
constexpr int64_t kMaxArgRepeats = 1 << 22;

template <typename T>
std::string Join(const std::vector<T>& values, auto print) {
  std::string out;
  for (const T& v : values) {
    if (!out.empty()) out += ", ";
    out += print(v);
  }
  return out;
}

// The number of tensors of an argument with a number_attr.
StatusOr<int64_t> Repeats(const ArgDef& arg, const AttrMap& attrs) {
  if (arg.number_attr.empty()) return 1;
  MR_ASSIGN_OR_RETURN(const int64_t repeats, attrs.Get<int64_t>(arg.number_attr));
  if (repeats < 0 || repeats > kMaxArgRepeats) {
    return errors::InvalidArgument("Value for attr '", arg.number_attr, "' of ", repeats,
                                   " is not a valid number of tensors for argument '", arg.name, "'");
  }
  return repeats;
}

Status AppendArgTypes(const ArgDef& arg, const AttrMap& attrs, std::vector<DataType>* types) {
  const size_t first = types->size();
  if (!arg.type_list_attr.empty()) {
    MR_ASSIGN_OR_RETURN(const std::vector<DataType> list,
                        attrs.Get<std::vector<DataType>>(arg.type_list_attr));
    types->insert(types->end(), list.begin(), list.end());
  } else {
    MR_ASSIGN_OR_RETURN(const int64_t repeats, Repeats(arg, attrs));
    DataType type = arg.type;
    if (!arg.type_attr.empty()) {
      MR_ASSIGN_OR_RETURN(type, attrs.Get<DataType>(arg.type_attr));
    }
    types->insert(types->end(), static_cast<size_t>(repeats), type);
  }
  for (size_t i = first; i < types->size(); ++i) {
    DataType& type = (*types)[i];
    if (type == DataType::kInvalid) return errors::InvalidArgument("Argument '", arg.name, "' has no type");
    if (!arg.is_ref) continue;
    if (IsRefType(type)) {
      return errors::InvalidArgument("Requested reference to a reference type: ", DataTypeName(type));
    }
    type = MakeRefType(type);
  }
  return Status::Ok();
}

Status CheckAllowed(DataType value, const AttrDef& attr) {
  const auto* allowed = attr.allowed_values.As<std::vector<DataType>>();
  if (allowed == nullptr || std::ranges::find(*allowed, value) != allowed->end()) return Status::Ok();
  return errors::InvalidArgument("Value for attr '", attr.name, "' of ", DataTypeName(value),
                                 " is not in the list of allowed values: ", Join(*allowed, DataTypeName));
}

Status CheckAllowed(const std::string& value, const AttrDef& attr) {
  const auto* allowed = attr.allowed_values.As<std::vector<std::string>>();
  if (allowed == nullptr || std::ranges::find(*allowed, value) != allowed->end()) return Status::Ok();
  const auto quote = [](const std::string& s) { return AttrValue(s).ToString(); };
  return errors::InvalidArgument("Value for attr '", attr.name, "' of ", quote(value),
                                 " is not in the list of allowed values: ", Join(*allowed, quote));
}

// Number of entries of a list value; 0 for the empty list and for an unset value.
size_t ListSize(const AttrValue& value) {
  return std::visit(
      []<typename T>(const T& v) -> size_t {
        if constexpr (requires(const T& x) { x.size(); } && !std::is_same_v<T, std::string>) {
          return v.size();
        } else {
          return 0;
        }
      },
      value.variant());
}

Status CheckMinimum(const AttrDef& attr, const AttrValue& value) {
  if (!attr.has_minimum) return Status::Ok();
  if (const auto* i = value.As<int64_t>(); i != nullptr && *i < attr.minimum) {
    return errors::InvalidArgument("Value for attr '", attr.name, "' of ", *i, " must be at least minimum ",
                                   attr.minimum);
  }
  if (attr.type.starts_with("list(") && static_cast<int64_t>(ListSize(value)) < attr.minimum) {
    return errors::InvalidArgument("Length for attr '", attr.name, "' of ", ListSize(value),
                                   " must be at least minimum ", attr.minimum);
  }
  return Status::Ok();
}

void SummarizeArgs(const std::vector<ArgDef>& args, std::string* out) {
  bool first = true;
  for (const ArgDef& arg : args) {
    if (!first) *out += ", ";
    first = false;
    *out += arg.name + ":";
    if (arg.is_ref) *out += "Ref(";
    if (!arg.number_attr.empty()) *out += arg.number_attr + "*";
    if (arg.type != DataType::kInvalid) {
      *out += DataTypeName(arg.type);
    } else {
      *out += arg.type_attr.empty() ? arg.type_list_attr : arg.type_attr;
    }
    if (arg.is_ref) *out += ")";
  }
}

}  // namespace

const AttrDef* OpDef::FindAttr(std::string_view attr) const {
  for (const AttrDef& a : attrs) {
    if (a.name == attr) return &a;
  }
  return nullptr;
}

Status InferArgTypes(const OpDef& op, const AttrMap& attrs, std::vector<DataType>* inputs,
                     std::vector<DataType>* outputs) {
  inputs->clear();
  outputs->clear();
  for (const ArgDef& arg : op.inputs) MR_RETURN_IF_ERROR(AppendArgTypes(arg, attrs, inputs));
  for (const ArgDef& arg : op.outputs) MR_RETURN_IF_ERROR(AppendArgTypes(arg, attrs, outputs));
  return Status::Ok();
}

Status InferArgRanges(const std::vector<ArgDef>& args, const AttrMap& attrs, std::vector<ArgRange>* ranges) {
  ranges->clear();
  int begin = 0;
  for (const ArgDef& arg : args) {
    int64_t count = 0;
    if (!arg.type_list_attr.empty()) {
      MR_ASSIGN_OR_RETURN(const std::vector<DataType> list,
                          attrs.Get<std::vector<DataType>>(arg.type_list_attr));
      count = static_cast<int64_t>(list.size());
    } else {
      MR_ASSIGN_OR_RETURN(count, Repeats(arg, attrs));
    }
    const int end = begin + static_cast<int>(count);
    ranges->push_back({arg.name, begin, end});
    begin = end;
  }
  return Status::Ok();
}

Status ValidateAttrValue(const AttrDef& attr, const AttrValue& value) {
  MR_RETURN_IF_ERROR(CheckAttrType(value, attr.type).WithContext(StrCat("\n\t for attr '", attr.name, "'")));
  MR_RETURN_IF_ERROR(CheckMinimum(attr, value));
  if (!attr.allowed_values.IsSet()) return Status::Ok();
  if (const auto* t = value.As<DataType>()) return CheckAllowed(*t, attr);
  if (const auto* s = value.As<std::string>()) return CheckAllowed(*s, attr);
  if (const auto* list = value.As<std::vector<DataType>>()) {
    for (const DataType t : *list) MR_RETURN_IF_ERROR(CheckAllowed(t, attr));
  }
  if (const auto* list = value.As<std::vector<std::string>>()) {
    for (const std::string& s : *list) MR_RETURN_IF_ERROR(CheckAllowed(s, attr));
  }
  return Status::Ok();
}

Status ValidateAttrs(const OpDef& op, const AttrMap& attrs) {
  for (const auto& [name, value] : attrs) {
    if (name.starts_with("_")) continue;
    const AttrDef* attr = op.FindAttr(name);
    if (attr == nullptr) {
      return errors::InvalidArgument("NodeDef mentions attr '", name, "' not in ", SummarizeOp(op));
    }
    if (value.IsPlaceholder()) continue;  // see MakePropsInBody
    if (Status s = ValidateAttrValue(*attr, value); !s.ok())
      return s.WithContext(StrCat("; ", SummarizeOp(op)));
  }
  std::vector<std::string> missing;
  for (const AttrDef& attr : op.attrs) {
    if (attrs.Find(attr.name) == nullptr) missing.push_back(StrCat("'", attr.name, "'"));
  }
  if (missing.empty()) return Status::Ok();
  return errors::InvalidArgument("NodeDef missing attr", missing.size() > 1 ? "s " : " ",
                                 Join(missing, [](const std::string& s) { return s; }), " from ",
                                 SummarizeOp(op));
}

Status AddDefaultAttrs(const OpDef& op, AttrMap* attrs) {
  for (const AttrDef& attr : op.attrs) {
    if (attr.default_value.IsSet() && attrs->Find(attr.name) == nullptr)
      attrs->Set(attr.name, attr.default_value);
  }
  return ValidateAttrs(op, *attrs);
}

std::string SummarizeOp(const OpDef& op) {
  std::string out = StrCat("Op<name=", op.name, "; signature=");
  SummarizeArgs(op.inputs, &out);
  out += " -> ";
  SummarizeArgs(op.outputs, &out);
  for (const AttrDef& attr : op.attrs) {
    out += StrCat("; attr=", attr.name, ":", attr.type);
    if (attr.default_value.IsSet()) out += StrCat(",default=", attr.default_value.ToString());
    if (attr.has_minimum) out += StrCat(",min=", attr.minimum);
    if (attr.allowed_values.IsSet()) out += StrCat(",allowed=", attr.allowed_values.ToString());
  }
  if (op.is_commutative) out += "; is_commutative=true";
  if (op.is_aggregate) out += "; is_aggregate=true";
  if (op.is_stateful) out += "; is_stateful=true";
  if (op.allows_uninitialized_input) out += "; allows_uninitialized_input=true";
  return out + ">";
}

}  // namespace millrace
