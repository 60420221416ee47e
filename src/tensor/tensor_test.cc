// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tensor/allocator.h"
#include "tensor/buffer.h"
#include "tensor/testing.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

class EveryType : public ::testing::TestWithParam<DataType> {};
INSTANTIATE_TEST_SUITE_P(Types, EveryType, ::testing::ValuesIn(kAllDataTypes),
                         [](const auto& test) { return DataTypeName(test.param); });

TEST_P(EveryType, IsAllocatedAlignedAndFreed) {
  for (const int64_t n : {1, 3, 1000, 100000}) {
    StatusOr<Tensor> t = Tensor::Allocate(GetParam(), TensorShape({n}));
    ASSERT_TRUE(t.ok()) << t.status();
    EXPECT_TRUE(t->IsInitialized());
    EXPECT_TRUE(t->OwnsBufferAlone());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(t->raw_data()) % Allocator::kAlignment, 0u);
    EXPECT_EQ(t->num_bytes(), static_cast<size_t>(n) * ElementSize(GetParam()));
    EXPECT_EQ(t->buffer()->size(), t->num_bytes());
    if (!OwnsMemory(GetParam())) std::memset(t->raw_data(), 1, t->num_bytes());
  }
}

TEST_P(EveryType, WithoutElementsNeedsNoBuffer) {
  const Tensor t(GetParam(), TensorShape({3, 0}));
  EXPECT_TRUE(t.IsInitialized());
  EXPECT_EQ(t.buffer(), nullptr);
  EXPECT_NE(t.raw_data(), nullptr);
  EXPECT_EQ(t.num_bytes(), 0u);
  ExpectTensorEqual(t, t.DeepCopy());
}

TEST(TensorTest, DefaultIsAnEmptyFloatVector) {
  const Tensor t;
  EXPECT_EQ(t.dtype(), DataType::kFloat);
  EXPECT_EQ(t.shape(), TensorShape({0}));
  EXPECT_TRUE(t.IsInitialized());
}

TEST(TensorTest, CopiesShareAndDeepCopiesDoNot) {
  Tensor a = Tensor::Vector<float>({1, 2, 3});
  Tensor b = a;
  const Tensor c = a.DeepCopy();
  EXPECT_TRUE(a.SharesBufferWith(b));
  EXPECT_FALSE(a.OwnsBufferAlone());
  EXPECT_FALSE(a.SharesBufferWith(c));
  b.data<float>()[0] = 7;
  EXPECT_EQ(a.data<float>()[0], 7);
  EXPECT_EQ(c.data<float>()[0], 1);
  b = c;
  EXPECT_TRUE(a.OwnsBufferAlone());
}

TEST(TensorTest, AssignmentToItselfKeepsTheValue) {
  Tensor a = Tensor::Scalar<int32_t>(5);
  Tensor& same = a;
  a = same;
  EXPECT_EQ(a.scalar<int32_t>(), 5);
  a = std::move(same);
  EXPECT_EQ(a.scalar<int32_t>(), 5);
  EXPECT_TRUE(a.OwnsBufferAlone());
}

TEST(TensorTest, DeepCopyOfStringsCopiesTheStrings) {
  const Tensor a = Tensor::Vector<std::string>({"one", std::string(1000, 'x')});
  Tensor b = a.DeepCopy();
  b.data<std::string>()[0] = "two";
  EXPECT_EQ(a.data<std::string>()[0], "one");
  EXPECT_EQ(b.data<std::string>()[1].size(), 1000u);
}

TEST(TensorTest, SliceSharesTheRows) {
  Tensor t = Tensor::From<int32_t>({0, 1, 2, 3, 4, 5, 6, 7}, TensorShape({4, 2}));
  Tensor s = t.Slice(1, 3);
  ExpectTensorEqual(AsTensor<int32_t>({2, 3, 4, 5}, TensorShape({2, 2})), s);
  EXPECT_TRUE(s.SharesBufferWith(t));
  ExpectTensorEqual(AsTensor<int32_t>({4, 5}, TensorShape({1, 2})), s.Slice(1, 2));
  s.data<int32_t>()[0] = 20;
  EXPECT_EQ(t.data<int32_t>()[2], 20);
  EXPECT_EQ(t.Slice(4, 4).num_elements(), 0);
  EXPECT_EQ(t.Slice(2, 2).shape(), TensorShape({0, 2}));
  t = Tensor();
  EXPECT_EQ(s.data<int32_t>()[1], 3);  // the slice keeps the buffer
}

TEST(TensorTest, SliceOfAnEmptyTensorIsEmpty) {
  EXPECT_EQ(Tensor(DataType::kFloat, TensorShape({0, 3})).Slice(0, 0).shape(), TensorShape({0, 3}));
  EXPECT_EQ(Tensor(DataType::kFloat, TensorShape({5, 0})).Slice(1, 3).shape(), TensorShape({2, 0}));
}

TEST(TensorDeathTest, SliceOutOfRangeIsAProgrammerError) {
  const Tensor t(DataType::kFloat, TensorShape({3}));
  EXPECT_DEATH(t.Slice(1, 4), "Tensor::Slice: rows .1, 4.");
  EXPECT_DEATH(Tensor::Scalar<float>(1).Slice(0, 0), "Tensor::Slice");
  EXPECT_DEATH(t.WithShape({4}), "Tensor::WithShape");
  EXPECT_DEATH(t.vec<float>().dim(1), "TensorView::dim");
  EXPECT_DEATH((void)*Tensor::Of({{1, 2}, {3}}), "StatusOr: .*differ in shape");
  EXPECT_DEATH(Tensor::Scalar(static_cast<const char*>(nullptr)), "null pointer");
}

TEST(TensorTest, ReshapeSharesOrRefuses) {
  const Tensor t = Tensor::From<float>({1, 2, 3, 4, 5, 6}, TensorShape({2, 3}));
  StatusOr<Tensor> r = t.Reshape(TensorShape({3, 1, 2}));
  ASSERT_TRUE(r.ok());
  EXPECT_TRUE(r->SharesBufferWith(t));
  EXPECT_EQ(r->shape(), TensorShape({3, 1, 2}));
  const Status status = t.Reshape(TensorShape({7})).status();
  EXPECT_TRUE(errors::IsInvalidArgument(status));
  EXPECT_THAT(status.message(), HasSubstr("[2,3]"));
  EXPECT_THAT(status.message(), HasSubstr("[7]"));
}

TEST(TensorTest, OverflowingSizesAreRefused) {
  for (const DataType dtype : {DataType::kComplex128, DataType::kString, DataType::kVariant}) {
    const TensorShape huge({int64_t{1} << 62});
    EXPECT_TRUE(errors::IsInvalidArgument(Tensor::Allocate(dtype, huge).status()));
    EXPECT_FALSE(Tensor(dtype, huge).IsInitialized());
  }
  EXPECT_TRUE(errors::IsInvalidArgument(Tensor::Allocate(DataType::kInvalid, TensorShape({1})).status()));
  EXPECT_TRUE(
      errors::IsInvalidArgument(Tensor::Allocate(MakeRefType(DataType::kFloat), TensorShape({1})).status()));
}

TEST(TensorTest, MoreThanTheMachineHasIsResourceExhausted) {
  const Status status = Tensor::Allocate(DataType::kUint8, TensorShape({int64_t{1} << 46})).status();
  EXPECT_TRUE(errors::IsResourceExhausted(status)) << status;
  EXPECT_THAT(status.message(),
              HasSubstr("OOM when allocating tensor with shape[70368744177664] and type uint8"));
}

TEST(TensorTest, AllocatorThatRefusesGivesResourceExhausted) {
  FailingAllocator allocator(CpuAllocator(), 1000);
  StatusOr<Tensor> small = Tensor::Allocate(DataType::kFloat, TensorShape({100}), allocator);
  ASSERT_TRUE(small.ok());
  EXPECT_TRUE(errors::IsResourceExhausted(
      Tensor::Allocate(DataType::kFloat, TensorShape({200}), allocator).status()));
  *small = Tensor();
  EXPECT_TRUE(Tensor::Allocate(DataType::kFloat, TensorShape({200}), allocator).ok());
}

TEST(TensorTest, UninitialisedTensorIsPrintedAsSuch) {
  const Tensor t = Tensor::FromBuffer(DataType::kFloat, TensorShape({2}), nullptr, nullptr);
  EXPECT_FALSE(t.IsInitialized());
  EXPECT_FALSE(t.OwnsBufferAlone());
  EXPECT_FALSE(t.DeepCopy().IsInitialized());
  EXPECT_THAT(t.DebugString(), HasSubstr("uninitialized"));
}

TEST(TensorTest, WrappedMemoryIsReleasedOnce) {
  std::vector<float> memory = {1, 2, 3};
  int released = 0;
  {
    const Tensor t = Tensor::FromBuffer(DataType::kFloat, TensorShape({3}),
                                        Buffer::Wrap(memory.data(), 12, [&] { ++released; }), memory.data());
    const Tensor copy = t.Slice(1, 3);
    EXPECT_EQ(copy.data<float>()[0], 2);
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
}

TEST(TensorTest, DebugStringShowsTypeShapeAndValues) {
  EXPECT_EQ(AsTensor<float>({1, -2.5, NAN}).DebugString(),
            "Tensor<type: float shape: [3] values: 1 -2.5 nan>");
  EXPECT_EQ(AsScalar<bool>(true).DebugString(), "Tensor<type: bool shape: [] values: 1>");
  EXPECT_EQ(AsTensor<int32_t>({1, 2, 3, 4}, TensorShape({2, 2})).DebugString(),
            "Tensor<type: int32 shape: [2,2] values: [1 2][3 4]>");
  EXPECT_EQ(AsTensor<int8_t>({1, 2, 3}).DebugString(2), "Tensor<type: int8 shape: [3] values: 1 2...>");
  EXPECT_EQ(Tensor::Vector<std::string>({"a\n", "b"}).DebugString(),
            "Tensor<type: string shape: [2] values: a\\n b>");
  EXPECT_EQ(AsScalar<complex64>({1, -1}).DebugString(), "Tensor<type: complex64 shape: [] values: (1,-1)>");
  EXPECT_EQ(AsScalar(half(0.5f)).DebugString(), "Tensor<type: half shape: [] values: 0.5>");
  EXPECT_EQ(Tensor(DataType::kFloat, TensorShape({2, 0})).DebugString(),
            "Tensor<type: float shape: [2,0] values: >");
}

TEST_P(EveryType, HasADebugString) {
  const Tensor t = Tensor::Allocate(GetParam(), TensorShape({2, 1})).value();
  if (!OwnsMemory(GetParam())) std::memset(const_cast<Tensor&>(t).raw_data(), 0, t.num_bytes());
  EXPECT_THAT(t.DebugString(), HasSubstr(DataTypeName(GetParam())));
}

TEST(TensorTestingTest, ComparisonsSeeDifferences) {
  const Tensor a = AsTensor<float>({1, NAN, INFINITY});
  EXPECT_TRUE(TensorsEqual(a, AsTensor<float>({1, NAN, INFINITY})));
  EXPECT_FALSE(TensorsEqual(a, AsTensor<float>({1, 0, INFINITY})));
  EXPECT_FALSE(TensorsEqual(a, AsTensor<float>({1, NAN, -INFINITY})));
  EXPECT_FALSE(TensorsEqual(a, AsTensor<float>({1.0000001f, NAN, INFINITY})));
  EXPECT_TRUE(TensorsNear(a, AsTensor<float>({1.0000001f, NAN, INFINITY}), 1e-6, 0));
  EXPECT_FALSE(TensorsNear(a, AsTensor<float>({1, NAN, 1e30f}), 1e-6, 1e-6));
  EXPECT_FALSE(TensorsEqual(a, AsTensor<double>({1, NAN, INFINITY})));
  EXPECT_FALSE(TensorsEqual(a, AsTensor<float>({1, NAN, INFINITY}, TensorShape({1, 3}))));
}

TEST(VariantTest, HoldsCopiesAndGivesBackTheirType) {
  Variant v = std::string("text");
  ASSERT_NE(v.get<std::string>(), nullptr);
  EXPECT_EQ(v.get<int>(), nullptr);
  Variant copy = v;
  *copy.get<std::string>() = "other";
  EXPECT_EQ(*v.get<std::string>(), "text");
  v = Variant();
  EXPECT_TRUE(v.empty());
  EXPECT_EQ(v.get<std::string>(), nullptr);
}

struct Point {
  static constexpr std::string_view kVariantTypeName = "test::Point";
  std::string label;
  Tensor position;
  VariantData EncodeVariant() const { return VariantData("", label, {position}); }
  static StatusOr<Point> DecodeVariant(VariantData data) {
    if (data.tensors.size() != 1) return errors::InvalidArgument("Point needs one tensor");
    return Point{data.metadata, data.tensors[0]};
  }
};

TEST(VariantTest, RegisteredTypesComeBack) {
  ASSERT_TRUE(RegisterVariantType<Point>().ok());
  EXPECT_TRUE(errors::IsAlreadyExists(RegisterVariantType<Point>()));
  const Variant v = Point{"p", AsTensor<float>({1, 2})};
  const VariantData data = v.Encode();
  EXPECT_EQ(data.type_name, "test::Point");
  StatusOr<Variant> back = Variant::Decode(data);
  ASSERT_TRUE(back.ok());
  ASSERT_NE(back->get<Point>(), nullptr);
  EXPECT_EQ(back->get<Point>()->label, "p");
  ExpectTensorEqual(AsTensor<float>({1, 2}), back->get<Point>()->position);
  EXPECT_TRUE(errors::IsInvalidArgument(Variant::Decode(VariantData("test::Point", "", {})).status()));
}

TEST(VariantTest, UnknownTypesAreKept) {
  StatusOr<Variant> v = Variant::Decode(VariantData("somebody::Else", "bytes", {AsScalar<float>(1)}));
  ASSERT_TRUE(v.ok());
  EXPECT_EQ(v->TypeName(), "somebody::Else");
  EXPECT_EQ(v->Encode().metadata, "bytes");
  EXPECT_EQ(v->Encode().tensors.size(), 1u);
}

}  // namespace
}  // namespace millrace
