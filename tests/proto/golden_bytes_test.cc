// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Bytes computed by hand from the wire rules (tag = number * 8 + wire type), so that the generated code is
// not only compared with itself.
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include "tensorflow/core/framework/device_attributes.pb.h"
#include "tensorflow/core/framework/function.pb.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/protobuf/config.pb.h"
#include "tensorflow/core/protobuf/struct.pb.h"
#include "tensorflow/core/protobuf/tensor_bundle.pb.h"

namespace millrace {
namespace {

// Hex pairs stand for bytes, 'text' in single quotes for itself; blanks are
// ignored.
std::string Bytes(std::string_view source) {
  std::string bytes;
  while (!source.empty()) {
    if (source.front() == ' ') {
      source.remove_prefix(1);
    } else if (source.front() == '\'') {
      const std::size_t end = source.find('\'', 1);
      bytes += source.substr(1, end - 1);
      source.remove_prefix(end + 1);
    } else {
      bytes.push_back(static_cast<char>(std::strtol(std::string(source.substr(0, 2)).c_str(), nullptr, 16)));
      source.remove_prefix(2);
    }
  }
  return bytes;
}

// Maps are written in key order, so that equal messages give equal bytes.
std::string Serialized(const google::protobuf::Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream sink(&bytes);
  google::protobuf::io::CodedOutputStream out(&sink);
  out.SetSerializationDeterministic(true);
  EXPECT_TRUE(message.SerializeToCodedStream(&out));
  out.Trim();
  return bytes;
}

// Expects that `message` is serialized to `golden`, and that `golden` is parsed and serialized to the same
// bytes.
template <class Message>
void ExpectGolden(const Message& message, std::string_view golden) {
  const std::string bytes = Bytes(golden);
  EXPECT_EQ(Serialized(message), bytes) << message.DebugString();
  Message read;
  ASSERT_TRUE(read.ParseFromString(bytes));
  EXPECT_EQ(Serialized(read), bytes);
}

TEST(GoldenBytes, NodeDefWithInputsDeviceAndAttrs) {
  tensorflow::NodeDef node;
  node.set_name("sum");
  node.set_op("Add");
  node.add_input("x");
  node.add_input("y:1");
  node.add_input("^z");
  node.set_device("/cpu:0");
  (*node.mutable_attr())["T"].set_type(tensorflow::DT_FLOAT);
  (*node.mutable_attr())["k"].set_i(-2);
  (*node.mutable_attr())["s"].set_s("ab");
  (*node.mutable_attr())["b"].set_b(false);
  ExpectGolden(node,
               "0a 03 'sum'  12 03 'Add'  1a 01 'x'  1a 03 'y:1'  1a 02 "
               "'^z'  22 06 '/cpu:0' "
               "2a 07 0a 01 'T' 12 02 30 01 "
               "2a 07 0a 01 'b' 12 02 28 00 "
               "2a 10 0a 01 'k' 12 0b 18 fe ff ff ff ff ff ff ff ff 01 "
               "2a 09 0a 01 's' 12 04 12 02 'ab'");
}

TEST(GoldenBytes, AttrValueListsArePacked) {
  tensorflow::AttrValue value;
  auto& list = *value.mutable_list();
  list.add_i(1);
  list.add_i(300);
  list.add_f(-1.0f);
  list.add_type(tensorflow::DT_FLOAT);
  list.add_type(tensorflow::DT_FLOAT_REF);
  list.add_s("q");
  // 3 (s) + 5 (i) + 6 (f) + 4 (type) = 18 bytes.
  ExpectGolden(value, "0a 12  12 01 'q'  1a 03 01 ac 02  22 04 00 00 80 bf  32 02 01 65");
}

TEST(GoldenBytes, TensorProtoWithTypedList) {
  tensorflow::TensorProto tensor;
  tensor.set_dtype(tensorflow::DT_FLOAT);
  tensor.mutable_tensor_shape()->add_dim()->set_size(1);
  tensor.mutable_tensor_shape()->add_dim()->set_size(2);
  tensor.add_float_val(1.5f);
  tensor.add_float_val(-2.0f);
  ExpectGolden(tensor, "08 01  12 08 12 02 08 01 12 02 08 02  2a 08 00 00 c0 3f 00 00 00 c0");
}

TEST(GoldenBytes, TensorProtoWithRawContentAndUnknownDimension) {
  tensorflow::TensorProto tensor;
  tensor.set_dtype(tensorflow::DT_UINT8);
  tensor.mutable_tensor_shape()->add_dim()->set_size(-1);
  tensor.set_tensor_content(std::string("\0\xff", 2));
  ExpectGolden(tensor, "08 04  12 0d 12 0b 08 ff ff ff ff ff ff ff ff ff 01  22 02 00 ff");
}

TEST(GoldenBytes, TensorProtoListsOfEveryWidth) {
  tensorflow::TensorProto tensor;
  tensor.add_double_val(1.0);
  tensor.add_int_val(-1);
  tensor.add_string_val("");
  tensor.add_scomplex_val(2.0f);
  tensor.add_int64_val(std::numeric_limits<std::int64_t>::min());
  tensor.add_bool_val(true);
  tensor.add_half_val(0x3c00);
  tensor.add_uint32_val(0xffffffffu);
  tensor.add_uint64_val(std::numeric_limits<std::uint64_t>::max());
  ExpectGolden(tensor,
               "32 08 00 00 00 00 00 00 f0 3f "
               "3a 0a ff ff ff ff ff ff ff ff ff 01 "
               "42 00 "
               "4a 04 00 00 00 40 "
               "52 0a 80 80 80 80 80 80 80 80 80 01 "
               "5a 01 01 "
               "6a 02 80 78 "
               "82 01 05 ff ff ff ff 0f "
               "8a 01 0a ff ff ff ff ff ff ff ff ff 01");
}

TEST(GoldenBytes, EmptyMessagesTakeNoBytes) {
  ExpectGolden(tensorflow::TensorProto(), "");
  ExpectGolden(tensorflow::GraphDef(), "");
}

TEST(GoldenBytes, GraphDefKeepsLibraryVersionsAndFunctionMaps) {
  tensorflow::GraphDef graph;
  graph.add_node()->set_name("n");
  graph.mutable_versions()->set_producer(134);
  graph.mutable_versions()->add_bad_consumers(7);
  auto& function = *graph.mutable_library()->add_function();
  function.mutable_signature()->set_name("f");
  (*function.mutable_ret())["o"] = "n:y";
  (*(*function.mutable_arg_attr())[3].mutable_attr())["u"].set_b(true);
  ExpectGolden(graph,
               "0a 03 0a 01 'n' "
               "12 20 0a 1e "
               "0a 03 0a 01 'f' "
               "22 08 0a 01 'o' 12 03 'n:y' "
               "3a 0d 08 03 12 09 0a 07 0a 01 'u' 12 02 28 01 "
               "22 06 08 86 01 1a 01 07");
}

TEST(GoldenBytes, FixedZigZagAndNegativeEnumFields) {
  tensorflow::DeviceAttributes device;
  device.set_incarnation(0x0102030405060708u);
  ExpectGolden(device, "31 08 07 06 05 04 03 02 01");

  tensorflow::BundleEntryProto entry;
  entry.set_crc32c(0xdeadbeefu);
  ExpectGolden(entry, "35 ef be ad de");

  tensorflow::StructuredValue value;
  value.set_int64_value(-2);
  ExpectGolden(value, "60 03");

  tensorflow::OptimizerOptions options;
  options.set_opt_level(tensorflow::OptimizerOptions::L0);
  ExpectGolden(options, "18 ff ff ff ff ff ff ff ff ff 01");
}

TEST(GoldenBytes, UnpackedNumbersAreReadToo) {
  tensorflow::TensorProto tensor;
  ASSERT_TRUE(tensor.ParseFromString(Bytes("2d 00 00 c0 3f  2d 00 00 00 c0")));
  ASSERT_EQ(tensor.float_val_size(), 2);
  EXPECT_EQ(tensor.float_val(0), 1.5f);
  EXPECT_EQ(tensor.float_val(1), -2.0f);
}

TEST(GoldenBytes, LastMemberOfAOneofWins) {
  tensorflow::AttrValue value;
  ASSERT_TRUE(value.ParseFromString(Bytes("18 05  30 03")));
  EXPECT_EQ(value.value_case(), tensorflow::AttrValue::kType);
  EXPECT_EQ(value.type(), tensorflow::DT_INT32);
}

TEST(GoldenBytes, UnknownFieldsAndUnknownEnumValuesSurvive) {
  // Field 99 of NodeDef does not exist; 77 is not a DataType.
  const std::string node_bytes = Bytes("0a 01 'a'  9a 06 02 'zz'");
  tensorflow::NodeDef node;
  ASSERT_TRUE(node.ParseFromString(node_bytes));
  EXPECT_EQ(node.SerializeAsString(), node_bytes);

  tensorflow::TensorProto tensor;
  ASSERT_TRUE(tensor.ParseFromString(Bytes("08 4d")));
  EXPECT_EQ(static_cast<int>(tensor.dtype()), 77);
  EXPECT_EQ(tensor.SerializeAsString(), Bytes("08 4d"));
}

TEST(GoldenBytes, BrokenBytesAreRefused) {
  for (const char* broken : {"0a", "0a 05 'abc'", "2a 03 0a 05 'T'", "08 ff ff ff ff ff ff ff ff ff ff 01",
                             "0f", "00 01", "0a 01 ff"}) {
    EXPECT_FALSE(tensorflow::NodeDef().ParseFromString(Bytes(broken))) << broken;
  }
}

}  // namespace
}  // namespace millrace
