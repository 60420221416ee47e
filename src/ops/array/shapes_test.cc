// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/array/shapes.h"

#include "ops/shape_checks.h"

namespace millrace {
namespace {

TEST(ArrayShapes, Const) {
  const auto constant = [](Tensor value) {
    const DataType dtype = value.dtype();
    return Op("Const").Attr("value", std::move(value)).Attr("dtype", dtype);
  };
  Expect(constant(Tensor::Scalar<float>(1)), "", "[]");
  Expect(constant(Tensor(DataType::kInt32, TensorShape({2, 0, 3}))), "", "[2,0,3]");
  Expect(constant(Tensor::Scalar<float>(1)).Attr("dtype", DataType::kInt32), "", "e;Type mismatch");
}

TEST(ArrayShapes, Placeholders) {
  Expect(Op("Placeholder"), "", "?");
  Expect(Op("Placeholder").Attr("shape", PartialShape({2, -1})), "", "[2,?]");
  Expect(Op("Placeholder").Attr("shape", PartialShape(std::vector<int64_t>{})), "", "[]");
  Expect(Op("PlaceholderV2").Attr("shape", PartialShape({2, -1})), "", "[2,?]");
  Expect(Op("PlaceholderV2").Attr("shape", PartialShape()), "", "?");
  Expect(Op("PlaceholderWithDefault").Attr("shape", PartialShape({-1, 3})), "[2,3]", "[?,3]");
  Expect(Op("PlaceholderWithDefault").Attr("shape", PartialShape({-1, 4})), "[2,3]", "e;must be equal");
}

TEST(ArrayShapes, Fill) {
  Expect(Op("Fill"), "?;[]", "?");
  Expect(Op("Fill"), "[3];[]", "[?,?,?]");
  Expect(Op("Fill").Const(0, {2, 3}), "[2];[]", "[2,3]");
  Expect(Op("Fill").AsShape(0, "[2,?]"), "[2];[]", "[2,?]");
  Expect(Op("Fill").Const(0, {2, -5}), "[2];[]", "e;Fill dimensions must be >= 0");
  Expect(Op("Fill").Const(0, {-1}), "[1];[]", "e;Fill dimensions must be >= 0");
  Expect(Op("Fill"), "[1,2];[]", "e;Shape must be rank 1 but is rank 2");
  Expect(Op("Fill"), "[2];[1]", "e;Shape must be rank 0 but is rank 1");
  Expect(Op("Fill"), "[1000000000000];[]", "e;rank");
}

TEST(ArrayShapes, LikesKeepTheShape) {
  for (const char* op : {"ZerosLike", "OnesLike", "CheckNumerics"}) {
    Expect(Op(op).Attr("message", "m"), "[2,?]",
           op == std::string("CheckNumerics") ? "in0" : "e;mentions attr");
  }
  ExpectUnchanged("ZerosLike");
  ExpectUnchanged("OnesLike");
}

TEST(ArrayShapes, IdentitiesKeepShapeAndHandle) {
  for (const char* op : {"Identity", "StopGradient", "PreventGradient"}) {
    ExpectUnchanged(op);
    ShapeTester tester = Op(op).Attr("T", DataType::kResource).Handle(0, "[2,?]", DataType::kFloat);
    EXPECT_EQ(tester.Infer("[]"), "in0");
    EXPECT_EQ(tester.HandleOf(0), "[2,?]:float");
  }
  Expect(Op("IdentityN"), "[2];?;[3,?]", "in0;in1;in2");
}

TEST(ArrayShapes, Bitcast) {
  const auto cast = [](DataType from, DataType to) { return Op("Bitcast").Attr("T", from).Attr("type", to); };
  Expect(cast(DataType::kFloat, DataType::kInt32), "[2,?]", "in0");
  Expect(cast(DataType::kFloat, DataType::kInt8), "[2,?]", "[d0_0,d0_1,4]");
  Expect(cast(DataType::kInt8, DataType::kFloat), "[2,4]", "[d0_0]");
  Expect(cast(DataType::kInt8, DataType::kFloat), "[2,?]", "[d0_0]");
  Expect(cast(DataType::kInt8, DataType::kFloat), "?", "?");
  Expect(cast(DataType::kInt8, DataType::kFloat), "[2,3]",
         "e;Cannot bitcast due to shape. 3 does not match 4");
  Expect(cast(DataType::kInt8, DataType::kFloat), "[]", "e;at least rank 1");
}

TEST(ArrayShapes, ReadersOfShapes) {
  Expect(Op("Shape"), "?", "[?]");
  Expect(Op("Shape"), "[?,2,3]", "[3]");
  Expect(Op("Shape"), "[]", "[0]");
  Expect(Op("ShapeN"), "[?,2];?;[]", "[2];[?];[0]");
  Expect(Op("Size"), "[2,?]", "[]");
  Expect(Op("Rank"), "?", "[]");
}

TEST(ArrayShapes, OneHot) {
  Expect(Op("OneHot"), "?;[];[];[]", "?");
  Expect(Op("OneHot"), "[2,?];[];[];[]", "[d0_0,d0_1,?]");
  Expect(Op("OneHot").ConstScalar(1, 10), "[2,?];[];[];[]", "[d0_0,d0_1,10]");
  Expect(Op("OneHot").ConstScalar(1, 10).Attr("axis", 0), "[2,?];[];[];[]", "[10,d0_0,d0_1]");
  Expect(Op("OneHot").ConstScalar(1, 10).Attr("axis", 2), "[2,?];[];[];[]", "[d0_0,d0_1,10]");
  Expect(Op("OneHot").Attr("axis", -2), "[2];[];[];[]", "e;axis must be >= -1");
  Expect(Op("OneHot").Attr("axis", 3), "[2,?];[];[];[]", "[?,d0_0,d0_1]");  // the kernel refuses it
  Expect(Op("OneHot").ConstScalar(1, -1), "[2];[];[];[]", "e;must be non-negative but is -1");
  Expect(Op("OneHot").Const(1, {3}), "[2];[1];[];[]", "e;Input must be scalar but has rank 1");
}

TEST(ArrayShapes, WhereAndBroadcastArgs) {
  Expect(Op("Where"), "?", "[?,?]");
  Expect(Op("Where"), "[2,?,4]", "[?,3]");
  Expect(Op("BroadcastArgs"), "[2];[3]", "[d1_0]");
  Expect(Op("BroadcastArgs"), "[3];[2]", "[d0_0]");
  Expect(Op("BroadcastArgs"), "[?];[2]", "[?]");
  Expect(Op("BroadcastArgs"), "[2,2];[2]", "e;Shape must be rank 1 but is rank 2");
  Expect(Op("BroadcastGradientArgs"), "[3];[?]", "[?];[?]");
  Expect(Op("BroadcastGradientArgs"), "[3];[]", "e;Shape must be rank 1 but is rank 0");
}

TEST(ArrayShapes, BroadcastTo) {
  Expect(Op("BroadcastTo"), "[2];?", "?");
  Expect(Op("BroadcastTo"), "[2];[2]", "[?,?]");
  Expect(Op("BroadcastTo").Const(1, {5, 2}), "[2];[2]", "[5,2]");
  Expect(Op("BroadcastTo").Const(1, {5, 2}), "[?,1];[2]", "[5,2]");
  Expect(Op("BroadcastTo").Const(1, {5, 2}), "[3];[2]", "e;Dimensions must be equal, but are 3 and 2");
  Expect(Op("BroadcastTo").Const(1, {2}), "[1,2];[1]", "e;Shape must be at most rank 1 but is rank 2");
}

TEST(ArrayShapes, Reshape) {
  Expect(Op("Reshape"), "?;?", "?");
  Expect(Op("Reshape"), "[2,3];[1]", "[6]");
  Expect(Op("Reshape"), "[2,3];[2]", "[?,?]");
  Expect(Op("Reshape").Const(1, {3, 2}), "[2,3];[2]", "[3,2]");
  Expect(Op("Reshape").Const(1, {-1, 2}), "[2,3];[2]", "[3,2]");
  Expect(Op("Reshape").Const(1, {-1, 784}), "[?,784];[2]", "[d0_0,784]");
  Expect(Op("Reshape").Const(1, {-1, 28, 28, 1}), "[?,784];[4]", "[d0_0,28,28,1]");
  Expect(Op("Reshape").Const(1, {-1, 28, 28}), "[?,783];[3]", "[?,28,28]");
  Expect(Op("Reshape").Const(1, std::vector<int>{}), "[1,1];[0]", "[]");
  Expect(Op("Reshape").Const(1, {-1}), "?;[1]", "[?]");
  Expect(Op("Reshape").Const(1, {0, -1}), "[0,3];[2]", "[0,?]");
  Expect(Op("Reshape").AsShape(1, "[?,6]"), "[2,3];[2]", "[1,6]");
  Expect(Op("Reshape").Const(1, {4}), "[2,3];[1]",
         "e;Cannot reshape a tensor with 6 elements to shape [4] (4 elements)");
  Expect(Op("Reshape").Const(1, {-1, 4}), "[2,3];[2]",
         "e;Dimension size must be evenly divisible by 4 but is 6");
  Expect(Op("Reshape").Const(1, {0, -1}), "[2,3];[2]", "e;Cannot reshape a tensor with 6 elements");
  Expect(Op("Reshape").Const(1, {-2}), "[2,3];[1]", "e;Invalid value in tensor used for shape: -2");
  Expect(Op("Reshape").Const(1, {1 << 30, 1 << 30, 1 << 30}), "[2,3];[3]", "e;overflow when multiplying");
}

TEST(ArrayShapes, ExpandDims) {
  Expect(Op("ExpandDims"), "?;[]", "?");
  Expect(Op("ExpandDims"), "[2,3];[]", "?");
  Expect(Op("ExpandDims").ConstScalar(1, 0), "[2,?];[]", "[1,d0_0,d0_1]");
  Expect(Op("ExpandDims").ConstScalar(1, 1), "[2,?];[]", "[d0_0,1,d0_1]");
  Expect(Op("ExpandDims").ConstScalar(1, -1), "[2,?];[]", "[d0_0,d0_1,1]");
  Expect(Op("ExpandDims").ConstScalar(1, -3), "[2,?];[]", "[1,d0_0,d0_1]");
  Expect(Op("ExpandDims").Const(1, {0}), "[];[1]", "[1]");
  Expect(Op("ExpandDims").ConstScalar(1, 3), "[2,?];[]", "e;dim 3 not in the interval [-3, 2].");
  Expect(Op("ExpandDims").ConstScalar(1, -4), "[2,?];[]", "e;dim -4 not in the interval [-3, 2].");
  Expect(Op("ExpandDims").Const(1, {0, 1}), "[2];[2]", "e;single value");
}

TEST(ArrayShapes, Squeeze) {
  Expect(Op("Squeeze"), "?", "?");
  Expect(Op("Squeeze"), "[1,4,1,5,1]", "[d0_1,d0_3]");
  Expect(Op("Squeeze"), "[1,?,4]", "?");
  Expect(Op("Squeeze").Attr("squeeze_dims", std::vector<int64_t>{0, -1}), "[1,4,1]", "[d0_1]");
  Expect(Op("Squeeze").Attr("squeeze_dims", std::vector<int64_t>{1}), "[2,?]", "[d0_0]");
  Expect(Op("Squeeze").Attr("squeeze_dims", std::vector<int64_t>{0}), "[2,1]",
         "e;Can not squeeze dim[0], expected a dimension of 1, got 2");
  Expect(Op("Squeeze").Attr("squeeze_dims", std::vector<int64_t>{-3}), "[1,1]",
         "e;squeeze_dims[0] not in [-2,2).");
}

TEST(ArrayShapes, Transpose) {
  Expect(Op("Transpose"), "?;?", "?");
  Expect(Op("Transpose"), "?;[2]", "[?,?]");
  Expect(Op("Transpose"), "[2,3];[2]", "[?,?]");
  Expect(Op("Transpose"), "[2];[?]", "in0");
  Expect(Op("Transpose").Const(1, {2, 0, 1}), "[2,3,?];[3]", "[d0_2,d0_0,d0_1]");
  Expect(Op("Transpose").Const(1, {-1, -2}), "[2,3];[2]", "[d0_1,d0_0]");
  Expect(Op("Transpose").Const(1, {0, 3}), "[2,3];[2]", "e;perm dim 3 is out of range of input rank 2");
  Expect(Op("Transpose"), "[2,3];[3]", "e;Dimension must be 2 but is 3");
  Expect(Op("Transpose"), "?;[1]", "in0");
  Expect(Op("Transpose").Const(1, {0, 1, 2}), "[2,3];[?]", "e;Dimension must be 2 but is 3");
  Expect(Op("InvertPermutation"), "[?]", "in0");
  Expect(Op("InvertPermutation"), "?", "[?]");
  Expect(Op("InvertPermutation"), "[2,2]", "e;Shape must be rank 1 but is rank 2");
}

TEST(ArrayShapes, Concat) {
  Expect(Op("Concat"), "[];[2,3];[2,4]", "[?,?]");
  Expect(Op("Concat"), "[];?;?", "?");
  Expect(Op("Concat").ConstScalar(0, 1), "[];[2,3];[2,4]", "[d1_0|d2_0,7]");
  Expect(Op("Concat").ConstScalar(0, 0), "[];[2,?];[?,4]", "[?,d2_1]");
  Expect(Op("Concat").ConstScalar(0, -1), "[];[2,3];[2,4]", "[d1_0|d2_0,7]");
  Expect(Op("Concat").ConstScalar(0, -2), "[];[2,?];[3,4]", "[5,d2_1]");
  Expect(Op("Concat").ConstScalar(0, 1), "[];[2,3];?", "[d1_0,?]");
  Expect(Op("Concat").ConstScalar(0, 0), "[];[2,3];[2,4]", "e;must be equal, but are 3 and 4");
  Expect(Op("Concat").ConstScalar(0, 2), "[];[2,3];[2,4]", "e;Shape must be at least rank 3 but is rank 2");
  Expect(Op("Concat").ConstScalar(0, -3), "[];[2,3];[2,4]", "e;Shape must be at least rank 3 but is rank 2");
  Expect(Op("Concat"), "[];[];[]", "e;Can't concatenate scalars");
  Expect(Op("Concat"), "[1];[2];[2]", "e;Shape must be rank 0 but is rank 1");
  Expect(Op("Concat"), "[];[2,3];[2]", "e;Shape must be rank 2 but is rank 1");
  Expect(Op("Concat").ConstScalar(0, -2147483647 - 1), "[];[2];[2]", "e;Concat dimension");
  Expect(Op("ConcatV2").ConstScalar(2, 1), "[2,3];[2,4];[]", "[d0_0|d1_0,7]");
  Expect(Op("ConcatV2").ConstScalar(3, 0), "[0];[3];[?];[]", "[?]");
  Expect(Op("ConcatOffset"), "[];[3];[3]", "in1;in2");
  Expect(Op("ConcatOffset"), "[];?;[3]", "in1;in2");
}

TEST(ArrayShapes, Pack) {
  Expect(Op("Pack"), "?;?", "?");
  Expect(Op("Pack"), "[];[];[]", "[3]");
  Expect(Op("Pack"), "[2,?];[?,3]", "[2,d0_0,d1_1]");
  Expect(Op("Pack").Attr("axis", -1), "[2,?];[?,3]", "[d0_0,d1_1,2]");
  Expect(Op("Pack").Attr("axis", 1), "[2];[2]", "[d0_0|d1_0,2]");
  Expect(Op("Pack").Attr("axis", 2), "[2];[2]", "e;Invalid axis: 2; must be in [-2,2)");
  Expect(Op("Pack"), "[2];[3]", "e;From merging shape 0 with other shapes.");
}

TEST(ArrayShapes, Unpack) {
  const auto unpack = [](int num, int axis) { return Op("Unpack").Attr("num", num).Attr("axis", axis); };
  Expect(unpack(2, 0), "[2,?,4]", "[d0_1,d0_2];[d0_1,d0_2]");
  Expect(unpack(2, -1), "[3,?]", "[d0_0];[d0_0]");
  Expect(unpack(0, 0), "[0,3]", "");
  Expect(unpack(2, 0), "?", "?;?");
  Expect(unpack(3, 0), "[2,4]", "e;Dimension must be 3 but is 2");
  Expect(unpack(2, 2), "[2,4]", "e;Invalid axis: 2; must be in [-2,2)");
  Expect(unpack(2, 0), "[]", "e;Invalid axis: 0; must be in [0,0)");
}

TEST(ArrayShapes, Tile) {
  Expect(Op("Tile"), "?;?", "?");
  Expect(Op("Tile"), "[2,3];?", "[?,?]");
  Expect(Op("Tile"), "?;[2]", "[?,?]");
  Expect(Op("Tile").Const(1, {2, 0}), "[3,?];[2]", "[6,0]");
  Expect(Op("Tile").Const(1, {1, 1}), "[3,?];[2]", "[d0_0,d0_1]");
  Expect(Op("Tile").Const(1, {2}), "[3,?];[1]", "e;Shape must be rank 2 but is rank 1");
  Expect(Op("Tile").Const(1, {1 << 30, 1}), "[9000000000000000000,1];[2]", "e;overflow when multiplying");
}

Tensor Paddings(const std::vector<int32_t>& amounts) {
  return Tensor::From<int32_t>(amounts, TensorShape({static_cast<int64_t>(amounts.size() / 2), 2}));
}

TEST(ArrayShapes, TileGrad) {
  Expect(Op("TileGrad"), "?;?", "?");
  Expect(Op("TileGrad"), "[2,3];[?]", "[?,?]");
  Expect(Op("TileGrad"), "?;[2]", "[?,?]");
  Expect(Op("TileGrad"), "[2];[2]", "e;Shape must be rank 2 but is rank 1");
  Expect(Op("TileGrad"), "[2];[]", "e;Shape must be rank 1 but is rank 0");
}

TEST(ArrayShapes, Pad) {
  Expect(Op("Pad"), "?;?", "?");
  Expect(Op("Pad"), "?;[2,2]", "[?,?]");
  Expect(Op("Pad"), "[2,3];[2,2]", "[?,?]");
  Expect(Op("Pad").Const(1, Paddings({1, 2, 0, 0})), "[2,?];[2,2]", "[5,d0_1]");
  Expect(Op("Pad").Const(1, Paddings({})), "[];[0,2]", "[]");
  Expect(Op("Pad").Const(1, Paddings({-1, 2})), "[2];[1,2]", "e;Paddings must be non-negative");
  Expect(Op("Pad"), "[2,3];[2,3]", "e;Dimension must be 2 but is 3");
  Expect(Op("Pad"), "[2,3];[3,2]", "e;Shape must be rank 3 but is rank 2");
  Expect(Op("Pad"), "[2,3];[4]", "e;Shape must be rank 2 but is rank 1");
  Expect(Op("PadV2").Const(1, Paddings({1, 2})), "[2];[1,2];[]", "[5]");
  Expect(Op("PadV2"), "[2];[1,2];[1]", "[?]");
}

TEST(ArrayShapes, Reverse) {
  Expect(Op("Reverse"), "?;[2]", "[?,?]");
  Expect(Op("Reverse"), "[2,3];[2]", "in0");
  Expect(Op("Reverse"), "[2,3];[3]", "e;Shape must be rank 3 but is rank 2");
  Expect(Op("Reverse"), "[1,1,1,1,1,1,1,1,1];[9]", "e;more than 8 dimensions");
  Expect(Op("ReverseV2"), "[2,3];[1]", "in0");
  Expect(Op("ReverseV2").Const(1, {-1, 0}), "[2,3];[2]", "in0");
  Expect(Op("ReverseV2").Const(1, {2}), "[2,3];[1]", "e;out of valid range");
  Expect(Op("ReverseV2").Const(1, {1, -1}), "[2,3];[2]", "e;axis 1 specified more than once.");
}

TEST(ArrayShapes, Split) {
  const auto split = [](int n) { return Op("Split").Attr("num_split", n); };
  Expect(split(2), "[];?", "?;?");
  Expect(split(2), "[];[4,6]", "[?,?];[?,?]");
  Expect(split(2).ConstScalar(0, 1), "[];[4,6]", "[d1_0,3];[d1_0,3]");
  Expect(split(2).ConstScalar(0, -2), "[];[4,?]", "[2,d1_1];[2,d1_1]");
  Expect(split(4).ConstScalar(0, 1), "[];[4,6]", "e;Dimension size must be evenly divisible by 4 but is 6");
  Expect(split(2).ConstScalar(0, 2), "[];[4,6]", "e;must be in range [-2, 2)");
  Expect(split(0), "[];[4,6]", "e;Value for attr 'num_split' of 0 must be at least minimum 1");
}

TEST(ArrayShapes, SplitV) {
  const auto split = [](const std::vector<int>& sizes) {
    return Op("SplitV")
        .Attr("num_split", static_cast<int>(sizes.size()))
        .Attr("Tlen", DataType::kInt32)
        .Const(1, sizes)
        .ConstScalar(2, 1);
  };
  Expect(Op("SplitV").Attr("num_split", 2), "[4,6];[2];[]", "[?,?];[?,?]");
  Expect(Op("SplitV").Attr("num_split", 2).ConstScalar(2, 1), "[4,6];[2];[]", "[d0_0,?];[d0_0,?]");
  Expect(split({1, 5}), "[4,6];[2];[]", "[d0_0,1];[d0_0,5]");
  Expect(split({1, -1}), "[4,6];[2];[]", "[d0_0,1];[d0_0,5]");
  Expect(split({1, -1}), "[4,?];[2];[]", "[d0_0,1];[d0_0,?]");
  Expect(split({1, 4}), "[4,6];[2];[]", "e;can't split axis of size 6 into pieces of size [1,4]");
  Expect(split({4, 4}), "[4,6];[2];[]", "e;can't split axis of size 6 into pieces of size [4,4]");
  Expect(split({-1, -1}), "[4,6];[2];[]", "e;size_splits can only have one -1");
  Expect(split({-2, 8}), "[4,6];[2];[]", "[d0_0,?];[d0_0,8]");  // the kernel refuses it
}

TEST(ArrayShapes, Slice) {
  Expect(Op("Slice"), "?;?;?", "?");
  Expect(Op("Slice"), "[2,3];[2];[2]", "[?,?]");
  Expect(Op("Slice"), "?;[2];[2]", "[?,?]");
  Expect(Op("Slice").Const(2, {1, 2}), "[2,3];[2];[2]", "[1,2]");
  Expect(Op("Slice").Const(1, {1, 0}).Const(2, {-1, 2}), "[4,3];[2];[2]", "[3,2]");
  Expect(Op("Slice").Const(1, {0, 0}).Const(2, {-1, 2}), "[?,3];[2];[2]", "[d0_0,2]");
  Expect(Op("Slice").Const(1, {0, 0}).AsShape(2, "[?,2]"), "[4,3];[2];[2]", "[?,2]");
  Expect(Op("Slice").Const(1, {5, 0}).Const(2, {-1, 2}), "[4,3];[2];[2]", "e;caused by subtracting 5 from 4");
  // Bounds are checked by the kernel.
  Expect(Op("Slice").Const(1, {1, 0}).Const(2, {4, 2}), "[4,3];[2];[2]", "[4,2]");
  Expect(Op("Slice").Const(1, {-1, 0}).Const(2, {1, 2}), "[4,3];[2];[2]", "[1,2]");
  Expect(Op("Slice"), "[2,3];[2];[3]",
         "e;Dimension 0 in both shapes must be equal, but are 2 and 3. Shapes are [2] and [3].");
  Expect(Op("Slice"), "[2];[2];[2]", "e;Shape must be rank 2 but is rank 1");
}

ShapeTester Strided(const std::vector<int>& begin, const std::vector<int>& end,
                    const std::vector<int>& strides) {
  return Op("StridedSlice").Const(1, begin).Const(2, end).Const(3, strides);
}

TEST(ArrayShapes, StridedSlice) {
  Expect(Op("StridedSlice"), "[4,5];[2];[2];[2]", "?");
  Expect(Op("StridedSlice").Const(3, {1, 1}), "[4,5];[2];[2];[2]", "[?,?]");
  Expect(Strided({1}, {3}, {1}), "?;[1];[1];[1]", "?");
  Expect(Strided({1, 0}, {3, 5}, {1, 2}), "[4,5];[2];[2];[2]", "[2,3]");
  Expect(Strided({-1}, {-5}, {-2}), "[4,5];[1];[1];[1]", "[2,5]");
  Expect(Strided({1}, {3}, {1}).Attr("shrink_axis_mask", 1), "[4,?];[1];[1];[1]", "[?]");
  Expect(Strided({0, 0}, {0, 0}, {1, 1}).Attr("new_axis_mask", 1).Attr("shrink_axis_mask", 2),
         "[4,5];[2];[2];[2]", "[1,5]");
  Expect(Strided({0}, {0}, {1}).Attr("begin_mask", 1).Attr("end_mask", 1), "[4,5];[1];[1];[1]", "in0");
  Expect(Strided({4}, {5}, {1}).Attr("shrink_axis_mask", 1), "[4,5];[1];[1];[1]",
         "e;slice index 4 of dimension 0 out of bounds.");
  Expect(Strided({0}, {1}, {0}), "[4];[1];[1];[1]", "e;strides[0] must be non-zero");
  Expect(Op("StridedSlice"), "[4,5];[2];[3];[2]", "e;Dimension 0 in both shapes must be equal");
  Expect(Op("StridedSlice"), "[4,5];[2,2];[2];[2]", "e;Shape must be rank 1 but is rank 2");
  Expect(Op("StridedSliceGrad").Const(0, {4, 5}), "[2];[1];[1];[1];[2,5]", "[4,5]");
  Expect(Op("StridedSliceGrad"), "[2];[1];[1];[1];?", "[?,?]");
}

TEST(ArrayShapes, Gathers) {
  Expect(Op("Gather"), "[5,?,3];[2,2]", "[d1_0,d1_1,d0_1,d0_2]");
  Expect(Op("Gather"), "[5];[]", "[]");
  Expect(Op("Gather"), "?;[2]", "?");
  Expect(Op("Gather"), "[];[2]", "e;Shape must be at least rank 1 but is rank 0");
  for (const int64_t axis : {INT64_MIN, INT64_MAX}) {
    Expect(Op("GatherV2").Attr("Taxis", DataType::kInt64).Const(2, Tensor::Scalar(axis)), "[2];[3];[]",
           "e;Shape must be at least rank 9223372036854775807 but is rank 1");
  }
  Expect(Op("GatherV2"), "[5,3];[2];[]", "[?,?]");
  Expect(Op("GatherV2").ConstScalar(2, 1), "[5,3,7];[2,?];[]", "[d0_0,d1_0,d1_1,d0_2]");
  Expect(Op("GatherV2").ConstScalar(2, -1), "[5,3];[];[]", "[d0_0]");
  Expect(Op("GatherV2").ConstScalar(2, 2), "[5,3];[];[]", "e;Shape must be at least rank 3 but is rank 2");
  Expect(Op("GatherV2").Attr("batch_dims", 1), "[5,3,7];[5,2];[]", "[?,?,?]");
  const auto batched = [](int64_t batch_dims, int axis) {
    return Op("GatherV2").Attr("batch_dims", batch_dims).ConstScalar(2, axis);
  };
  Expect(batched(1, 1), "[5,3,7];[5,2];[]", "[d0_0,d1_1,d0_2]");
  Expect(batched(1, 2), "[5,3,7];[5,2];[]", "[d0_0,d0_1,d1_1]");
  Expect(batched(-1, -1), "[5,3,7];[5,2];[]", "[d0_0,d0_1,d1_1]");
  Expect(batched(1, 1), "[5,3,7];?;[]", "?");
  Expect(batched(1, 0), "[5,3,7];[5,2];[]", "[?,?,?]");
  Expect(Op("GatherV2").Attr("batch_dims", 2), "[5,3,7];[5];[]", "?");  // the kernel refuses it
  Expect(Op("GatherNd"), "?;[2,2]", "?");
  Expect(Op("GatherNd"), "[5,6,7];[4,2]", "[d1_0,d0_2]");
  Expect(Op("GatherNd"), "[5,6];[4,2]", "[d1_0]");
  Expect(Op("GatherNd"), "[5,6];[4,0]", "[d1_0,d0_0,d0_1]");
  Expect(Op("GatherNd"), "[5,6];[4,?]", "?");
  Expect(Op("GatherNd"), "[5,6];[4,3]",
         "e;indices.shape[-1] must be <= params.rank, but saw indices shape: [4,3] and params shape: [5,6]");
  Expect(Op("GatherNd"), "[5];[]", "e;at least rank 1");
}

TEST(ArrayShapes, ScatterNd) {
  const auto scatter = [](const std::vector<int>& shape) {
    return Op("ScatterNd").Attr("Tindices", DataType::kInt32).Const(2, shape);
  };
  Expect(Op("ScatterNd"), "[4,1];[4,?];[2]", "[?,?]");
  Expect(scatter({8}), "[4,1];[4];[1]", "[8]");
  Expect(scatter({8, 3}), "[4,1];[4,3];[2]", "[8,3]");
  Expect(scatter({8, 3}), "[4,?];[4,3];[2]", "[8,3]");
  Expect(scatter({8, 3}), "[4,1];[4,2];[2]",
         "e;The inner 1 dimensions of output.shape=[8,3] must match the inner 1 dimensions of "
         "updates.shape=[4,2]: Dimension 0 in both shapes must be equal, but are 3 and 2.");
  Expect(scatter({8}), "[4,1];[5];[1]",
         "e;The outer 1 dimensions of indices.shape=[4,1] must match the outer 1 dimensions of "
         "updates.shape=[5]: Dimension 0 in both shapes must be equal, but are 4 and 5.");
}

TEST(ArrayShapes, RowsAndElements) {
  Expect(Op("ReverseSequence").Attr("seq_dim", 1), "[?,3];[2]", "[d1_0,d0_1]");
  Expect(Op("ReverseSequence").Attr("seq_dim", 2), "[2,3];[2]", "e;seq_dim must be < input rank: 2 vs. 2");
  Expect(Op("Roll"), "[2,3];[2];[2]", "in0");
  Expect(Op("Roll"), "[];[];[]", "e;Shape must be at least rank 1 but is rank 0");
  Expect(Op("UnravelIndex"), "[5];[3]", "[d1_0,d0_0]");
  Expect(Op("UnravelIndex"), "[];[3]", "[d1_0]");
  Expect(Op("TensorScatterAdd"), "[5,?];[2,1];[2,3]", "in0");
  const auto parallel = Op("ParallelConcat").Attr("N", 2).Attr("shape", PartialShape({2, 3}));
  Expect(parallel, "[1,3];[?,3]", "[2,3]");
  Expect(parallel, "[2,3];[1,3]", "e;Size of first dimension must be 1.");
  Expect(parallel, "[1,4];[1,3]", "e;must be equal, but are 4 and 3");
  Expect(Op("LowerBound"), "[2,9];[2,3]", "in1");
  Expect(Op("LowerBound"), "[2,9];[3,3]", "e;must be equal, but are 2 and 3");
  Expect(Op("Fingerprint"), "[?,3];[]", "[d0_0,8]");
  Expect(Op("Timestamp"), "", "[]");
}

TEST(ArrayShapes, BlocksAndMargins) {
  Expect(Op("MirrorPad").Attr("mode", "REFLECT"), "[2,3];[2,2]", "[?,?]");
  Expect(Op("SpaceToBatchND").Const(1, std::vector<int>{2, 2}), "[1,4,6,3];[2];[2,2]", "[4,?,?,d0_3]");
  Expect(Op("SpaceToDepth").Attr("block_size", 2), "[1,4,6,3]", "[d0_0,2,3,12]");
  Expect(Op("DepthToSpace").Attr("block_size", 2), "[1,4,6,12]", "[d0_0,8,12,3]");
}

}  // namespace
}  // namespace millrace
