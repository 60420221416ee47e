// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// DecodeProtoV2 and EncodeProto on messages that are linked into the program, and on types given as bytes.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernel/testing.h"
#include "tensor/testing.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/versions.pb.h"

namespace millrace {
namespace {

using Names = std::vector<std::string>;
using Types = std::vector<DataType>;

tensorflow::VersionDef Versions(int producer, const std::vector<int>& bad) {
  tensorflow::VersionDef versions;
  if (producer != 0) versions.set_producer(producer);
  for (const int v : bad) versions.add_bad_consumers(v);
  return versions;
}
Tensor TwoVersions() {
  return Tensor::Vector<std::string>(
      {Versions(7, {1, 2, 3}).SerializeAsString(), Versions(0, {4}).SerializeAsString()});
}

StatusOr<std::vector<Tensor>> Decode(const std::string& type, const Names& fields, const Types& types,
                                     const Tensor& bytes, const std::string& format = "binary",
                                     const std::string& source = "local://") {
  return KernelRunner("DecodeProtoV2")
      .Attr("message_type", type)
      .Attr("field_names", fields)
      .Attr("output_types", types)
      .Attr("message_format", format)
      .Attr("descriptor_source", source)
      .Input(bytes)
      .Run();
}
StatusOr<std::vector<Tensor>> DecodeVersions(const Types& types, const std::string& source = "local://") {
  return Decode("tensorflow.VersionDef", {"producer", "bad_consumers"}, types, TwoVersions(), "binary",
                source);
}

TEST(ProtoTest, FieldsArePaddedToTheLongest) {
  const auto got = DecodeVersions({DataType::kInt32, DataType::kInt64});
  ASSERT_TRUE(got.ok()) << got.status();
  ExpectTensorEqual(Tensor::From<int32_t>({1, 3, 0, 1}, TensorShape({2, 2})), (*got)[0]);
  ExpectTensorEqual(Tensor::From<int32_t>({7, 0}, TensorShape({2, 1})), (*got)[1]);
  ExpectTensorEqual(Tensor::From<int64_t>({1, 2, 3, 4, 0, 0}, TensorShape({2, 3})), (*got)[2]);
}

TEST(ProtoTest, StringsAndMessagesAreStrings) {
  const Tensor text =
      Tensor::Scalar<std::string>("name: 'n' input: 'a' input: 'b' attr { key: 'k' value { i: 3 } }");
  const auto got =
      Decode("tensorflow.NodeDef", {"name", "input", "device", "attr"},
             {DataType::kString, DataType::kString, DataType::kString, DataType::kString}, text, "text");
  ASSERT_TRUE(got.ok()) << got.status();
  ExpectTensorEqual(Tensor::Vector<int32_t>({1, 2, 0, 1}), (*got)[0]);
  ExpectTensorEqual(Tensor::Vector<std::string>({"n"}), (*got)[1]);
  ExpectTensorEqual(Tensor::Vector<std::string>({"a", "b"}), (*got)[2]);
  EXPECT_EQ((*got)[3].shape(), TensorShape({0}));
  ASSERT_EQ((*got)[4].num_elements(), 1);
  // An entry of a map is a message of key and value.
  EXPECT_THAT((*got)[4].data<std::string>()[0], testing::StartsWith("\n\x01k"));
}

TEST(ProtoTest, TypesMayComeAsBytes) {
  google::protobuf::FileDescriptorSet set;
  tensorflow::VersionDef::descriptor()->file()->CopyTo(set.add_file());
  const auto got = DecodeVersions({DataType::kInt32, DataType::kInt32}, "bytes://" + set.SerializeAsString());
  ASSERT_TRUE(got.ok()) << got.status();
  ExpectTensorEqual(Tensor::From<int32_t>({1, 2, 3, 4, 0, 0}, TensorShape({2, 3})), (*got)[2]);
  EXPECT_EQ(DecodeVersions({DataType::kInt32, DataType::kInt32}, "bytes://\xFF").status().code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(DecodeVersions({DataType::kInt32, DataType::kInt32}, "/no/such/file").status().code(),
            ErrorCode::kNotFound);
}

TEST(ProtoTest, WhatIsWrongIsRefused) {
  const Tensor none = Tensor::Vector<std::string>({});
  EXPECT_EQ(Decode("no.Such", {}, {}, none).status(),
            errors::InvalidArgument("No descriptor found for message type no.Such"));
  EXPECT_EQ(Decode("tensorflow.VersionDef", {"x"}, {DataType::kInt32}, none).status(),
            errors::InvalidArgument("Unknown field: x in message type tensorflow.VersionDef"));
  EXPECT_THAT(
      std::string(DecodeVersions({DataType::kInt32, DataType::kFloat}).status().message()),
      testing::HasSubstr("Unexpected output type for tensorflow.VersionDef.bad_consumers: int32 to float"));
  EXPECT_EQ(DecodeVersions({DataType::kInt32}).status().code(), ErrorCode::kInvalidArgument);
  const Tensor broken = Tensor::Vector<std::string>({"\xFF"});
  EXPECT_EQ(Decode("tensorflow.VersionDef", {}, {}, broken).status(),
            errors::DataLoss("Unable to parse binary protobuf"));
  EXPECT_EQ(Decode("tensorflow.VersionDef", {}, {}, broken, "text").status(),
            errors::DataLoss("Unable to parse text format protobuf"));
  EXPECT_EQ(Decode("tensorflow.VersionDef", {}, {}, none, "json").status(),
            errors::InvalidArgument("format must be one of binary or text"));
}

StatusOr<std::vector<Tensor>> EncodeVersions(const Tensor& sizes, const Tensor& producers,
                                             const Tensor& bad) {
  return KernelRunner("EncodeProto")
      .Attr("message_type", "tensorflow.VersionDef")
      .Attr("field_names", Names{"producer", "bad_consumers"})
      .Attr("Tinput_types", Types{DataType::kInt32, DataType::kInt64})
      .Input(sizes)
      .Input(producers)
      .Input(bad)
      .Run();
}

TEST(ProtoTest, EncodingGivesTheMessagesBack) {
  const auto got = EncodeVersions(Tensor::From<int32_t>({1, 3, 0, 1}, TensorShape({2, 2})),
                                  Tensor::From<int32_t>({7, 0}, TensorShape({2, 1})),
                                  Tensor::From<int64_t>({1, 2, 3, 4, 0, 0}, TensorShape({2, 3})));
  ASSERT_TRUE(got.ok()) << got.status();
  ExpectTensorEqual(TwoVersions(), (*got)[0]);
}

TEST(ProtoTest, SizesGoWithTheValues) {
  const Tensor one = Tensor::Vector<int32_t>({1, 1}), long_one = Tensor::Vector<int64_t>({5});
  EXPECT_TRUE(EncodeVersions(one, Tensor::Vector<int32_t>({7}), long_one).ok());
  for (const auto& [sizes, producers] :
       {std::pair(Tensor::Vector<int32_t>({2, 1}), Tensor::Vector<int32_t>({7})),  // more than there are
        {Tensor::Vector<int32_t>({2, 1}), Tensor::Vector<int32_t>({7, 8})},  // the field is not repeated
        {Tensor::Vector<int32_t>({-1, 1}), Tensor::Vector<int32_t>({7})},    // less than none
        {Tensor::Vector<int32_t>({1}), Tensor::Vector<int32_t>({7})},        // not of all fields
        {Tensor::Vector<int32_t>({1, 1}), Tensor::Scalar<int32_t>(7)}}) {    // not of all messages
    EXPECT_EQ(EncodeVersions(sizes, producers, long_one).status().code(), ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace millrace
