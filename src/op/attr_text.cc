// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "op/attr_text.h"

#include <limits>

#include "base/strings.h"
#include "op/attr_codec.h"
#include "proto/message_types.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace millrace {
namespace {

// Name of the field of tensorflow.AttrValue that holds a value of the (scalar) type.
std::string_view FieldOf(std::string_view type) {
  if (type == "string") return "s";
  if (type == "int") return "i";
  if (type == "float") return "f";
  if (type == "bool") return "b";
  return type;  // type, shape, tensor, func
}

bool IsListType(std::string_view type) { return type.starts_with("list("); }

bool IsMessage(std::string_view type) { return type == "shape" || type == "tensor" || type == "func"; }

// A fast path for frequent texts of registrations, since the first use of the general parser takes 10
// ms.
AttrValue ParseSimple(std::string_view type, std::string_view text) {
  if (type == "bool") {
    if (text == "true") return true;
    if (text == "false") return false;
  } else if (type == "int") {
    if (const auto i = SafeStringToInt64(text)) return *i;
  } else if (type == "float") {
    if (const auto f = SafeStringToDouble(text)) return *f;
  } else if (type == "type" && text.starts_with("DT_")) {
    if (const auto t = ParseDataType(text)) return *t;
  } else if (type == "string" && text.size() >= 2 && (text[0] == '"' || text[0] == '\'')) {
    const std::string_view inside = text.substr(1, text.size() - 2);
    if (text.back() == text[0] && inside.find_first_of("\"'\\\n") == std::string_view::npos) return inside;
  } else if (type == "shape") {
    if (text == "{ unknown_rank: true }") return PartialShape();
  } else if (IsListType(type)) {
    if (text == "[]") return EmptyList{};
  }
  return AttrValue();
}

}  // namespace

StatusOr<AttrValue> ParseAttrText(std::string_view type, std::string_view text) {
  text = StripWhitespace(text);
  if (AttrValue simple = ParseSimple(type, text); simple.IsSet()) return simple;
  std::string_view scalar = type;
  const bool is_list = ConsumePrefix(&scalar, "list(") && ConsumeSuffix(&scalar, ")");
  std::string proto_text;
  if (is_list) {
    if (!text.starts_with("["))
      return errors::InvalidArgument("a list has to begin with '[', not as in ", text);
    proto_text = StrCat("list { ", FieldOf(scalar), ": ", text, " }");
  } else if (IsMessage(scalar)) {
    if (!text.starts_with("{") && !text.starts_with("<")) {
      return errors::InvalidArgument("a ", type, " has to be written in braces, not as in ", text);
    }
    proto_text = StrCat(scalar, " ", text);
  } else {
    proto_text = StrCat(FieldOf(scalar), ": ", text);
  }
  tensorflow::AttrValue proto;
  TextError error;
  if (!ParseMessageText(proto_text, UnknownFields::kRefused, &proto, &error)) {
    return errors::InvalidArgument("'", text, "' is not a value of type ", type, " (", error.message,
                                   " at column ", error.column, ")");
  }
  MR_ASSIGN_OR_RETURN(AttrValue value, AttrValueFromProto(proto, type));
  // Text such as "3 s: 'x'" sets a second field, or one of another type.
  MR_RETURN_IF_ERROR(CheckAttrType(value, type));
  return value;
}

}  // namespace millrace
