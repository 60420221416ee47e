// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "display/graph/page.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "display/page/page.h"
#include "display/tensor_text.h"
#include "display/text.h"
#include "millrace/dtype.h"
#include "millrace/json_writer.h"
#include "op/attr_codec.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace {
namespace {

constexpr size_t kMostAttributeText = 160;  // bytes
constexpr int64_t kMostShownElements = 32;

// "float [2,3]", and the elements of a small tensor.
std::string TensorAttributeText(const tensorflow::TensorProto& proto) {
  std::string text = DataTypeName(static_cast<DataType>(proto.dtype()));
  const auto shape = ShapeFromProto(proto.tensor_shape());
  if (!shape.ok()) return text;
  text += StrCat(" ", *shape);
  if (shape->num_elements() > kMostShownElements) return text;
  const auto tensor = TensorFromProto(proto, {.max_bytes = 1 << 16});
  if (tensor.ok()) text += StrCat(" ", TensorText(*tensor, {.string_bytes = 40}));
  return text;
}

std::string AttributeText(std::string_view name, const tensorflow::AttrValue& proto) {
  if (proto.has_tensor()) return TensorAttributeText(proto.tensor());
  if (proto.value_case() == tensorflow::AttrValue::kType) {
    return DataTypeName(static_cast<DataType>(proto.type()));
  }
  if (proto.ByteSizeLong() > 4096) return StrCat("(", BytesText(proto.ByteSizeLong()), ")");
  int64_t budget = 1 << 16;
  const auto value = AttrValueFromProto(proto, name, &budget);
  return value.ok() ? value->ToString() : "(malformed)";
}

// Texts that many nodes share are written once, and referred to by number.
class TextPool {
 public:
  int Add(std::string text) {
    const auto [it, added] = numbers_.try_emplace(std::move(text), static_cast<int>(texts_.size()));
    if (added) texts_.push_back(&it->first);
    return it->second;
  }
  void Write(std::string_view key, JsonWriter* json) const {
    json->Key(key).BeginArray();
    for (const std::string* text : texts_) json->Value(*text);
    json->EndArray();
  }

 private:
  std::unordered_map<std::string, int> numbers_;
  std::vector<const std::string*> texts_;
};

void WriteItems(const ScopeTree& tree, JsonWriter* json) {
  json->Key("items").BeginObject().Key("label").BeginArray();
  for (const ScopeItem& item : tree.items) json->Value(item.label);
  json->EndArray().Key("parent").BeginArray();
  for (const ScopeItem& item : tree.items) json->Value(item.parent);
  json->EndArray().Key("node").BeginArray();
  for (const ScopeItem& item : tree.items) json->Value(item.is_group ? -2 : item.node);
  json->EndArray().EndObject();
}

void WriteNodes(const tensorflow::GraphDef& graph, JsonWriter* json) {
  TextPool ops, devices, attributes;
  json->Key("nodes").BeginObject().Key("op").BeginArray();
  for (const auto& node : graph.node()) json->Value(ops.Add(node.op()));
  json->EndArray().Key("device").BeginArray();
  for (const auto& node : graph.node()) json->Value(devices.Add(node.device()));
  json->EndArray().Key("name").BeginArray();
  for (const auto& node : graph.node()) json->Value(node.name());
  json->EndArray().Key("attributes").BeginArray();
  for (const auto& node : graph.node()) {
    json->BeginArray();
    const std::map<std::string_view, const tensorflow::AttrValue*> sorted = [&] {
      std::map<std::string_view, const tensorflow::AttrValue*> by_name;
      for (const auto& [name, value] : node.attr()) by_name.emplace(name, &value);
      return by_name;
    }();
    for (const auto& [name, value] : sorted) {
      json->Value(attributes.Add(
          StrCat(Printable(name, 60), ": ", Printable(AttributeText(name, *value), kMostAttributeText))));
    }
    json->EndArray();
  }
  json->EndArray().EndObject();
  ops.Write("ops", json);
  devices.Write("devices", json);
  attributes.Write("attributes", json);
}

// Four numbers each: from, to, output (-1: control), input.
void WriteEdges(const ScopeTree& tree, JsonWriter* json) {
  json->Key("edges").BeginArray();
  for (const ScopeEdge& edge : tree.edges) {
    json->Value(edge.from).Value(edge.to).Value(edge.output).Value(edge.input);
  }
  json->EndArray();
}

void WriteConstants(const ScopeTree& tree, JsonWriter* json) {
  json->Key("constants").BeginArray();
  for (const ScopeItem& item : tree.items) {
    if (item.node >= 0 && item.constants > 0) json->Value(item.node);
  }
  json->EndArray();
}

void WriteFunctions(const tensorflow::GraphDef& graph, JsonWriter* json) {
  json->Key("functions").BeginArray();
  for (const auto& function : graph.library().function()) json->Value(function.signature().name());
  json->EndArray();
}

}  // namespace

std::string RenderGraphPage(const ScopeTree& tree, const tensorflow::GraphDef& graph,
                            const std::string& title) {
  JsonWriter json;
  json.BeginObject().Field("title", title).Field("producer", graph.versions().producer());
  WriteItems(tree, &json);
  WriteNodes(graph, &json);
  WriteEdges(tree, &json);
  WriteConstants(tree, &json);
  WriteFunctions(graph, &json);
  json.EndObject();
  const std::string summary = StrCat(CountOf(static_cast<uint64_t>(graph.node_size()), "node"), ", ",
                                     CountOf(tree.edges.size(), "edge"));
  const std::string script = StrCat(kGraphPageDagreScript, kGraphPageDataScript, kGraphPageLayoutScript,
                                    kGraphPageViewScript, kGraphPageDetailsScript);
  return WritePage({.title = title + " – graph",
                    .summary = summary,
                    .body = kGraphPageHtml,
                    .style = kGraphPageStyle,
                    .script = script,
                    .data = json.text()});
}

}  // namespace millrace
