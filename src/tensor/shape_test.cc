// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tensor/tensor_codec.h"
#include "tensorflow/core/framework/tensor_shape.pb.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Dims = std::vector<int64_t>;

TEST(TensorShapeTest, ScalarHasOneElement) {
  const TensorShape s;
  EXPECT_EQ(s.rank(), 0);
  EXPECT_EQ(s.num_elements(), 1);
  EXPECT_TRUE(s.IsScalar());
  EXPECT_EQ(s.ToString(), "[]");
}

TEST(TensorShapeTest, ReturnsItsSizes) {
  const TensorShape s({2, 3, 4});
  EXPECT_EQ(s.rank(), 3);
  EXPECT_EQ(s.num_elements(), 24);
  EXPECT_THAT(s.dims(), ElementsAre(2, 3, 4));
  EXPECT_EQ(s.ToString(), "[2,3,4]");
  EXPECT_TRUE(TensorShape({5}).IsVector());
  EXPECT_TRUE(TensorShape({5, 1}).IsMatrix());
  EXPECT_EQ(TensorShape({5, 0, 2}).num_elements(), 0);
}

// Every rank up to the highest, so that both representations and the transition between them are tested.
TEST(TensorShapeTest, GrowsAndShrinksThroughAllRanks) {
  TensorShape s;
  Dims want;
  for (int i = 0; i < TensorShape::kMaxRank; ++i) {
    s.AddDim(i % 3 == 0 ? 1 : i < 20 ? 2 : 1);
    want.push_back(i % 3 == 0 ? 1 : i < 20 ? 2 : 1);
    ASSERT_EQ(Dims(s.dims().begin(), s.dims().end()), want);
    TensorShape copy(s);
    const TensorShape moved(std::move(copy));
    ASSERT_EQ(moved, s);
    copy = moved;
    ASSERT_EQ(copy, s);
  }
  EXPECT_EQ(s.rank(), 254);
  EXPECT_TRUE(errors::IsInvalidArgument(s.TryAddDim(1)));
  EXPECT_EQ(s.rank(), 254);
  while (s.rank() > 0) {
    const int at = s.rank() / 2;
    s.RemoveDim(at);
    want.erase(want.begin() + at);
    ASSERT_EQ(Dims(s.dims().begin(), s.dims().end()), want);
  }
  EXPECT_EQ(s, TensorShape());
}

TEST(TensorShapeTest, EditsKeepTheCount) {
  TensorShape s({2, 3});
  s.InsertDim(1, 5);
  EXPECT_EQ(s, TensorShape({2, 5, 3}));
  EXPECT_EQ(s.num_elements(), 30);
  s.SetDim(0, 0);
  EXPECT_EQ(s.num_elements(), 0);
  s.SetDim(0, 4);
  EXPECT_EQ(s.num_elements(), 60);
  s.RemoveDim(1);
  EXPECT_EQ(s, TensorShape({4, 3}));
}

TEST(TensorShapeTest, MakeRefusesBadSizes) {
  EXPECT_THAT(TensorShape::Make(Dims{2, -1}).status().message(), HasSubstr("[2,-1] has negative dimensions"));
  EXPECT_THAT(TensorShape::Make(Dims{int64_t{1} << 32, int64_t{1} << 31}).status().message(),
              HasSubstr("too large"));
  EXPECT_THAT(TensorShape::Make(Dims{INT64_MAX, 2}).status().message(), HasSubstr("too large"));
  EXPECT_TRUE(TensorShape::Make(Dims{INT64_MAX, 1}).ok());
  EXPECT_THAT(TensorShape::Make(Dims(255, 1)).status().message(), HasSubstr("too many dimensions"));
  EXPECT_TRUE(TensorShape::Make(Dims(254, 1)).ok());
  // A size of zero, at any position, does not hide an overflow of the others.
  EXPECT_FALSE(TensorShape::Make(Dims{0, int64_t{1} << 40, int64_t{1} << 40}).ok());
  EXPECT_FALSE(TensorShape::Make(Dims{int64_t{1} << 40, int64_t{1} << 40, 0}).ok());
  EXPECT_TRUE(TensorShape::Make(Dims{0, int64_t{1} << 40}).ok());
}

TEST(TensorShapeTest, TryAddDimRefusesAndLeavesTheShape) {
  TensorShape s({int64_t{1} << 40});
  EXPECT_FALSE(s.TryAddDim(int64_t{1} << 40).ok());
  EXPECT_FALSE(s.TryAddDim(-1).ok());
  EXPECT_EQ(s, TensorShape({int64_t{1} << 40}));
  EXPECT_TRUE(s.TryAddDim(0).ok());
  EXPECT_EQ(s.num_elements(), 0);
}

TEST(TensorShapeDeathTest, BadSizesInCodeAreProgrammerErrors) {
  EXPECT_DEATH(TensorShape({-1}), "TensorShape: .*negative");
  EXPECT_DEATH(TensorShape({2}).RemoveDim(1), "RemoveDim: .2. has no dimension 1");
  EXPECT_DEATH(TensorShape({2}).dim(1), "TensorShape::dim: .2. has no dimension 1");
  EXPECT_DEATH(PartialShape().dim(0), "PartialShape::dim: <unknown> has no dimension 0");
}

TEST(PartialShapeTest, PrintsWhatIsUnknown) {
  EXPECT_EQ(PartialShape().ToString(), "<unknown>");
  EXPECT_EQ(PartialShape({2, -1}).ToString(), "[2,?]");
  EXPECT_EQ(PartialShape(TensorShape({2, 3})).ToString(), "[2,3]");
  EXPECT_EQ(PartialShape().rank(), -1);
}

TEST(PartialShapeTest, MergesWhatBothKnow) {
  EXPECT_EQ(*PartialShape({2, -1}).MergeWith(PartialShape({-1, 3})), PartialShape({2, 3}));
  EXPECT_EQ(*PartialShape().MergeWith(PartialShape({-1})), PartialShape({-1}));
  EXPECT_EQ(*PartialShape({4}).MergeWith(PartialShape()), PartialShape({4}));
  EXPECT_TRUE(errors::IsInvalidArgument(PartialShape({2}).MergeWith(PartialShape({3})).status()));
  EXPECT_TRUE(errors::IsInvalidArgument(PartialShape({2}).MergeWith(PartialShape({2, 2})).status()));
  EXPECT_FALSE(PartialShape({int64_t{1} << 40, -1}).MergeWith(PartialShape({-1, int64_t{1} << 40})).ok());
}

TEST(PartialShapeTest, CompatibilityFollowsTheKnownSizes) {
  const PartialShape p({2, -1});
  EXPECT_TRUE(p.IsCompatibleWith(TensorShape({2, 7})));
  EXPECT_FALSE(p.IsCompatibleWith(TensorShape({3, 7})));
  EXPECT_FALSE(p.IsCompatibleWith(TensorShape({2})));
  EXPECT_TRUE(p.IsCompatibleWith(PartialShape()));
  EXPECT_TRUE(PartialShape().IsCompatibleWith(TensorShape()));
  EXPECT_TRUE(p.IsCompatibleWith(PartialShape({-1, 9})));
  EXPECT_FALSE(p.IsCompatibleWith(PartialShape({1, 9})));
}

TEST(PartialShapeTest, BecomesAShapeWhenDefined) {
  EXPECT_EQ(*PartialShape({2, 3}).ToTensorShape(), TensorShape({2, 3}));
  EXPECT_FALSE(PartialShape({2, -1}).ToTensorShape().ok());
  EXPECT_FALSE(PartialShape().ToTensorShape().ok());
  EXPECT_FALSE(PartialShape::Make(Dims{-2}).ok());
  EXPECT_TRUE(PartialShape::Make(Dims{-1, -1}).ok());
}

tensorflow::TensorShapeProto Proto(const Dims& dims) {
  tensorflow::TensorShapeProto proto;
  for (const int64_t d : dims) proto.add_dim()->set_size(d);
  return proto;
}

TEST(ShapeCodecTest, RoundTrips) {
  for (const Dims& dims : {Dims{}, Dims{0}, Dims{2, 3, 4, 5, 6, 7}, Dims(254, 1)}) {
    tensorflow::TensorShapeProto proto;
    ShapeToProto(TensorShape(dims), &proto);
    EXPECT_EQ(proto.SerializeAsString(), Proto(dims).SerializeAsString());
    EXPECT_EQ(*ShapeFromProto(proto), TensorShape(dims));
    EXPECT_EQ(*PartialShapeFromProto(proto), PartialShape(dims));
  }
  for (const PartialShape& shape : {PartialShape(), PartialShape({-1, 2}), PartialShape(TensorShape())}) {
    tensorflow::TensorShapeProto proto;
    ShapeToProto(shape, &proto);
    EXPECT_EQ(*PartialShapeFromProto(proto), shape);
  }
}

TEST(ShapeCodecTest, BadProtosAreRefused) {
  EXPECT_FALSE(ShapeFromProto(Proto({-1})).ok());
  EXPECT_FALSE(ShapeFromProto(Proto({INT64_MIN})).ok());
  EXPECT_FALSE(ShapeFromProto(Proto(Dims(255, 1))).ok());
  EXPECT_FALSE(PartialShapeFromProto(Proto({-2})).ok());
  tensorflow::TensorShapeProto proto = Proto({2});
  proto.set_unknown_rank(true);
  EXPECT_FALSE(ShapeFromProto(proto).ok());
  EXPECT_FALSE(PartialShapeFromProto(proto).ok());
}

}  // namespace
}  // namespace millrace
