// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/node_def_text.h"

#include <algorithm>
#include <map>

#include "op/attr_codec.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"

namespace millrace {
namespace {

constexpr size_t kMaxListed = 32;
constexpr int64_t kHuge = INT64_MAX / 4;
constexpr int kMaxDepth = 64;

bool IsLetterOrDigit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

std::string AttrText(const tensorflow::AttrValue& value) {
  // Decoding a tensor could take memory; its text would be cut anyway.
  if (value.has_tensor() || value.has_func() || value.has_list()) return "...";
  const auto decoded = AttrValueFromProto(value, "");
  return decoded.ok() ? decoded->ToString() : "<invalid>";
}

int64_t TensorBytes(const tensorflow::TensorProto& tensor) {
  const size_t size = DataTypeSize(static_cast<DataType>(tensor.dtype()));
  int64_t bytes = size == 0 ? int64_t{sizeof(std::string)} : static_cast<int64_t>(size);
  for (const auto& dim : tensor.tensor_shape().dim()) {
    if (dim.size() == 0) return 0;
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(dim.size(), 1), &bytes) || bytes > kHuge)
      bytes = kHuge;
  }
  return bytes;
}

int64_t Bytes(const tensorflow::AttrValue& value, int depth) {
  int64_t bytes = 0;
  const auto add = [&bytes](int64_t more) { bytes = std::min(bytes + more, kHuge); };
  const auto add_func = [&](const tensorflow::NameAttrList& func) {
    if (depth >= kMaxDepth) return;
    for (const auto& [name, attr] : func.attr()) add(Bytes(attr, depth + 1));
  };
  if (value.has_tensor()) add(TensorBytes(value.tensor()));
  if (value.has_func()) add_func(value.func());
  if (value.has_list()) {
    for (const auto& tensor : value.list().tensor()) add(TensorBytes(tensor));
    for (const auto& func : value.list().func()) add_func(func);
  }
  return bytes;
}

}  // namespace

bool IsValidNodeName(std::string_view name, bool internal) {
  if (name.empty()) return false;
  if (!IsLetterOrDigit(name[0]) && name[0] != '.' && !(internal && name[0] == '_')) return false;
  return std::all_of(name.begin() + 1, name.end(), [](char c) {
    return IsLetterOrDigit(c) || c == '_' || c == '.' || c == '\\' || c == '/' || c == '-';
  });
}

std::string SummarizeNodeDef(const tensorflow::NodeDef& def) {
  std::string out = NodeTag(def.name()) + " = " + def.op() + "[";
  std::map<std::string_view, const tensorflow::AttrValue*> attrs;
  for (const auto& [name, value] : def.attr()) attrs.emplace(name, &value);
  bool first = true;
  const auto add = [&](std::string_view text) {
    if (!first) out += ", ";
    first = false;
    out += text;
  };
  size_t listed = 0;
  for (const auto& [name, value] : attrs) {
    if (listed++ < kMaxListed) add(std::string(name) + "=" + AttrText(*value));
  }
  if (!def.device().empty()) add("_device=\"" + def.device() + "\"");
  out += "](";
  first = true;
  listed = 0;
  for (const std::string& input : def.input()) {
    if (listed++ < kMaxListed) add(input);
  }
  if (listed > kMaxListed) add("...");
  return out + ")";
}

std::string NodeTag(std::string_view name) { return StrCat("{{node ", name, "}}"); }

Status WithNodeName(const Status& status, const OpDef& op, std::string_view node) {
  const std::string text = StrCat("; NodeDef: ", NodeTag(node));
  const std::string of_op = StrCat("; ", SummarizeOp(op));
  if (!status.message().ends_with(of_op)) return status.WithContext(text);
  const std::string what(status.message().substr(0, status.message().size() - of_op.size()));
  return Status(status.code(), StrCat(what, "\n\t", text, of_op));
}

std::string DataTypesText(std::span<const DataType> types) {
  std::string out;
  for (size_t i = 0; i < types.size() && i <= kMaxListed; ++i) {
    if (i > 0) out += ", ";
    out += i == kMaxListed ? "..." : DataTypeName(types[i]);
  }
  return out;
}

int64_t DeclaredTensorBytes(const tensorflow::AttrValue& value) { return Bytes(value, 0); }

}  // namespace millrace
