// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/math/shapes.h"

#include <limits>

#include "ops/shape_checks.h"

namespace millrace {
namespace {

TEST(MathShapes, UnaryOpsKeepTheShape) {
  for (const char* op :
       {"Abs",   "Acos",       "Acosh", "Angle", "Asin",       "Asinh",   "Atan",  "Atanh",  "Cast",
        "Ceil",  "ComplexAbs", "Conj",  "Cos",   "Cosh",       "Digamma", "Erf",   "Erfc",   "Exp",
        "Expm1", "Floor",      "Imag",  "Inv",   "IsFinite",   "IsInf",   "IsNan", "Lgamma", "Log",
        "Log1p", "LogicalNot", "Neg",   "Real",  "Reciprocal", "Rint",    "Round", "Rsqrt",  "Sigmoid",
        "Sign",  "Sin",        "Sinh",  "Sqrt",  "Square",     "Tan",     "Tanh"}) {
    ExpectUnchanged(op);
  }
}

TEST(MathShapes, BinaryOpsBroadcast) {
  for (const char* op : {"Add",        "AddV2",     "Atan2",   "Complex",           "Div",  "Equal",
                         "FloorDiv",   "FloorMod",  "Greater", "GreaterEqual",      "Less", "LessEqual",
                         "LogicalAnd", "LogicalOr", "Maximum", "Minimum",           "Mod",  "Mul",
                         "NotEqual",   "Pow",       "RealDiv", "SquaredDifference", "Sub",  "TruncateDiv",
                         "TruncateMod"}) {
    Expect(Op(op), "?;[2]", "?");
    Expect(Op(op), "[2];?", "?");
    Expect(Op(op), "[];[]", "[]");
    Expect(Op(op), "[2,3];[]", "[d0_0,d0_1]");
    Expect(Op(op), "[];[2,3]", "[d1_0,d1_1]");
    Expect(Op(op), "[2,1];[1,3]", "[d0_0,d1_1]");
    Expect(Op(op), "[4,1,3];[2,1]", "[d0_0,d1_0,d0_2]");
    Expect(Op(op), "[0];[1]", "[d0_0]");
    Expect(Op(op), "[2,3];[2,3]", "[d0_0|d1_0,d0_1|d1_1]");
    // An unknown size next to a size above 1 can only be that or 1; next to 1 it decides; next to unknown:
    // unknown.
    Expect(Op(op), "[?];[3]", "[d1_0]");
    Expect(Op(op), "[3];[?]", "[d0_0]");
    Expect(Op(op), "[?];[1]", "[d0_0]");
    Expect(Op(op), "[1];[?]", "[d1_0]");
    Expect(Op(op), "[?];[?]", "[?]");
    Expect(Op(op), "[2];[3]", "e;Dimensions must be equal, but are 2 and 3");
    Expect(Op(op), "[5,2];[5,0]", "e;Dimensions must be equal, but are 2 and 0");
  }
}

TEST(MathShapes, GradientsOfUnaryOpsMerge) {
  // TensorFlow does not check the second input here; the kernels do.
  for (const char* op : {"InvGrad", "ReciprocalGrad", "RsqrtGrad", "SigmoidGrad", "SqrtGrad", "TanhGrad"}) {
    Expect(Op(op), "?;[2]", "in0");
    Expect(Op(op), "[2,?];[?,3]", "in0");
    Expect(Op(op), "[2];[3]", "in0");
  }
  Expect(Op("ApproximateEqual"), "[2,?];[?,3]", "in0");
  Expect(Op("ApproximateEqual"), "[2];[3]",
         "e;Dimension 0 in both shapes must be equal, but are 2 and 3. Shapes are [2] and [3].");
}

TEST(MathShapes, AddN) {
  Expect(Op("AddN"), "[2,?]", "in0");
  Expect(Op("AddN"), "[2,?];[?,3];?", "[d0_0,d1_1]");
  Expect(Op("AddN"), "?;?", "in0|in1");
  Expect(Op("AddN"), "[2];[2];[3]", "e;From merging shape 1 with other shapes.");
}

TEST(MathShapes, Bincount) {
  Expect(Op("Bincount"), "?;[];?", "[?]");
  Expect(Op("Bincount").ConstScalar(1, 5), "[2,3];[];[0]", "[5]");
  Expect(Op("Bincount").ConstScalar(1, -5), "[2];[];[0]", "e;must be non-negative");
  Expect(Op("Bincount"), "[2];[1];[0]", "e;Shape must be rank 0");
}

TEST(MathShapes, Select) {
  Expect(Op("Select"), "?;?;[2,3]", "in2");
  Expect(Op("Select"), "[];[2,?];[?,3]", "[d1_0,d2_1]");
  Expect(Op("Select"), "[2];[?,3];[?,3]", "[d0_0,d1_1]");
  Expect(Op("Select"), "[2,?];[?,3];?", "[d0_0,d1_1]");
  Expect(Op("Select"), "[2,3];[2];[2]", "e;Shapes must be equal rank");
  Expect(Op("Select"), "[3];[2,5];[2,5]",
         "e;Dimension 0 in both shapes must be equal, but are 3 and 2. Shapes are [3] and [2].");
  Expect(Op("Select"), "[1];[];[]", "e;Shapes must be equal rank, but are 0 and 1");
  Expect(Op("Select"), "[];[2];[3]", "e;Dimension 0 in both shapes");
}

TEST(MathShapes, ASizeNextToZeroIsNotKnown) {
  Expect(Op("Add"), "[?];[0]", "[?]");
  Expect(Op("Add"), "[?];[3]", "[3]");
  Expect(Op("ApproximateEqual"), "?;[5]", "in0");
  Expect(Op("SigmoidGrad"), "?;[5]", "in0");
}

TEST(MathShapes, MatMul) {
  Expect(Op("MatMul"), "[2,?];[?,3]", "[d0_0,d1_1]");
  Expect(Op("MatMul"), "?;?", "[?,?]");
  Expect(Op("MatMul"), "[2,3];[4,5]", "e;Dimensions must be equal, but are 3 and 4");
  Expect(Op("MatMul"), "[2];[4,5]", "e;Shape must be rank 2 but is rank 1");
  Expect(Op("MatMul").Attr("transpose_a", true), "[3,2];[3,5]", "[d0_1,d1_1]");
  Expect(Op("MatMul").Attr("transpose_b", true), "[2,3];[5,3]", "[d0_0,d1_0]");
  Expect(Op("MatMul").Attr("transpose_a", true).Attr("transpose_b", true), "[3,2];[5,3]", "[d0_1,d1_0]");
  EXPECT_EQ(Op("MatMul").Attr("T", DataType::kFloat).Infer("[2,?];[?,3]"), "[d0_0,d1_1]");
}

TEST(MathShapes, BatchMatMul) {
  Expect(Op("BatchMatMul"), "?;?", "?");
  Expect(Op("BatchMatMul"), "[2,3];[3,4]", "[d0_0,d1_1]");
  Expect(Op("BatchMatMul"), "[?,2,3];[7,3,4]", "[d1_0,d0_1,d1_2]");
  Expect(Op("BatchMatMul"), "[7,2,3];[8,3,4]", "e;both shapes must be equal");
  Expect(Op("BatchMatMul"), "[7,2,3];[7,4,4]", "e;Dimensions must be equal, but are 3 and 4");
  Expect(Op("BatchMatMul"), "[7];[7,4,4]", "e;Shape must be at least rank 2 but is rank 1");
  Expect(Op("BatchMatMul").Attr("adj_x", true).Attr("adj_y", true), "[7,3,2];[?,4,3]", "[d0_0,d0_2,d1_1]");
}

TEST(MathShapes, Reductions) {
  for (const char* op : {"Sum", "Prod", "Mean", "Max", "Min", "All", "Any"}) {
    Expect(Op(op), "[2,3];[1]", "?");
    Expect(Op(op).Attr("keep_dims", true), "[2,3];[1]", "[?,?]");
    Expect(Op(op).Const(1, {0}), "?;[1]", "?");
    Expect(Op(op).Const(1, {0}), "[2,3];[1]", "[d0_1]");
    Expect(Op(op).Const(1, {-1}), "[2,3];[1]", "[d0_0]");
    Expect(Op(op).Const(1, {0, 1}), "[2,?];[2]", "[]");
    Expect(Op(op).Const(1, std::vector<int>{}), "[2,?];[0]", "[d0_0,d0_1]");
    Expect(Op(op).ConstScalar(1, 1), "[2,3,4];[]", "[d0_0,d0_2]");
    Expect(Op(op).Const(1, {1}).Attr("keep_dims", true), "[2,3,4];[1]", "[d0_0,1,d0_2]");
    Expect(Op(op).Const(1, {2}), "[2,3];[1]", "e;Invalid reduction dimension 2 for input with 2 dimensions.");
    Expect(Op(op).Const(1, {-3}), "[2,3];[1]", "e;Invalid reduction dimension -3");
    Expect(Op(op), "[2,3];[1,1]", "e;Shape must be at most rank 1 but is rank 2");
    Expect(Op(op).Attr("Tidx", DataType::kInt64).Const(1, Tensor::Vector<int64_t>({-2})), "[2,3];[1]",
           "[d0_1]");
  }
}

TEST(MathShapes, ArgMaxAndArgMin) {
  for (const char* op : {"ArgMax", "ArgMin"}) {
    Expect(Op(op), "?;[]", "?");
    Expect(Op(op), "[5];[]", "[]");
    Expect(Op(op).ConstScalar(1, 3), "[5];[]", "[]");
    Expect(Op(op), "[2,3,4];[]", "[?,?]");
    Expect(Op(op).ConstScalar(1, 1), "[2,3,4];[]", "[d0_0,d0_2]");
    Expect(Op(op).ConstScalar(1, -1), "[2,3,4];[]", "[d0_0,d0_1]");
    Expect(Op(op).ConstScalar(1, 3), "[2,3,4];[]",
           "e;Dimension (3) must be in the range [-3, 3), where 3 is the number of dimensions in the input.");
    Expect(Op(op).ConstScalar(1, -4), "[2,3,4];[]", "e;Dimension (-4)");
    Expect(Op(op), "[2];[1]", "e;Shape must be rank 0 but is rank 1");
  }
}

TEST(MathShapes, CumulativeOps) {
  for (const char* op : {"Cumsum", "Cumprod"}) {
    Expect(Op(op), "[2,?];[]", "in0");
    Expect(Op(op), "[2,?];[1]", "in0");
  }
}

TEST(MathShapes, Segments) {
  for (const char* op : {"SegmentSum", "SegmentMean", "SegmentProd", "SegmentMin", "SegmentMax"}) {
    Expect(Op(op), "?;?", "?");
    Expect(Op(op), "[5,2,3];[5]", "[?,d0_1,d0_2]");
    Expect(Op(op), "[5,2];[4]", "[?,d0_1]");
    Expect(Op(op), "[5,2];[5,2]", "e;Shape must be rank 1 but is rank 2");
    Expect(Op(op), "[];[5]", "e;Shape must be at least rank 1 but is rank 0");
  }
}

TEST(MathShapes, UnsortedSegmentSum) {
  Expect(Op("UnsortedSegmentSum"), "[5,2,3];[5];[]", "[?,d0_1,d0_2]");
  Expect(Op("UnsortedSegmentSum").ConstScalar(2, 7), "[5,2,3];[5];[]", "[7,d0_1,d0_2]");
  Expect(Op("UnsortedSegmentSum").ConstScalar(2, 7), "[5,2,3];[5,2];[]", "[7,d0_2]");
  Expect(Op("UnsortedSegmentSum").ConstScalar(2, 7), "[5,2,3];?;[]", "?");
  Expect(Op("UnsortedSegmentSum").ConstScalar(2, 7), "?;[5];[]", "?");
  Expect(Op("UnsortedSegmentSum").ConstScalar(2, -1), "[5];[5];[]",
         "e;Dimension size, given by scalar input 2, must be non-negative but is -1");
  Expect(Op("UnsortedSegmentSum"), "[5];[4];[]", "e;Dimensions must be equal, but are 5 and 4");
  Expect(Op("UnsortedSegmentSum"), "[5];[5,1];[]", "e;Shape must be at least rank 2 but is rank 1");
}

TEST(MathShapes, LinSpace) {
  Expect(Op("LinSpace"), "[];[];[]", "[?]");
  Expect(Op("LinSpace").ConstScalar(2, 5), "[];[];[]", "[5]");
  Expect(Op("LinSpace").ConstScalar(2, 0), "[];[];[]", "e;Requires num > 0: 0");
  Expect(Op("LinSpace").ConstScalar(2, -1), "[];[];[]", "e;Requires num > 0: -1");
  Expect(Op("LinSpace"), "[];[2];[]", "e;Shape must be rank 0 but is rank 1\n\t for 'stop'");
}

ShapeTester IntRange(int start, int limit, int delta) {
  return Op("Range")
      .Attr("Tidx", DataType::kInt32)
      .ConstScalar(0, start)
      .ConstScalar(1, limit)
      .ConstScalar(2, delta);
}

template <typename T>
ShapeTester RangeOf(T start, T limit, T delta) {
  return Op("Range")
      .Attr("Tidx", kDataTypeOf<T>)
      .Const(0, Tensor::Scalar<T>(start))
      .Const(1, Tensor::Scalar<T>(limit))
      .Const(2, Tensor::Scalar<T>(delta));
}

TEST(MathShapes, Range) {
  Expect(Op("Range"), "[];[];[]", "[?]");
  const bfloat16 one(1.0f);
  Expect(RangeOf<bfloat16>(one, one, one), "[];[];[]", "[?]");
  Expect(Op("Range"), "[];[1];[]", "e;Shape must be rank 0 but is rank 1\n\t for 'limit'");
  Expect(IntRange(0, 5, 1), "[];[];[]", "[5]");
  Expect(IntRange(0, 5, 2), "[];[];[]", "[3]");
  Expect(IntRange(5, 0, -2), "[];[];[]", "[3]");
  Expect(IntRange(3, 3, 1), "[];[];[]", "[0]");
  Expect(IntRange(0, 5, 0), "[];[];[]", "e;Requires delta != 0");
  Expect(IntRange(5, 3, 1), "[];[];[]", "e;Requires start <= limit when delta > 0: 5/3");
  Expect(IntRange(3, 5, -1), "[];[];[]", "e;Requires start >= limit when delta < 0: 3/5");
  Expect(RangeOf<float>(0.0f, 1.0f, 0.1f), "[];[];[]", "[10]");
  Expect(RangeOf<double>(0.0, 1.0, 0.3), "[];[];[]", "[4]");
}

TEST(MathShapes, RangeOfExtremeNumbersIsCountedOrRefused) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  Expect(RangeOf<int64_t>(kMin, kMax, kMax), "[];[];[]", "[3]");
  Expect(RangeOf<int64_t>(kMax, kMin, kMin), "[];[];[]", "[2]");
  Expect(RangeOf<int64_t>(kMin, kMax, 1), "[];[];[]", "e;possible number of elements");
  Expect(RangeOf<float>(0.0f, std::numeric_limits<float>::infinity(), 1.0f), "[];[];[]", "e;possible number");
  Expect(RangeOf<float>(std::numeric_limits<float>::quiet_NaN(), 1.0f, 1.0f), "[];[];[]",
         "e;possible number");
  Expect(RangeOf<double>(0.0, 1e300, 1e-300), "[];[];[]", "e;possible number");
}

TEST(MathShapes, RangeWithAValueOfTheWrongTypeIsRefused) {
  Expect(IntRange(0, 5, 1).Const(1, Tensor::Scalar<float>(5)), "[];[];[]",
         "e;Input of type float where int32");
}

TEST(MathShapes, CompareAndBitpack) {
  Expect(Op("CompareAndBitpack"), "[?,16];[]", "[d0_0,2]");
  Expect(Op("CompareAndBitpack"), "[3,?];[]", "[d0_0,?]");
  Expect(Op("CompareAndBitpack"), "?;[]", "?");
  Expect(Op("CompareAndBitpack"), "[9];[]", "e;must be evenly divisible by 8 but is 9");
  Expect(Op("CompareAndBitpack"), "[];[]", "e;at least rank 1 but is rank 0");
}

TEST(MathShapes, SpecialFunctions) {
  Expect(Op("Igamma"), "[2,1];[3]", "[d0_0,d1_0]");
  Expect(Op("Betainc"), "[];[2,?];[?,3]", "[d1_0,d2_1]");
  Expect(Op("Betainc"), "[];[];[]", "[]");
  Expect(Op("Betainc"), "[2];[3];[]", "e;must be equal, but are 2 and 3");
  Expect(Op("ClipByValue"), "[2,?];[];[]", "in0");
  Expect(Op("SelectV2"), "[3];[2,1];[]", "[d1_0,d0_0]");
  Expect(Op("SelectV2"), "[3];[2];[]", "e;Dimensions must be equal");
  Expect(Op("AccumulateNV2").Attr("N", 2).Attr("shape", PartialShape({-1, 3})), "[2,?];[2,?]", "[d0_0,3]");
}

TEST(MathShapes, HistogramFixedWidth) {
  Expect(Op("HistogramFixedWidth").ConstScalar(2, 4), "[?];[2];[]", "[4]");
  Expect(Op("HistogramFixedWidth"), "[?];[3];[]", "e;Dimension must be 2 but is 3");
}

}  // namespace
}  // namespace millrace
