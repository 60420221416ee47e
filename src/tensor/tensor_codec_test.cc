// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "tensor/tensor_codec.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tensor/allocator.h"
#include "tensor/testing.h"
#include "tensorflow/core/framework/tensor.pb.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

tensorflow::TensorProto Proto(const std::string& text) {
  tensorflow::TensorProto proto;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto)) << text;
  return proto;
}

void ExpectDecodes(const Tensor& want, const std::string& text) {
  StatusOr<Tensor> got = TensorFromProto(Proto(text));
  ASSERT_TRUE(got.ok()) << got.status() << " from " << text;
  ExpectTensorEqual(want, *got);
}

void ExpectInvalid(const std::string& text, const std::string& message) {
  const Status status = TensorFromProto(Proto(text)).status();
  EXPECT_TRUE(errors::IsInvalidArgument(status)) << status << " from " << text;
  EXPECT_THAT(status.message(), HasSubstr(message)) << text;
}

std::string Vec(int64_t n) { return StrCat("tensor_shape { dim { size: ", n, " } } "); }

half HalfBits(uint16_t bits) {
  half h;
  h.bits = bits;
  return h;
}
bfloat16 Bfloat16Bits(uint16_t bits) {
  bfloat16 b;
  b.bits = bits;
  return b;
}

TEST(TensorCodecTest, ReadsTypedListsOfEveryType) {
  ExpectDecodes(AsTensor<float>({1.5, -2}), "dtype: DT_FLOAT " + Vec(2) + "float_val: [1.5, -2]");
  ExpectDecodes(AsTensor<double>({1.5, 1e300}), "dtype: DT_DOUBLE " + Vec(2) + "double_val: [1.5, 1e300]");
  ExpectDecodes(AsTensor<int32_t>({1, INT32_MIN}), "dtype: DT_INT32 " + Vec(2) + "int_val: [1, -2147483648]");
  ExpectDecodes(AsTensor<uint8_t>({0, 255}), "dtype: DT_UINT8 " + Vec(2) + "int_val: [0, 255]");
  ExpectDecodes(AsTensor<int16_t>({-32768, 7}), "dtype: DT_INT16 " + Vec(2) + "int_val: [-32768, 7]");
  ExpectDecodes(AsTensor<int8_t>({-128, 127}), "dtype: DT_INT8 " + Vec(2) + "int_val: [-128, 127]");
  ExpectDecodes(AsTensor<uint16_t>({65535, 0}), "dtype: DT_UINT16 " + Vec(2) + "int_val: [65535, 0]");
  ExpectDecodes(AsTensor<uint32_t>({UINT32_MAX}), "dtype: DT_UINT32 " + Vec(1) + "uint32_val: 4294967295");
  ExpectDecodes(AsTensor<uint64_t>({UINT64_MAX}),
                "dtype: DT_UINT64 " + Vec(1) + "uint64_val: 18446744073709551615");
  ExpectDecodes(AsTensor<int64_t>({INT64_MIN}),
                "dtype: DT_INT64 " + Vec(1) + "int64_val: -9223372036854775808");
  ExpectDecodes(AsTensor<bool>({true, false}), "dtype: DT_BOOL " + Vec(2) + "bool_val: [true, false]");
  ExpectDecodes(AsTensor<std::string>({"a", "bc"}), "dtype: DT_STRING " + Vec(2) + "string_val: ['a', 'bc']");
  ExpectDecodes(AsTensor<complex64>({{1, 2}, {3, -4}}),
                "dtype: DT_COMPLEX64 " + Vec(2) + "scomplex_val: [1, 2, 3, -4]");
  ExpectDecodes(AsTensor<complex128>({{1, 2}}), "dtype: DT_COMPLEX128 " + Vec(1) + "dcomplex_val: [1, 2]");
  // 1, -2 and the largest finite half; the same numbers of bfloat16: 1, -2, pi.
  ExpectDecodes(AsTensor<half>({half(1), half(-2), half(65504)}),
                "dtype: DT_HALF " + Vec(3) + "half_val: [15360, 49152, 31743]");
  ExpectDecodes(AsTensor<bfloat16>({bfloat16(1), bfloat16(-2), bfloat16(3.140625f)}),
                "dtype: DT_BFLOAT16 " + Vec(3) + "half_val: [16256, 49152, 16457]");
  ExpectDecodes(AsTensor<qint8>({{-5}, {5}}), "dtype: DT_QINT8 " + Vec(2) + "int_val: [-5, 5]");
  ExpectDecodes(AsTensor<quint8>({{200}}), "dtype: DT_QUINT8 " + Vec(1) + "int_val: 200");
  ExpectDecodes(AsTensor<qint16>({{-500}}), "dtype: DT_QINT16 " + Vec(1) + "int_val: -500");
  ExpectDecodes(AsTensor<quint16>({{60000}}), "dtype: DT_QUINT16 " + Vec(1) + "int_val: 60000");
  ExpectDecodes(AsTensor<qint32>({{-70000}}), "dtype: DT_QINT32 " + Vec(1) + "int_val: -70000");
}

TEST(TensorCodecTest, ReadsContentOfPlainTypes) {
  ExpectDecodes(AsTensor<float>({1, -2}),
                "dtype: DT_FLOAT " + Vec(2) + "tensor_content: '\\000\\000\\200\\077\\000\\000\\000\\300'");
  ExpectDecodes(AsTensor<int16_t>({1, -2}),
                "dtype: DT_INT16 " + Vec(2) + "tensor_content: '\\001\\000\\376\\377'");
  ExpectDecodes(AsTensor<half>({half(1)}), "dtype: DT_HALF " + Vec(1) + "tensor_content: '\\000\\074'");
  ExpectDecodes(AsTensor<uint64_t>({258}),
                "dtype: DT_UINT64 " + Vec(1) + "tensor_content: '\\002\\001\\000\\000\\000\\000\\000\\000'");
  ExpectDecodes(
      AsTensor<complex64>({{1, -2}}),
      "dtype: DT_COMPLEX64 " + Vec(1) + "tensor_content: '\\000\\000\\200\\077\\000\\000\\000\\300'");
  // Any byte but 0 is true.
  ExpectDecodes(AsTensor<bool>({true, false, true}),
                "dtype: DT_BOOL " + Vec(3) + "tensor_content: '\\001\\000\\377'");
}

TEST(TensorCodecTest, ReadsContentOfStrings) {
  const std::string long_string(200, 'x');  // its length takes two bytes: 0xc8 0x01
  ExpectDecodes(AsTensor<std::string>({"ab", "", long_string}),
                "dtype: DT_STRING " + Vec(3) + "tensor_content: '\\002\\000\\310\\001ab" + long_string + "'");
  ExpectInvalid("dtype: DT_STRING " + Vec(2) + "tensor_content: '\\001'", "ends within the lengths");
  ExpectInvalid("dtype: DT_STRING " + Vec(1) + "tensor_content: '\\002a'", "add up to 2");
  ExpectInvalid("dtype: DT_STRING " + Vec(1) + "tensor_content: '\\001ab'", "add up to 1");
  ExpectInvalid("dtype: DT_STRING " + Vec(1) + "tensor_content: '\\377\\377\\377\\377\\377\\001'", "lengths");
  ExpectInvalid("dtype: DT_STRING " + Vec(1) + "tensor_content: '\\377\\377\\377\\377\\020'", "lengths");
}

TEST(TensorCodecTest, LastValueRepeats) {
  ExpectDecodes(AsTensor<float>({1, 2, 2, 2}), "dtype: DT_FLOAT " + Vec(4) + "float_val: [1, 2]");
  ExpectDecodes(AsTensor<int32_t>({7, 7, 7, 7}, TensorShape({2, 2})),
                "dtype: DT_INT32 tensor_shape { dim { size: 2 } dim { size: 2 } } int_val: 7");
  ExpectDecodes(AsTensor<std::string>({"a", "b", "b"}),
                "dtype: DT_STRING " + Vec(3) + "string_val: ['a', 'b']");
  ExpectDecodes(AsTensor<complex64>({{1, 2}, {1, 2}}),
                "dtype: DT_COMPLEX64 " + Vec(2) + "scomplex_val: [1, 2]");
  ExpectDecodes(AsTensor<half>({half(1), half(1)}), "dtype: DT_HALF " + Vec(2) + "half_val: 15360");
}

TEST(TensorCodecTest, EmptyListMeansZeros) {
  ExpectDecodes(AsTensor<float>({0, 0}), "dtype: DT_FLOAT " + Vec(2));
  ExpectDecodes(AsTensor<bool>({false}), "dtype: DT_BOOL " + Vec(1));
  ExpectDecodes(AsTensor<std::string>({"", ""}), "dtype: DT_STRING " + Vec(2));
  ExpectDecodes(AsTensor<complex128>({{0, 0}}), "dtype: DT_COMPLEX128 " + Vec(1));
  ExpectDecodes(AsTensor<ResourceHandle>({ResourceHandle()}), "dtype: DT_RESOURCE " + Vec(1));
  ExpectDecodes(AsScalar<qint8>({0}), "dtype: DT_QINT8");
  ExpectDecodes(Tensor(DataType::kInt32, TensorShape({0, 3})),
                "dtype: DT_INT32 tensor_shape { dim { size: 0 } dim { size: 3 } }");
}

TEST(TensorCodecTest, ValuesBeyondTheShapeAreNotChanged) {
  ExpectDecodes(Tensor::Vector<float>({1, 2}), "dtype: DT_FLOAT " + Vec(2) + "float_val: [1, 2, 3]");
  ExpectDecodes(Tensor(DataType::kFloat, TensorShape({0})), "dtype: DT_FLOAT " + Vec(0) + "float_val: 1");
}

TEST(TensorCodecTest, ContradictionsAreInvalid) {
  ExpectInvalid("dtype: DT_COMPLEX64 " + Vec(2) + "scomplex_val: [1, 2, 3]", "imaginary");
  ExpectInvalid("dtype: DT_FLOAT " + Vec(2) + "tensor_content: '1234567'",
                "tensor_content has 7 bytes, needs 8");
  ExpectInvalid("dtype: DT_FLOAT " + Vec(0) + "tensor_content: '1'", "has 1 bytes, needs 0");
  ExpectInvalid("dtype: DT_FLOAT " + Vec(1) + "tensor_content: '1234' float_val: 1", "both");
  ExpectInvalid("dtype: DT_FLOAT " + Vec(-1), "negative");
  ExpectInvalid("dtype: DT_FLOAT tensor_shape { unknown_rank: true }", "not fully defined");
  ExpectInvalid(Vec(1), "invalid type");
  ExpectInvalid("dtype: DT_FLOAT_REF " + Vec(1), "float_ref");
  ExpectInvalid("dtype: DT_FLOAT tensor_shape { dim { size: 4294967296 } dim { size: 4294967296 } }",
                "too large");
  tensorflow::TensorProto proto;
  proto.set_dtype(static_cast<tensorflow::DataType>(77));
  EXPECT_TRUE(errors::IsInvalidArgument(TensorFromProto(proto).status()));
}

TEST(TensorCodecTest, ClaimsOfHugeShapesAreRefusedWithoutAllocating) {
  for (const char* type : {"DT_FLOAT", "DT_STRING", "DT_BOOL", "DT_VARIANT", "DT_COMPLEX128"}) {
    for (const int64_t n : {int64_t{1} << 60, int64_t{1} << 40, INT64_MAX}) {
      const Status status = TensorFromProto(Proto(StrCat("dtype: ", type, " ", Vec(n)))).status();
      EXPECT_TRUE(errors::IsResourceExhausted(status)) << type << " " << n << " " << status;
    }
  }
  const TensorDecodeOptions options{.max_bytes = 1000};
  EXPECT_TRUE(TensorFromProto(Proto("dtype: DT_FLOAT " + Vec(250)), options).ok());
  EXPECT_TRUE(
      errors::IsResourceExhausted(TensorFromProto(Proto("dtype: DT_FLOAT " + Vec(251)), options).status()));
}

TEST(TensorCodecTest, RepeatsOfALongStringAreCounted) {
  const TensorDecodeOptions options{.max_bytes = 1 << 20};
  const std::string text = "dtype: DT_STRING " + Vec(1000) + "string_val: '" + std::string(2000, 'x') + "'";
  EXPECT_TRUE(errors::IsResourceExhausted(TensorFromProto(Proto(text), options).status()));
  EXPECT_TRUE(TensorFromProto(Proto(text)).ok());
}

TEST(TensorCodecTest, NestedTensorsShareTheLimit) {
  const std::string part = "tensors { dtype: DT_FLOAT tensor_shape { dim { size: 100000 } } } ";
  std::string text = "dtype: DT_VARIANT variant_val { type_name: 'x' ";
  for (int i = 0; i < 10; ++i) text += part;
  text += "}";
  EXPECT_TRUE(TensorFromProto(Proto(text), {.max_bytes = 5000000}).ok());
  EXPECT_TRUE(errors::IsResourceExhausted(TensorFromProto(Proto(text), {.max_bytes = 3000000}).status()));
}

TEST(TensorCodecTest, DeepNestingIsRefused) {
  tensorflow::TensorProto proto = Proto("dtype: DT_FLOAT float_val: 1");
  for (int i = 0; i < 40; ++i) {
    tensorflow::TensorProto outer = Proto("dtype: DT_VARIANT variant_val { type_name: 'x' }");
    *outer.mutable_variant_val(0)->add_tensors() = proto;
    proto = outer;
  }
  const Status status = TensorFromProto(proto).status();
  EXPECT_TRUE(errors::IsInvalidArgument(status));
  EXPECT_THAT(status.message(), HasSubstr("deep"));
}

TEST(TensorCodecTest, AllocationFailureIsReported) {
  FailingAllocator allocator(CpuAllocator(), 100);
  EXPECT_TRUE(errors::IsResourceExhausted(
      TensorFromProto(Proto("dtype: DT_FLOAT " + Vec(100)), {.allocator = &allocator}).status()));
}

TEST(TensorCodecTest, WritesListsWithoutTheRepeatedEnd) {
  tensorflow::TensorProto proto;
  TensorToProto(AsTensor<float>({1, 2, 2, 2}), &proto);
  EXPECT_EQ(proto.SerializeAsString(),
            Proto("dtype: DT_FLOAT " + Vec(4) + "float_val: [1, 2]").SerializeAsString());
  TensorToProto(AsTensor<float>({0, -0.0f, -0.0f}), &proto);  // they differ in a bit
  EXPECT_EQ(proto.float_val_size(), 2);
  TensorToProto(AsTensor<double>({NAN, NAN, NAN}), &proto);
  EXPECT_EQ(proto.double_val_size(), 1);
  TensorToProto(AsTensor<std::string>({"a", "a", "b", "b"}), &proto);
  EXPECT_EQ(proto.SerializeAsString(),
            Proto("dtype: DT_STRING " + Vec(4) + "string_val: ['a', 'a', 'b']").SerializeAsString());
  TensorToProto(AsTensor<half>({half(1), half(2)}), &proto);
  EXPECT_EQ(proto.SerializeAsString(),
            Proto("dtype: DT_HALF " + Vec(2) + "half_val: [15360, 16384]").SerializeAsString());
  TensorToProto(AsTensor<quint8>({{200}}), &proto);
  EXPECT_EQ(proto.SerializeAsString(),
            Proto("dtype: DT_QUINT8 " + Vec(1) + "int_val: 200").SerializeAsString());
}

TEST(TensorCodecTest, WritesContent) {
  tensorflow::TensorProto proto;
  TensorToProtoContent(AsTensor<int16_t>({1, -2}), &proto);
  EXPECT_EQ(
      proto.SerializeAsString(),
      Proto("dtype: DT_INT16 " + Vec(2) + "tensor_content: '\\001\\000\\376\\377'").SerializeAsString());
  TensorToProtoContent(AsTensor<std::string>({"ab", "", "c"}), &proto);
  EXPECT_EQ(proto.tensor_content(), std::string("\x02\x00\x01"
                                                "abc",
                                                6));
  TensorToProtoContent(Tensor(DataType::kFloat, TensorShape({0})), &proto);
  EXPECT_TRUE(proto.tensor_content().empty());
}

TEST(TensorCodecTest, WritingReplacesWhatTheMessageHeld) {
  tensorflow::TensorProto proto = Proto("dtype: DT_INT32 " + Vec(3) + "int_val: [1, 2, 3]");
  TensorToProto(AsScalar<float>(4), &proto);
  EXPECT_EQ(proto.SerializeAsString(),
            Proto("dtype: DT_FLOAT tensor_shape {} float_val: 4").SerializeAsString());
}

ResourceHandle Handle(const std::string& name) {
  ResourceHandle h{.device = "/device:CPU:0",
                   .container = "c",
                   .name = name,
                   .hash_code = 77,
                   .maybe_type_name = "Var",
                   .dtypes_and_shapes = {}};
  h.dtypes_and_shapes.push_back({DataType::kFloat, PartialShape({2, -1})});
  h.dtypes_and_shapes.push_back({DataType::kInt32, PartialShape()});
  return h;
}

template <typename T>
std::vector<T> Samples() {
  using L = std::numeric_limits<T>;
  return {T(3), L::min(), L::max(), T(0), L::lowest(), T(1)};
}
template <>
std::vector<float> Samples() {
  return {1.5f, -0.0f, NAN, INFINITY, -INFINITY, 1e-45f, 3.4e38f};
}
template <>
std::vector<double> Samples() {
  return {1.5, -0.0, NAN, INFINITY, 5e-324, 1.7e308};
}
template <>
std::vector<bool> Samples() {
  return {true, false, true};
}
template <>
std::vector<std::string> Samples() {
  return {"", std::string("\0\xff", 2), std::string(1000, 'q'), "x"};
}
template <>
std::vector<complex64> Samples() {
  return {{1, -2}, {NAN, 0}, {0, INFINITY}};
}
template <>
std::vector<complex128> Samples() {
  return {{1, -2}, {NAN, 0}, {1e300, INFINITY}};
}
template <>
std::vector<half> Samples() {
  return {HalfBits(0x3c00), HalfBits(0x8001), HalfBits(0x7e00), HalfBits(0xffff)};
}
template <>
std::vector<bfloat16> Samples() {
  return {Bfloat16Bits(0x3f80), Bfloat16Bits(0x8001), Bfloat16Bits(0x7fc0)};
}
template <>
std::vector<qint8> Samples() {
  return {{-128}, {127}};
}
template <>
std::vector<quint8> Samples() {
  return {{255}, {0}};
}
template <>
std::vector<qint16> Samples() {
  return {{-32768}, {32767}};
}
template <>
std::vector<quint16> Samples() {
  return {{65535}, {1}};
}
template <>
std::vector<qint32> Samples() {
  return {{INT32_MIN}, {INT32_MAX}};
}
template <>
std::vector<ResourceHandle> Samples() {
  return {Handle("a"), ResourceHandle(), Handle("b")};
}
template <>
std::vector<Variant> Samples() {
  return {
      Variant(),
      VariantData("some::Type", std::string("\0meta", 5), {AsTensor<float>({1, 2}), AsScalar<int32_t>(3)}),
      VariantData("other", "", {})};
}

class RoundTrip : public ::testing::TestWithParam<DataType> {};
INSTANTIATE_TEST_SUITE_P(Types, RoundTrip, ::testing::ValuesIn(kAllDataTypes),
                         [](const auto& test) { return DataTypeName(test.param); });

// Through bytes, in both encodings, with every bit kept.
TEST_P(RoundTrip, KeepsEveryBitInBothEncodings) {
  VisitDataType(GetParam(), false, []<typename T>() {
    const std::vector<T> samples = Samples<T>();
    std::vector<T> longer = samples;
    longer.insert(longer.end(), 5, samples.back());
    for (const Tensor& want : {AsTensor<T>(samples), AsTensor<T>(longer), AsScalar<T>(samples[0]),
                               Tensor(kDataTypeOf<T>, TensorShape({2, 0}))}) {
      for (const auto encode : {&TensorToProto, &TensorToProtoContent}) {
        tensorflow::TensorProto proto;
        encode(want, &proto);
        tensorflow::TensorProto read;
        EXPECT_TRUE(read.ParseFromString(proto.SerializeAsString()));
        StatusOr<Tensor> got = TensorFromProto(read);
        EXPECT_TRUE(got.ok()) << got.status();
        if (!got.ok()) return false;
        ExpectTensorEqual(want, *got);
        if (!OwnsMemory(kDataTypeOf<T>)) {
          EXPECT_EQ(std::memcmp(want.raw_data(), got->raw_data(), want.num_bytes()), 0);
        }
      }
    }
    return true;
  });
}

TEST(TensorCodecTest, ResourceHandlesKeepTheirFields) {
  ExpectDecodes(AsTensor<ResourceHandle>({Handle("v"), Handle("v")}),
                "dtype: DT_RESOURCE " + Vec(2) +
                    "resource_handle_val { device: '/device:CPU:0' container: 'c' name: 'v' hash_code: 77 "
                    "maybe_type_name: 'Var' dtypes_and_shapes { dtype: DT_FLOAT shape { dim { size: 2 } dim "
                    "{ size: -1 } } } "
                    "dtypes_and_shapes { dtype: DT_INT32 shape { unknown_rank: true } } }");
  ExpectInvalid("dtype: DT_RESOURCE " + Vec(1) +
                    "resource_handle_val { name: 'v' dtypes_and_shapes { shape { dim { size: -7 } } } }",
                "'v'");
  ExpectInvalid("dtype: DT_RESOURCE " + Vec(1) + "tensor_content: '\\002\\377\\377'", "malformed");
}

TEST(TensorCodecTest, VariantsOfUnknownTypesStayAsTheyAre) {
  const tensorflow::TensorProto proto = Proto("dtype: DT_VARIANT " + Vec(1) +
                                              "variant_val { type_name: 'else::Where' metadata: 'm' tensors "
                                              "{ dtype: DT_INT32 tensor_shape {} int_val: 5 } }");
  StatusOr<Tensor> t = TensorFromProto(proto);
  ASSERT_TRUE(t.ok()) << t.status();
  EXPECT_EQ(t->scalar<Variant>().TypeName(), "else::Where");
  ASSERT_NE(t->scalar<Variant>().get<VariantData>(), nullptr);
  tensorflow::TensorProto again;
  TensorToProto(*t, &again);
  EXPECT_EQ(again.SerializeAsString(), proto.SerializeAsString());
}

// A message with n float elements, in tensor_content.
tensorflow::TensorProto ContentProto(int64_t n) {
  Tensor tensor(DataType::kFloat, {n});
  for (int64_t i = 0; i < n; ++i) tensor.data<float>()[i] = static_cast<float>(i);
  tensorflow::TensorProto proto;
  TensorToProtoContent(tensor, &proto);
  return proto;
}

TEST(TensorCodecTest, AMessageThatIsGivenAwayLendsItsMemory) {
  tensorflow::TensorProto content = ContentProto(10000);
  const void* bytes = content.tensor_content().data();
  const StatusOr<Tensor> from_content = TakeTensorFromProto(&content);
  ASSERT_TRUE(from_content.ok()) << from_content.status();
  EXPECT_EQ(from_content->raw_data(), bytes);
  EXPECT_EQ(from_content->dim(0), 10000);
  EXPECT_EQ(from_content->data<float>()[9999], 9999.0f);

  tensorflow::TensorProto list;
  TensorToProto(*from_content, &list);
  const void* numbers = list.float_val().data();
  const StatusOr<Tensor> from_list = TakeTensorFromProto(&list);
  ASSERT_TRUE(from_list.ok()) << from_list.status();
  EXPECT_EQ(from_list->raw_data(), numbers);
  ExpectTensorEqual(*from_content, *from_list);
}

TEST(TensorCodecTest, WhatCannotBeTakenIsCopiedOrRefusedAlike) {
  std::vector<tensorflow::TensorProto> protos{ContentProto(3), ContentProto(10000), ContentProto(10000),
                                              ContentProto(10000), ContentProto(10000)};
  protos[1].set_dtype(tensorflow::DT_BOOL);
  protos[1].mutable_tensor_shape()->mutable_dim(0)->set_size(40000);
  protos[2].add_float_val(1);
  protos[3].mutable_tensor_content()->pop_back();
  protos[4].clear_tensor_content();  // one value stands for all
  protos[4].add_float_val(1);
  for (tensorflow::TensorProto& proto : protos) {
    const StatusOr<Tensor> copied = TensorFromProto(proto);
    const StatusOr<Tensor> taken = TakeTensorFromProto(&proto);
    EXPECT_EQ(copied.status(), taken.status());
    if (copied.ok() && taken.ok()) ExpectTensorEqual(*copied, *taken);
  }
  tensorflow::TensorProto large = ContentProto(10000);
  EXPECT_TRUE(errors::IsResourceExhausted(TakeTensorFromProto(&large, {.max_bytes = 39999}).status()));
}

TEST(DataTypeCodecTest, NumbersAreChecked) {
  EXPECT_EQ(*DataTypeFromProto(tensorflow::DT_HALF), DataType::kHalf);
  EXPECT_EQ(*DataTypeFromProto(tensorflow::DT_STRING_REF), MakeRefType(DataType::kString));
  EXPECT_EQ(DataTypeToProto(DataType::kUint64), tensorflow::DT_UINT64);
  for (const int bad : {-1, 0, 24, 100, 124, 1 << 20}) {
    EXPECT_TRUE(errors::IsInvalidArgument(DataTypeFromProto(static_cast<tensorflow::DataType>(bad)).status()))
        << bad;
  }
  // The table of types and the enumeration of the wire are the same set.
  for (int i = 1; i < 200; ++i) {
    EXPECT_EQ(IsKnownDataType(static_cast<DataType>(i)), tensorflow::DataType_IsValid(i)) << i;
    if (!tensorflow::DataType_IsValid(i)) continue;
    EXPECT_EQ(DataTypeEnumName(static_cast<DataType>(i)),
              tensorflow::DataType_Name(static_cast<tensorflow::DataType>(i)));
  }
}

}  // namespace
}  // namespace millrace
