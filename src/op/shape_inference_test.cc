// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "op/shape_inference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "op/op_builder.h"
#include "op/op_registry.h"
#include "op/shape_fn_testing.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kMax = INT64_MAX;

// A context for an op with the inputs given: "[2,?];?".
class ShapeInference : public ::testing::Test {
 protected:
  ShapeInference()
      : c(op_, attrs_, "node", 2,
          std::vector<PartialShape>{ParseShapeText("[2,?,4]"), ParseShapeText("?"), ParseShapeText("[?,3,?]"),
                                    ParseShapeText("[3]"), ParseShapeText("[]")}) {}

  std::string Text(const StatusOr<ShapeHandle>& shape) {
    return shape.ok() ? c.DebugString(*shape) : shape.status().message();
  }
  std::string Text(const StatusOr<DimHandle>& dim) {
    return dim.ok() ? c.DebugString(c.Vector(*dim)) : dim.status().message();
  }

  OpDef op_;
  AttrMap attrs_;
  InferenceContext c;
};

TEST_F(ShapeInference, ReadsShapes) {
  EXPECT_EQ(c.num_inputs(), 5);
  EXPECT_EQ(c.num_outputs(), 2);
  EXPECT_EQ(c.Rank(c.input(0)), 3);
  EXPECT_FALSE(c.RankKnown(c.input(1)));
  EXPECT_EQ(c.Value(c.Dim(c.input(0), 0)), 2);
  EXPECT_TRUE(c.Dim(c.input(0), -1).SameAs(c.Dim(c.input(0), 2)));
  EXPECT_FALSE(c.ValueKnown(c.Dim(c.input(0), 1)));
  EXPECT_FALSE(c.ValueKnown(c.Dim(c.input(1), 5)));
  EXPECT_FALSE(c.ValueKnown(c.Dim(c.input(0), 3))) << "out of range";
  EXPECT_FALSE(c.Dim(c.input(1), 0).SameAs(c.Dim(c.input(1), 0))) << "sizes of an unknown shape may differ";
  EXPECT_FALSE(c.FullyDefined(c.input(0)));
  EXPECT_TRUE(c.FullyDefined(c.input(3)));
  EXPECT_EQ(c.DebugString(c.input(0)), "[2,?,4]");
  EXPECT_EQ(c.ToPartialShape(c.input(0)), PartialShape({2, -1, 4}));
  EXPECT_EQ(c.DebugString(c.output(1)), "?") << "before it is set";
}

TEST_F(ShapeInference, ChecksRanks) {
  EXPECT_EQ(Text(c.WithRank(c.input(0), 3)), "[2,?,4]");
  EXPECT_EQ(Text(c.WithRank(c.input(1), 2)), "[?,?]");
  EXPECT_EQ(Text(c.WithRank(c.input(0), 2)), "Shape must be rank 2 but is rank 3");
  EXPECT_EQ(Text(c.WithRankAtLeast(c.input(0), 4)), "Shape must be at least rank 4 but is rank 3");
  EXPECT_EQ(Text(c.WithRankAtMost(c.input(0), 2)), "Shape must be at most rank 2 but is rank 3");
  EXPECT_EQ(Text(c.WithRankAtLeast(c.input(1), 4)), "?");
  EXPECT_EQ(Text(c.WithRankAtMost(c.input(1), 4)), "?");
}

TEST_F(ShapeInference, MergesSizes) {
  const DimHandle two = c.MakeDim(2);
  const DimHandle unknown = c.UnknownDim();
  EXPECT_TRUE(c.Merge(two, unknown)->SameAs(two));
  EXPECT_TRUE(c.Merge(unknown, two)->SameAs(two));
  EXPECT_TRUE(c.Merge(unknown, c.UnknownDim())->SameAs(unknown));
  EXPECT_EQ(Text(c.Merge(two, c.MakeDim(3))), "Dimensions must be equal, but are 2 and 3");
  EXPECT_EQ(Text(c.WithValue(two, 3)), "Dimension must be 3 but is 2");
  EXPECT_EQ(Text(c.WithValue(unknown, 3)), "[3]");
  EXPECT_TRUE(c.WithValue(two, 2)->SameAs(two));
}

TEST_F(ShapeInference, MergesShapes) {
  EXPECT_EQ(Text(c.Merge(c.input(0), c.input(2))), "[2,3,4]");
  EXPECT_TRUE(c.Merge(c.input(1), c.input(0))->SameAs(c.input(0)));
  EXPECT_TRUE(c.Merge(c.input(0), c.input(1))->SameAs(c.input(0)));
  const ShapeHandle full = *c.MakeShapeFromPartial({2, 3, 4});
  EXPECT_TRUE(c.Merge(c.input(0), full)->SameAs(full)) << "the better one is handed on";
  EXPECT_TRUE(c.Merge(full, c.input(0))->SameAs(full));
  EXPECT_EQ(Text(c.Merge(c.input(0), c.input(3))), "Shapes must be equal rank, but are 3 and 1");
  EXPECT_EQ(Text(c.Merge(c.input(0), *c.MakeShapeFromPartial({2, 3, 5}))),
            "Dimension 2 in both shapes must be equal, but are 4 and 5. Shapes are [2,?,4] and [2,3,5].");
}

TEST_F(ShapeInference, MergesPrefixes) {
  EXPECT_EQ(Text(c.MergePrefix(c.input(2), *c.MakeShapeFromPartial({7, -1}))), "[7,3,?]");
  EXPECT_EQ(Text(c.MergePrefix(c.input(1), c.input(0))), "?");
  EXPECT_EQ(Text(c.MergePrefix(c.input(0), c.input(1))), "[2,?,4]");
  EXPECT_EQ(Text(c.MergePrefix(c.input(3), c.input(0))), "Shape must be at least rank 3 but is rank 1");
  EXPECT_EQ(Text(c.MergePrefix(c.input(0), *c.MakeShapeFromPartial({3}))),
            "Dimensions must be equal, but are 2 and 3");
}

TEST_F(ShapeInference, CutsShapes) {
  const ShapeHandle s = c.input(0);
  EXPECT_TRUE(c.Subshape(s, 0)->SameAs(s));
  EXPECT_TRUE(c.Subshape(s, 0, 3)->SameAs(s));
  EXPECT_EQ(Text(c.Subshape(s, 1)), "[?,4]");
  EXPECT_EQ(Text(c.Subshape(s, 0, -1)), "[2,?]");
  EXPECT_EQ(Text(c.Subshape(s, -2, 2)), "[?]");
  EXPECT_EQ(Text(c.Subshape(s, 3)), "[]");
  EXPECT_EQ(Text(c.Subshape(s, 9)), "[]");
  EXPECT_EQ(Text(c.Subshape(s, 0, 99)), "[2,?,4]");
  EXPECT_EQ(Text(c.Subshape(c.input(1), 1)), "?");
  EXPECT_EQ(Text(c.Subshape(s, -4)), "Subshape start out of bounds: -4, for shape with rank 3");
  EXPECT_EQ(Text(c.Subshape(s, 0, -4)), "Subshape end out of bounds: -4, for shape with rank 3");
  EXPECT_EQ(
      Text(c.Subshape(s, 2, 1)),
      "Subshape must have computed start <= end, but is 2 and 1 (computed from start 2 and end 1 over shape "
      "with rank 3)");
}

TEST_F(ShapeInference, JoinsAndReplaces) {
  EXPECT_EQ(Text(c.Concatenate(c.input(0), c.input(3))), "[2,?,4,3]");
  EXPECT_EQ(Text(c.Concatenate(c.input(0), c.input(1))), "?");
  EXPECT_EQ(Text(c.ReplaceDim(c.input(0), -1, c.MakeDim(9))), "[2,?,9]");
  EXPECT_EQ(Text(c.ReplaceDim(c.input(1), 5, c.MakeDim(9))), "?");
  EXPECT_EQ(Text(c.ReplaceDim(c.input(0), 3, c.MakeDim(9))),
            "Out of range dim_index 3 for shape with 3 dimensions");
  const ShapeHandle long_shape = c.UnknownShapeOfRank(200);
  EXPECT_THAT(Text(c.Concatenate(long_shape, long_shape)), HasSubstr("largest rank is 254"));
}

TEST_F(ShapeInference, RanksBeyondTheLimitAreNotBuilt) {
  EXPECT_FALSE(c.RankKnown(c.UnknownShapeOfRank(255)));
  EXPECT_FALSE(c.RankKnown(c.UnknownShapeOfRank(kMax)));
  EXPECT_FALSE(c.RankKnown(c.UnknownShapeOfRank(-1)));
  EXPECT_FALSE(c.RankKnown(c.MakeShape(std::vector<DimHandle>(255, c.MakeDim(1)))));
  EXPECT_FALSE(c.MakeShapeFromPartial(PartialShape(std::vector<int64_t>(255, 1))).ok());
  EXPECT_FALSE(c.MakeShapeFromPartial(PartialShape({-2})).ok());
}

TEST_F(ShapeInference, CountsElements) {
  EXPECT_EQ(c.Value(c.NumElements(*c.MakeShapeFromPartial({2, 3}))), 6);
  EXPECT_EQ(c.Value(c.NumElements(c.Scalar())), 1);
  EXPECT_EQ(c.Value(c.NumElements(*c.MakeShapeFromPartial({-1, 0}))), 0);
  EXPECT_EQ(c.Value(c.NumElements(*c.MakeShapeFromPartial({kMax, kMax, 0}))), 0);
  EXPECT_FALSE(c.ValueKnown(c.NumElements(c.input(0))));
  EXPECT_FALSE(c.ValueKnown(c.NumElements(c.input(1))));
  EXPECT_FALSE(c.ValueKnown(c.NumElements(*c.MakeShapeFromPartial({kMax, 2})))) << "overflow";
}

TEST_F(ShapeInference, CalculatesWithSizes) {
  const DimHandle two = c.MakeDim(2);
  const DimHandle six = c.MakeDim(6);
  const DimHandle zero = c.MakeDim(0);
  const DimHandle one = c.MakeDim(1);
  const DimHandle big = c.MakeDim(kMax);
  const DimHandle unknown = c.UnknownDim();
  EXPECT_EQ(Text(c.Add(two, six)), "[8]");
  EXPECT_TRUE(c.Add(unknown, zero)->SameAs(unknown));
  EXPECT_EQ(Text(c.Add(unknown, two)), "[?]");
  EXPECT_THAT(Text(c.Add(big, two)), HasSubstr("overflow from adding"));
  EXPECT_EQ(Text(c.Subtract(six, two)), "[4]");
  EXPECT_TRUE(c.Subtract(unknown, zero)->SameAs(unknown));
  EXPECT_EQ(Text(c.Subtract(two, six)), "Negative dimension size caused by subtracting 6 from 2");
  EXPECT_EQ(Text(c.Multiply(two, six)), "[12]");
  EXPECT_TRUE(c.Multiply(unknown, one)->SameAs(unknown));
  EXPECT_EQ(Text(c.Multiply(unknown, zero)), "[0]");
  EXPECT_THAT(Text(c.Multiply(big, two)), HasSubstr("overflow when multiplying"));
  EXPECT_EQ(Text(c.Divide(six, 2, true)), "[3]");
  EXPECT_EQ(Text(c.Divide(six, 4, false)), "[1]");
  EXPECT_EQ(Text(c.Divide(unknown, 4, true)), "[?]");
  EXPECT_TRUE(c.Divide(unknown, 1, true)->SameAs(unknown));
  EXPECT_EQ(Text(c.Divide(six, 4, true)), "Dimension size must be evenly divisible by 4 but is 6");
  EXPECT_EQ(Text(c.Divide(six, 0, true)), "Divisor must be positive but is 0");
}

TEST_F(ShapeInference, ShapesFromValues) {
  EXPECT_EQ(Text(c.MakeShapeFromInput(1)), "?");
  EXPECT_EQ(Text(c.MakeShapeFromInput(3)), "[?,?,?]");
  EXPECT_EQ(Text(c.MakeShapeFromInput(0)), "Shape must be rank 1 but is rank 3");
  EXPECT_TRUE(c.requested_input_tensor(3));
  EXPECT_TRUE(c.requested_input_as_shape(3));
  EXPECT_FALSE(c.requested_input_tensor(4));

  const Tensor value = Tensor::Vector<int64_t>({5, -1, 0});
  c.set_input_tensor(3, &value);
  EXPECT_EQ(Text(c.MakeShapeFromInput(3)), "[5,?,0]");
  const Tensor negative = Tensor::Vector<int32_t>({5, -2, 0});
  c.set_input_tensor(3, &negative);
  EXPECT_EQ(Text(c.MakeShapeFromInput(3)), "Invalid value in tensor used for shape: -2");
  const Tensor floats = Tensor::Vector<float>({5});
  c.set_input_tensor(3, &floats);
  EXPECT_EQ(Text(c.MakeShapeFromInput(3)), "Input tensor must be int32 or int64, but was float");
  c.set_input_as_shape(3, *c.MakeShapeFromPartial({7, -1}));
  EXPECT_EQ(Text(c.MakeShapeFromInput(3)), "[7,?]");
}

TEST_F(ShapeInference, SizesFromValues) {
  EXPECT_EQ(Text(c.MakeDimFromScalarInput(4)), "[?]");
  const Tensor value = Tensor::Scalar<int32_t>(5);
  c.set_input_tensor(4, &value);
  EXPECT_EQ(Text(c.MakeDimFromScalarInput(4)), "[5]");
  const Tensor negative = Tensor::Scalar<int64_t>(-5);
  c.set_input_tensor(4, &negative);
  EXPECT_EQ(Text(c.MakeDimFromScalarInput(4)),
            "Dimension size, given by scalar input 4, must be non-negative but is -5");
  const Tensor vector = Tensor::Vector<int32_t>({5});
  c.set_input_tensor(4, &vector);
  EXPECT_EQ(Text(c.MakeDimFromScalarInput(4)), "Input must be scalar but has rank 1");
}

TEST_F(ShapeInference, ManyShapesFitIntoTheArena) {
  ShapeHandle s = c.Scalar();
  for (int i = 0; i < 200; ++i) s = *c.Concatenate(s, c.Vector(int64_t{i}));
  ASSERT_EQ(c.Rank(s), 200);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(c.Value(c.Dim(s, i)), i);
}

TEST(InferenceContextInputs, AreFoundByName) {
  const auto op = OpBuilder("Foo").Input("a: float").Input("b: N * float").Attr("N: int >= 1").Finalize();
  ASSERT_TRUE(op.ok());
  const AttrMap attrs{{"N", 2}};
  const std::vector<PartialShape> shapes = {{1}, {2}, {3}};
  InferenceContext c(op->def, attrs, "n", 0, shapes);
  const auto b = c.InputsNamed("b");
  ASSERT_TRUE(b.ok());
  ASSERT_EQ(b->size(), 2u);
  EXPECT_TRUE((*b)[1].SameAs(c.input(2)));
  EXPECT_EQ(c.InputsNamed("c").status().message(), "Unknown input name: c");
}

TEST(InferenceContextHandles, AreKeptForInputsAndOutputs) {
  const OpDef op;
  const AttrMap attrs;
  InferenceContext c(op, attrs, "n", 1, std::vector<PartialShape>{PartialShape()});
  EXPECT_TRUE(c.input_handle(0).empty());
  c.set_input_handle(0, {{c.Vector(int64_t{3}), DataType::kFloat}});
  c.set_output_handle(0, c.input_handle(0));
  ASSERT_EQ(c.output_handle(0).size(), 1u);
  EXPECT_EQ(c.DebugString(c.output_handle(0)[0].shape), "[3]");
}

TEST(WindowedOutput, ValidDropsWhatDoesNotFit) {
  const auto valid = [](int64_t in, int64_t window, int64_t dilation, int64_t stride) {
    return GetWindowedOutput(in, window, dilation, stride, Padding::kValid);
  };
  EXPECT_EQ(valid(10, 3, 1, 1)->size, 8);
  EXPECT_EQ(valid(10, 3, 1, 2)->size, 4);
  EXPECT_EQ(valid(10, 3, 4, 1)->size, 2);
  EXPECT_EQ(valid(3, 3, 1, 1)->size, 1);
  EXPECT_EQ(valid(2, 3, 1, 1)->size, 0);
  EXPECT_EQ(valid(2, 5, 1, 4)->size, 0);
  EXPECT_EQ(valid(10, 3, 1, 1)->pad_before, 0);
  EXPECT_EQ(
      valid(1, 5, 1, 1).status().message(),
      "Computed output size would be negative: -3 [input_size: 1, effective_filter_size: 5, stride: 1]");
  EXPECT_EQ(valid(kMax, 1, 1, 1)->size, kMax);
  EXPECT_EQ(valid(kMax, 2, 1, kMax)->size, 1);
  EXPECT_EQ(valid(0, kMax, 1, kMax)->size, 0);
}

TEST(WindowedOutput, SamePadsToTheCeilingOfTheQuotient) {
  const auto same = [](int64_t in, int64_t window, int64_t dilation, int64_t stride) {
    return GetWindowedOutput(in, window, dilation, stride, Padding::kSame);
  };
  EXPECT_EQ(same(28, 5, 1, 1)->size, 28);
  EXPECT_EQ(same(28, 5, 1, 1)->pad_before, 2);
  EXPECT_EQ(same(28, 5, 1, 1)->pad_after, 2);
  EXPECT_EQ(same(7, 2, 1, 2)->size, 4);
  EXPECT_EQ(same(7, 2, 1, 2)->pad_before, 0);
  EXPECT_EQ(same(7, 2, 1, 2)->pad_after, 1);
  EXPECT_EQ(same(5, 3, 2, 1)->pad_before, 2);
  EXPECT_EQ(same(0, 3, 1, 1)->size, 0);
  EXPECT_EQ(same(5, 1, 1, 3)->size, 2);
  EXPECT_EQ(same(5, 1, 1, 3)->pad_after, 0);
  EXPECT_EQ(same(kMax, 1, 1, 2)->size, kMax / 2 + 1);
}

TEST(WindowedOutput, RefusesWhatMakesNoSense) {
  EXPECT_EQ(GetWindowedOutput(5, 3, 1, 0, Padding::kSame).status().message(),
            "Stride must be > 0, but got 0");
  EXPECT_EQ(GetWindowedOutput(5, 3, 0, 1, Padding::kSame).status().message(),
            "Dilation rate must be >= 1, but got 0");
  EXPECT_FALSE(GetWindowedOutput(-1, 3, 1, 1, Padding::kSame).ok());
  EXPECT_FALSE(GetWindowedOutput(5, -3, 1, 1, Padding::kSame).ok());
  EXPECT_FALSE(GetWindowedOutput(5, kMax, 2, 1, Padding::kSame).ok());
  EXPECT_FALSE(GetWindowedOutput(5, 3, 1, 1, Padding::kExplicit).ok());
  EXPECT_EQ(*ParsePadding("VALID"), Padding::kValid);
  EXPECT_EQ(*ParsePadding("SAME"), Padding::kSame);
  EXPECT_EQ(ParsePadding("same").status().message(), "Unknown padding type: same");
}

TEST(BroadcastShapes, FollowsTheRulesOfNumpy) {
  EXPECT_EQ(*BroadcastShapes(TensorShape({2, 1}), TensorShape({3})), TensorShape({2, 3}));
  EXPECT_EQ(*BroadcastShapes(TensorShape(), TensorShape({3})), TensorShape({3}));
  EXPECT_EQ(*BroadcastShapes(TensorShape({1}), TensorShape({0})), TensorShape({0}));
  EXPECT_EQ(BroadcastShapes(TensorShape({2, 3}), TensorShape({4})).status().message(),
            "Incompatible shapes: [2,3] vs. [4]");
  EXPECT_FALSE(BroadcastShapes(TensorShape({int64_t{1} << 40, 1}), TensorShape({int64_t{1} << 40})).ok())
      << "overflow";
}

TEST(IntegerValues, ReadsBothWidths) {
  EXPECT_THAT(*IntegerValues(Tensor::Vector<int32_t>({1, -2})), ElementsAre(1, -2));
  EXPECT_THAT(*IntegerValues(Tensor::Scalar<int64_t>(kMax)), ElementsAre(kMax));
  EXPECT_FALSE(IntegerValues(Tensor::Scalar<float>(1)).ok());
}

TEST(ShapeTesterTest, ComplainsAboutWhatIsNotSo) {
  OpRegistry registry;
  ASSERT_TRUE(registry
                  .Register(OpBuilder("Same").Input("a: T").Output("b: T").Attr("T: type").Shape(
                      shape_fns::Unchanged))
                  .ok());
  ASSERT_TRUE(
      registry
          .Register(OpBuilder("Join")
                        .Input("a: N * T")
                        .Output("b: T")
                        .Attr("T: type")
                        .Attr("N: int >= 1")
                        .Shape([](InferenceContext& c) {
                          c.set_output(0, c.MakeShape({c.Dim(c.input(0), 0), c.MakeDim(7), c.UnknownDim()}));
                          return Status::Ok();
                        }))
          .ok());
  EXPECT_EQ(ShapeTester("Same", registry).Infer("[2,?]"), "in0");
  EXPECT_EQ(ShapeTester("Join", registry).Infer("[2,?];[3];?"), "[d0_0,7,?]");
  EXPECT_EQ(ShapeTester("Join", registry).Check("[2]", "[d0_0,7,?]"), "");
  EXPECT_EQ(ShapeTester("Join", registry).Check("[2]", "[2|3,7,?]"), "");
  for (const char* wrong :
       {"[2]", "?", "in0", "[3,7,?]", "[d0_0,8,?]", "[d0_0,7,1]", "[?,7,?]", "[d0_0,7,d0_0]", "e"}) {
    EXPECT_NE(ShapeTester("Join", registry).Check("[2]", wrong), "") << wrong;
  }
  EXPECT_NE(ShapeTester("Same", registry).Check("[2]", "e;rank"), "");
  EXPECT_THAT(ShapeTester("Absent", registry).Infer("[2]"), HasSubstr("e;Op type not registered"));
  EXPECT_THAT(ShapeTester("Same", registry).Infer("[2];[3]"),
              HasSubstr("the test gives 2 inputs, the op has 1"));
}

}  // namespace
}  // namespace millrace
