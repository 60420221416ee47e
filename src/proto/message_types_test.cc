// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "proto/message_types.h"

#include <memory>
#include <random>
#include <string>

#include <google/protobuf/any.pb.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/protobuf/config.pb.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"

namespace millrace {
namespace {

namespace pb = google::protobuf;
using pb::FieldDescriptor;

// Sets every field, by reflection, to different values.
void Fill(pb::Message* message, int depth, std::mt19937& rng) {
  const pb::Reflection& r = *message->GetReflection();
  const pb::Descriptor& type = *message->GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* f = type.field(i);
    const bool many = f->is_repeated();
    const int n = static_cast<int>(rng() % 100) + 1;
    switch (f->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        many ? r.AddInt32(message, f, n) : r.SetInt32(message, f, n);
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        many ? r.AddInt64(message, f, n) : r.SetInt64(message, f, n);
        break;
      case FieldDescriptor::CPPTYPE_UINT32:
        many ? r.AddUInt32(message, f, n) : r.SetUInt32(message, f, n);
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        many ? r.AddUInt64(message, f, n) : r.SetUInt64(message, f, n);
        break;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        many ? r.AddDouble(message, f, n) : r.SetDouble(message, f, n);
        break;
      case FieldDescriptor::CPPTYPE_FLOAT:
        many ? r.AddFloat(message, f, n) : r.SetFloat(message, f, n);
        break;
      case FieldDescriptor::CPPTYPE_BOOL:
        many ? r.AddBool(message, f, true) : r.SetBool(message, f, true);
        break;
      case FieldDescriptor::CPPTYPE_ENUM: {
        const auto* value = f->enum_type()->value(f->enum_type()->value_count() - 1);
        many ? r.AddEnum(message, f, value) : r.SetEnum(message, f, value);
        break;
      }
      case FieldDescriptor::CPPTYPE_STRING:
        many ? r.AddString(message, f, std::to_string(n)) : r.SetString(message, f, std::to_string(n));
        break;
      case FieldDescriptor::CPPTYPE_MESSAGE:
        if (f->message_type()->full_name() == "google.protobuf.Any" || depth == 0) break;
        Fill(many ? r.AddMessage(message, f) : r.MutableMessage(message, f), depth - 1, rng);
    }
  }
}

const pb::Message& DefaultOf(const pb::Descriptor* type) {
  const pb::Message* instance =
      tensorflow::GraphDef().GetReflection()->GetMessageFactory()->GetPrototype(type);
  EXPECT_NE(instance, nullptr) << type->full_name();
  EXPECT_EQ(instance->GetDescriptor(), type);
  return *instance;
}

// A dynamic message, which does not use generated code, has the same contents after parsing the same bytes,
// so reflection finds every field.
void CheckType(const pb::Descriptor* type, std::mt19937& rng) {
  for (int i = 0; i < type->nested_type_count(); ++i) CheckType(type->nested_type(i), rng);
  if (type->options().map_entry()) return;
  const std::unique_ptr<pb::Message> message(DefaultOf(type).New());
  Fill(message.get(), 3, rng);
  pb::DynamicMessageFactory factory;
  const std::unique_ptr<pb::Message> dynamic(factory.GetPrototype(type)->New());
  ASSERT_TRUE(dynamic->ParseFromString(message->SerializeAsString())) << type->full_name();
  EXPECT_EQ(dynamic->DebugString(), message->DebugString()) << type->full_name();
  const std::unique_ptr<pb::Message> again(message->New());
  TextError error;
  ASSERT_TRUE(ParseMessageText(message->DebugString(), UnknownFields::kRefused, again.get(), &error))
      << type->full_name() << ": " << error.message;
  EXPECT_EQ(again->DebugString(), message->DebugString());
}

TEST(MessageTypesTest, ReflectionReachesEveryFieldOfEveryMessage) {
  std::mt19937 rng(1);
  int messages = 0;
  for (const pb::FileDescriptor* file : MessageFiles()) {
    for (int i = 0; i < file->message_type_count(); ++i, ++messages) CheckType(file->message_type(i), rng);
  }
  EXPECT_GT(messages, 200);
}

TEST(MessageTypesTest, NothingIsRegisteredForTheWholeProcess) {
  EXPECT_EQ(tensorflow::GraphDef::descriptor()->full_name(), "tensorflow.GraphDef");
  EXPECT_EQ(FindMessageType("tensorflow.GraphDef"), tensorflow::GraphDef::descriptor());
  EXPECT_EQ(FindMessageType("tensorflow.None"), nullptr);
  EXPECT_EQ(pb::DescriptorPool::generated_pool()->FindFileByName("tensorflow/core/framework/graph.proto"),
            nullptr);
}

TEST(MessageTypesTest, NamesOfEnumsAreKnown) {
  EXPECT_EQ(tensorflow::DataType_Name(tensorflow::DT_INT32), "DT_INT32");
  EXPECT_EQ(tensorflow::OptimizerOptions::Level_Name(tensorflow::OptimizerOptions::L0), "L0");
  tensorflow::OptimizerOptions::Level level = tensorflow::OptimizerOptions::L1;
  EXPECT_TRUE(tensorflow::OptimizerOptions::Level_Parse("L0", &level));
  EXPECT_EQ(level, tensorflow::OptimizerOptions::L0);
}

TEST(MessageTypesTest, AnyHoldsOurMessages) {
  tensorflow::AssetFileDef asset;
  asset.set_filename("words.txt");
  pb::Any any;
  any.PackFrom(asset);
  EXPECT_EQ(any.type_url(), "type.googleapis.com/tensorflow.AssetFileDef");
  tensorflow::AssetFileDef unpacked;
  ASSERT_TRUE(any.UnpackTo(&unpacked));
  EXPECT_EQ(unpacked.filename(), "words.txt");

  tensorflow::CollectionDef collection;
  TextError error;
  ASSERT_TRUE(ParseMessageText(
      "any_list { value { [type.googleapis.com/tensorflow.AssetFileDef] { filename: 'words.txt' } } }",
      UnknownFields::kRefused, &collection, &error))
      << error.message;
  EXPECT_EQ(collection.any_list().value(0).value(), any.value());
}

TEST(MessageTypesTest, TextsSayWhereTheyAreWrong) {
  tensorflow::GraphDef graph;
  TextError error;
  EXPECT_FALSE(ParseMessageText("node {\n  nam: 'a' }", UnknownFields::kRefused, &graph, &error));
  EXPECT_EQ(error.line, 2);
  EXPECT_NE(error.message.find("nam"), std::string::npos) << error.message;
  EXPECT_TRUE(ParseMessageText("node {\n  nam: 'a' }", UnknownFields::kSkipped, &graph, &error));
  EXPECT_TRUE(
      ParseMessageText("\xef\xbb\xbfnode { name: 'a' }\r\n", UnknownFields::kRefused, &graph, &error));
  EXPECT_EQ(graph.node(0).name(), "a");
  std::string deep = "node { attr { value { ";
  for (int i = 0; i < 10000; ++i) deep += "func { attr { value { ";
  EXPECT_FALSE(ParseMessageText(deep, UnknownFields::kSkipped, &graph, &error));
}

}  // namespace
}  // namespace millrace
