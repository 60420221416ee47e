// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Compares the compiled wire format with wire_table.txt, line by line and in both directions: each line of
// the table must follow from the compiled descriptors, and each line that follows from them must be in the
// table.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>

#include "proto/message_types.h"

namespace millrace {
namespace {

namespace pb = google::protobuf;
using Lines = std::multiset<std::string>;

std::string TypeName(const pb::FieldDescriptor& field) {
  if (field.is_map()) {
    const pb::Descriptor& entry = *field.message_type();
    return "map<" + TypeName(*entry.map_key()) + "," + TypeName(*entry.map_value()) + ">";
  }
  if (field.message_type() != nullptr) return field.message_type()->full_name();
  if (field.enum_type() != nullptr) return field.enum_type()->full_name();
  return field.type_name();
}

std::string Label(const pb::FieldDescriptor& field) {
  if (field.is_map()) return "map";
  if (field.is_repeated()) return "repeated";
  return field.is_required() || field.has_optional_keyword() ? "explicit" : "singular";
}

std::string FieldLine(const pb::FieldDescriptor& field) {
  const pb::OneofDescriptor* oneof = field.real_containing_oneof();
  return "field " + field.containing_type()->full_name() + " " + std::to_string(field.number()) + " " +
         TypeName(field) + " " + Label(field) + " " + field.name() + " " +
         (field.is_packed() ? "packed" : "-") + " " + (oneof != nullptr ? oneof->name() : "-") + " " +
         (field.options().deprecated() ? "deprecated" : "-");
}

void AddEnum(const pb::EnumDescriptor& type, Lines& lines) {
  for (int i = 0; i < type.value_count(); ++i) {
    const pb::EnumValueDescriptor& value = *type.value(i);
    lines.insert("value " + type.full_name() + " " + std::to_string(value.number()) + " " + value.name());
  }
}

void AddMessage(const pb::Descriptor& type, Lines& lines) {
  if (type.options().map_entry()) return;
  lines.insert("message " + type.full_name());
  for (int i = 0; i < type.field_count(); ++i) lines.insert(FieldLine(*type.field(i)));
  for (int i = 0; i < type.extension_count(); ++i) lines.insert(FieldLine(*type.extension(i)) + " extension");
  for (int i = 0; i < type.reserved_range_count(); ++i) {
    const pb::Descriptor::ReservedRange& range = *type.reserved_range(i);
    lines.insert("reserved " + type.full_name() + " " + std::to_string(range.start) + " " +
                 std::to_string(range.end - 1));
  }
  for (int i = 0; i < type.enum_type_count(); ++i) AddEnum(*type.enum_type(i), lines);
  for (int i = 0; i < type.nested_type_count(); ++i) AddMessage(*type.nested_type(i), lines);
}

void AddService(const pb::ServiceDescriptor& service, Lines& lines) {
  const auto mode = [](bool streams) { return streams ? " stream " : " unary "; };
  lines.insert("service " + service.full_name());
  for (int i = 0; i < service.method_count(); ++i) {
    const pb::MethodDescriptor& rpc = *service.method(i);
    lines.insert("rpc " + service.full_name() + " " + rpc.name() + mode(rpc.client_streaming()) +
                 rpc.input_type()->full_name() + mode(rpc.server_streaming()) +
                 rpc.output_type()->full_name());
  }
}

// All lines that follow from the descriptors linked into this program.
Lines CompiledLines() {
  Lines lines;
  for (const pb::FileDescriptor* file : MessageFiles()) {
    lines.insert("file " + file->name() + " " + file->package() + " " +
                 pb::FileDescriptor::SyntaxName(file->syntax()));
    for (int i = 0; i < file->enum_type_count(); ++i) AddEnum(*file->enum_type(i), lines);
    for (int i = 0; i < file->message_type_count(); ++i) AddMessage(*file->message_type(i), lines);
    for (int i = 0; i < file->service_count(); ++i) AddService(*file->service(i), lines);
    for (int i = 0; i < file->extension_count(); ++i)
      lines.insert(FieldLine(*file->extension(i)) + " extension");
  }
  return lines;
}

Lines TableLines() {
  Lines lines;
  std::ifstream table(MR_WIRE_TABLE);
  EXPECT_TRUE(table.is_open()) << MR_WIRE_TABLE;
  for (std::string line; std::getline(table, line);) {
    if (!line.empty() && line.front() != '#') lines.insert(line);
  }
  return lines;
}

Lines OfKind(const Lines& lines, std::string_view kind) {
  Lines kept;
  std::copy_if(lines.begin(), lines.end(), std::inserter(kept, kept.end()),
               [&](const std::string& line) { return line.substr(0, line.find(' ')) == kind; });
  return kept;
}

std::string Join(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += "\n  " + line;
  return text;
}

class WireTable : public testing::TestWithParam<const char*> {};

TEST_P(WireTable, AgreesWithCompiledDescriptors) {
  const Lines table = OfKind(TableLines(), GetParam());
  const Lines compiled = OfKind(CompiledLines(), GetParam());
  std::vector<std::string> missing, extra;
  std::set_difference(table.begin(), table.end(), compiled.begin(), compiled.end(),
                      std::back_inserter(missing));
  std::set_difference(compiled.begin(), compiled.end(), table.begin(), table.end(),
                      std::back_inserter(extra));
  EXPECT_FALSE(table.empty());
  EXPECT_TRUE(missing.empty()) << "in the table, not compiled:" << Join(missing);
  EXPECT_TRUE(extra.empty()) << "compiled, not in the table:" << Join(extra);
}

constexpr const char* kKinds[] = {"file", "message", "field", "reserved", "value", "service", "rpc"};

INSTANTIATE_TEST_SUITE_P(Kinds, WireTable, testing::ValuesIn(kKinds),
                         [](const auto& kind) { return std::string(kind.param); });

TEST(WireTableText, HasOnlyKnownKindsAndNoLineTwice) {
  const Lines table = TableLines();
  std::size_t known = 0;
  for (const char* kind : kKinds) known += OfKind(table, kind).size();
  EXPECT_EQ(known, table.size());
  EXPECT_EQ(std::set<std::string>(table.begin(), table.end()).size(), table.size());
}

}  // namespace
}  // namespace millrace
