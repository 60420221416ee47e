// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/example_text.h"

#include <algorithm>
#include <climits>
#include <map>

#include "display/tensor_text.h"
#include "display/text.h"
#include "millrace/tensor.h"
#include "tensorflow/core/example/example.pb.h"

namespace millrace::cli {
namespace {

using tensorflow::Feature;
using FeatureMap = google::protobuf::Map<std::string, Feature>;

constexpr size_t kMostTextBytes = 200;  // of a string that is shown

template <typename Message>
bool Parse(std::string_view bytes, Message* message) {
  return bytes.size() <= INT_MAX && message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

// A message of another type may parse if it has the same field numbers; then it has unknown fields, or
// invalid parts.
template <typename Message>
bool IsWhole(std::string_view bytes, Message* message) {
  return Parse(bytes, message) && message->GetReflection()->GetUnknownFields(*message).empty();
}

bool HasFeatures(const tensorflow::Features& features) { return !features.feature().empty(); }

int64_t SizeOf(const Feature& feature) {
  switch (feature.kind_case()) {
    case Feature::kBytesList:
      return feature.bytes_list().value_size();
    case Feature::kFloatList:
      return feature.float_list().value_size();
    case Feature::kInt64List:
      return feature.int64_list().value_size();
    case Feature::KIND_NOT_SET:
      break;
  }
  return 0;
}

std::string_view TypeOf(const Feature& feature) {
  switch (feature.kind_case()) {
    case Feature::kBytesList:
      return "bytes";
    case Feature::kFloatList:
      return "float";
    case Feature::kInt64List:
      return "int64";
    case Feature::KIND_NOT_SET:
      break;
  }
  return "none";
}

std::string ValueText(const Feature& feature, int i) {
  switch (feature.kind_case()) {
    case Feature::kBytesList:
      return Quoted(feature.bytes_list().value(i), kMostTextBytes);
    case Feature::kFloatList:
      return TensorText(Tensor::Scalar(feature.float_list().value(i)));
    case Feature::kInt64List:
      return std::to_string(feature.int64_list().value(i));
    case Feature::KIND_NOT_SET:
      break;
  }
  return "";
}

std::string FeatureText(const Feature& feature, int64_t values) {
  const int64_t size = SizeOf(feature);
  std::string out;
  for (int i = 0; i < std::min(size, values); ++i) out += StrCat(i == 0 ? "" : " ", ValueText(feature, i));
  if (size > values) out += StrCat(values > 0 ? " " : "", "…");
  return out;
}

// By name: the map of a message has no order.
std::map<std::string_view, const Feature*> Sorted(const FeatureMap& features) {
  std::map<std::string_view, const Feature*> sorted;
  for (const auto& [name, feature] : features) sorted.emplace(name, &feature);
  return sorted;
}

// One row a feature. `about` is what the feature belongs to: "" or the name of a list and the place in it.
void AddRows(const FeatureMap& features, int64_t values, TextTable* table) {
  for (const auto& [name, feature] : Sorted(features)) {
    table->AddRow({std::string(name), std::string(TypeOf(*feature)), StrCat("[", SizeOf(*feature), "]"),
                   FeatureText(*feature, values)});
  }
}

std::string Indented(const std::string& text, std::string_view indent) {
  std::string out;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    out += StrCat(indent, std::string_view(text).substr(begin, end - begin), "\n");
    begin = end + 1;
  }
  return out;
}

// The table without its titles.
std::string Rows(const TextTable& table, std::string_view indent) {
  const std::string text = table.ToString();
  return Indented(text.substr(text.find('\n') + 1), indent);
}

TextTable FeatureTable() {
  using enum TextTable::Align;
  return TextTable({{"", kLeft}, {"", kLeft}, {"", kLeft}, {"", kLeft}});
}

std::string ExampleText(const tensorflow::Features& features, int64_t values) {
  TextTable table = FeatureTable();
  AddRows(features.feature(), values, &table);
  return Rows(table, "  ");
}

std::string SequenceExampleText(const tensorflow::SequenceExample& example, int64_t values) {
  std::string out = ExampleText(example.context(), values);
  std::map<std::string_view, const tensorflow::FeatureList*> lists;
  for (const auto& [name, list] : example.feature_lists().feature_list()) lists.emplace(name, &list);
  for (const auto& [name, list] : lists) {
    out += StrCat("  ", Printable(name), ": ", list->feature_size(), " steps\n");
    TextTable table = FeatureTable();
    const int shown = static_cast<int>(std::min<int64_t>(list->feature_size(), values));
    for (int i = 0; i < shown; ++i) {
      const Feature& feature = list->feature(i);
      table.AddRow({std::to_string(i), std::string(TypeOf(feature)), StrCat("[", SizeOf(feature), "]"),
                    FeatureText(feature, values)});
    }
    if (shown > 0) out += Rows(table, "    ");
    if (shown < list->feature_size()) out += "    …\n";
  }
  return out;
}

void ValueJson(const Feature& feature, int i, JsonWriter* json) {
  if (feature.has_bytes_list()) {
    WriteBytesJson(feature.bytes_list().value(i), json);
  } else if (feature.has_float_list()) {
    WriteNumberJson(feature.float_list().value(i), json);
  } else {
    json->Value(feature.int64_list().value(i));
  }
}

void FeatureJson(const Feature& feature, int64_t values, JsonWriter* json) {
  json->BeginObject().Field("type", TypeOf(feature)).Field("size", SizeOf(feature));
  json->Key("values").BeginArray();
  for (int i = 0; i < std::min(SizeOf(feature), values); ++i) ValueJson(feature, i, json);
  json->EndArray().EndObject();
}

void FeaturesJson(std::string_view key, const tensorflow::Features& features, int64_t values,
                  JsonWriter* json) {
  json->Key(key).BeginObject();
  for (const auto& [name, feature] : Sorted(features.feature())) {
    json->Key(name);
    FeatureJson(*feature, values, json);
  }
  json->EndObject();
}

}  // namespace

RecordKind KindOfRecord(std::string_view record) {
  tensorflow::Example example;
  if (IsWhole(record, &example) && HasFeatures(example.features())) return RecordKind::kExample;
  tensorflow::SequenceExample sequence;
  if (IsWhole(record, &sequence) &&
      (HasFeatures(sequence.context()) || !sequence.feature_lists().feature_list().empty())) {
    return RecordKind::kSequenceExample;
  }
  const bool text = IsUtf8(record) && std::none_of(record.begin(), record.end(), [](char c) {
                      return static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' && c != '\r';
                    });
  return text ? RecordKind::kText : RecordKind::kBytes;
}

std::string_view RecordKindName(RecordKind kind) {
  switch (kind) {
    case RecordKind::kExample:
      return "Example";
    case RecordKind::kSequenceExample:
      return "SequenceExample";
    case RecordKind::kText:
      return "text";
    case RecordKind::kBytes:
      break;
  }
  return "bytes";
}

std::string RecordText(std::string_view record, RecordKind kind, int64_t values) {
  if (tensorflow::Example example; kind == RecordKind::kExample && Parse(record, &example)) {
    return ExampleText(example.features(), values);
  }
  if (tensorflow::SequenceExample example; kind == RecordKind::kSequenceExample && Parse(record, &example)) {
    return SequenceExampleText(example, values);
  }
  return StrCat("  ", Quoted(record, kMostTextBytes), "\n");
}

void WriteRecordJson(std::string_view record, RecordKind kind, int64_t values, JsonWriter* json) {
  if (tensorflow::Example example; kind == RecordKind::kExample && Parse(record, &example)) {
    return FeaturesJson("features", example.features(), values, json);
  }
  if (tensorflow::SequenceExample example; kind == RecordKind::kSequenceExample && Parse(record, &example)) {
    FeaturesJson("context", example.context(), values, json);
    std::map<std::string_view, const tensorflow::FeatureList*> lists;
    for (const auto& [name, list] : example.feature_lists().feature_list()) lists.emplace(name, &list);
    json->Key("feature_lists").BeginObject();
    for (const auto& [name, list] : lists) {
      json->Key(name).BeginArray();
      for (const Feature& feature : list->feature()) FeatureJson(feature, values, json);
      json->EndArray();
    }
    json->EndObject();
    return;
  }
  json->Key("bytes");
  WriteBytesJson(record, json);
}

}  // namespace millrace::cli
