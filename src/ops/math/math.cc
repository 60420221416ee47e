// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Element-wise math, comparisons, contraction, reductions, segments, sequences.
#include "ops/family.h"
#include "ops/math/shapes.h"

namespace millrace::ops {
namespace {

constexpr char kFloatingFirst16[] = "T: {bfloat16, half, float, double}";
constexpr char kComplexFloating[] = "T: {bfloat16, half, float, double, complex64, complex128}";
constexpr char kInexact[] = "T: {half, float, double, complex64, complex128}";
constexpr char kMath[] = "T: {bfloat16, half, float, double, int32, int64, complex64, complex128}";
constexpr char kOrdered[] = "T: {bfloat16, half, float, double, int32, int64}";
constexpr char kArithmetic[] =
    "T: {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, int64, complex64, complex128}";
constexpr char kComparable[] =
    "T: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, quint8, qint8, qint32, "
    "string, "
    "bool, "
    "complex128}";
constexpr char kContractable[] = "T: {bfloat16, half, float, double, int32, int64, complex64, complex128}";
constexpr char kComplex[] = "T: {complex64, complex128} = DT_COMPLEX64";
constexpr char kModular[] = "T: {int32, int64, bfloat16, half, float, double}";

constexpr OpTraits kInvolution{.elementwise = true, .involution = true};
constexpr OpTraits kIdempotent{.elementwise = true, .idempotent = true};
constexpr OpTraits kSum{
    .elementwise = true, .associative = true, .left_unit = Unit::kZero, .right_unit = Unit::kZero};
constexpr OpTraits kProduct{.elementwise = true,
                            .associative = true,
                            .left_unit = Unit::kOne,
                            .right_unit = Unit::kOne,
                            .absorber = Unit::kZero};
constexpr OpTraits kDifference{.elementwise = true, .right_unit = Unit::kZero};
constexpr OpTraits kQuotient{.elementwise = true, .right_unit = Unit::kOne};
constexpr OpTraits kExtremum{.elementwise = true, .idempotent = true, .associative = true};
constexpr OpTraits kReduction{.same_in_shape = true};

struct ElementwiseRow {
  const char* name;
  const char* types;
  OpTraits traits = kElementwise;
};

// y = f(x), of the same type.
constexpr ElementwiseRow kUnary[] = {
    {"Abs", kOrdered, kIdempotent},
    {"Acos", kMath},
    {"Acosh", kComplexFloating},
    {"Asin", kMath},
    {"Asinh", kComplexFloating},
    {"Atan", kMath},
    {"Atanh", kComplexFloating},
    {"Ceil", kFloatingFirst16, kIdempotent},
    {"Cos", kComplexFloating},
    {"Cosh", kComplexFloating},
    {"Digamma", kFloatingFirst16},
    {"Erf", kFloatingFirst16},
    {"Erfc", kFloatingFirst16},
    {"Exp", kComplexFloating},
    {"Expm1", kComplexFloating},
    {"Floor", kFloatingFirst16, kIdempotent},
    {"Lgamma", kFloatingFirst16},
    {"Log", kComplexFloating},
    {"Log1p", kComplexFloating},
    {"Neg", kMath, kInvolution},
    {"Reciprocal", kMath},
    {"Rint", kFloatingFirst16, kIdempotent},
    {"Round", kMath},
    {"Rsqrt", kComplexFloating},
    {"Sigmoid", kComplexFloating},
    {"Sign", kMath, kIdempotent},
    {"Sin", kComplexFloating},
    {"Sinh", kComplexFloating},
    {"Sqrt", kComplexFloating},
    {"Square", kMath},
    {"Tan", kMath},
    {"Tanh", kComplexFloating},
};

// y = f(x), a bool.
constexpr ElementwiseRow kUnaryTests[] = {
    {"IsFinite", kFloatingFirst16}, {"IsInf", kFloatingFirst16}, {"IsNan", kFloatingFirst16}};

// z = the gradient for the argument of the function whose value is y, given the gradient dy.
constexpr ElementwiseRow kUnaryGradients[] = {
    {"ReciprocalGrad", kComplexFloating}, {"RsqrtGrad", kComplexFloating}, {"SigmoidGrad", kComplexFloating},
    {"SqrtGrad", kComplexFloating},       {"TanhGrad", kComplexFloating},
};

// z = f(x, y) with broadcasting, of the same type.
constexpr ElementwiseRow kBinary[] = {
    {"Add",
     "T: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, complex128, string}",
     kSum},
    {"Div", kArithmetic, kQuotient},
    {"DivNoNan", kInexact},
    {"FloorDiv", kArithmetic},
    {"FloorMod", kModular},
    {"Maximum", kOrdered, kExtremum},
    {"Minimum", kOrdered, kExtremum},
    {"Mod", "T: {int32, int64, half, half, bfloat16, float, double}"},
    {"Pow", "T: {bfloat16, float, half, double, int32, int64, complex64, complex128}"},
    {"RealDiv", kArithmetic, kQuotient},
    {"Sub", kArithmetic, kDifference},
    {"TruncateDiv", kArithmetic},
    {"TruncateMod", kModular},
    {"Xdivy", kInexact},
    {"Xlogy", kInexact},
};
constexpr ElementwiseRow kCommutativeBinary[] = {{"Mul", kArithmetic, kProduct},
                                                 {"SquaredDifference", kMath}};

// z = f(x, y) with broadcasting, a bool.
constexpr ElementwiseRow kComparisons[] = {{"Greater", kRealNumber},
                                           {"GreaterEqual", kRealNumber},
                                           {"Less", kRealNumber},
                                           {"LessEqual", kRealNumber}};
constexpr ElementwiseRow kCommutativeComparisons[] = {{"Equal", kComparable}, {"NotEqual", kComparable}};

OpBuilder Unary(const ElementwiseRow& row, const char* output = "y: T") {
  return OpBuilder(row.name)
      .Input("x: T")
      .Output(output)
      .Attr(row.types)
      .Shape(shape_fns::Unchanged)
      .Traits(row.traits);
}

OpBuilder Binary(const ElementwiseRow& row, const char* output = "z: T") {
  return OpBuilder(row.name)
      .Input("x: T")
      .Input("y: T")
      .Output(output)
      .Attr(row.types)
      .Shape(shape_fns::BroadcastBinary)
      .Traits(row.traits);
}

OpBuilder UnaryGradient(const ElementwiseRow& row) {
  return OpBuilder(row.name)
      .Input("y: T")
      .Input("dy: T")
      .Output("z: T")
      .Attr(row.types)
      .Shape(shape_fns::Unchanged)
      .Traits(kElementwise);
}

// output = a real number of each complex one.
OpBuilder RealOfComplex(const char* name) {
  return OpBuilder(name)
      .Input("input: T")
      .Output("output: Tout")
      .Attr(kComplex)
      .Attr("Tout: {float, double} = DT_FLOAT")
      .Shape(shape_fns::Unchanged)
      .Traits(kElementwise);
}

// The units are those of the conjunction or of the disjunction.
OpBuilder Logical(const char* name, Unit unit, Unit absorber) {
  return OpBuilder(name)
      .Input("x: bool")
      .Input("y: bool")
      .Output("z: bool")
      .Commutative()
      .Shape(shape_fns::BroadcastBinary)
      .Traits({.elementwise = true,
               .idempotent = true,
               .associative = true,
               .left_unit = unit,
               .right_unit = unit,
               .absorber = absorber});
}

std::vector<OpBuilder> ElementwiseTables() {
  std::vector<OpBuilder> ops;
  for (const auto& row : kUnary) ops.push_back(Unary(row));
  for (const auto& row : kUnaryTests) ops.push_back(Unary(row, "y: bool"));
  for (const auto& row : kUnaryGradients) ops.push_back(UnaryGradient(row));
  for (const auto& row : kBinary) ops.push_back(Binary(row));
  for (const auto& row : kCommutativeBinary) ops.push_back(Binary(row).Commutative());
  for (const auto& row : kComparisons) ops.push_back(Binary(row, "z: bool"));
  for (const auto& row : kCommutativeComparisons) ops.push_back(Binary(row, "z: bool").Commutative());
  return ops;
}

// Complex numbers from and to real ones.
std::vector<OpBuilder> ComplexNumbers() {
  return {
      OpBuilder("ComplexAbs")
          .Input("x: T")
          .Output("y: Tout")
          .Attr(kComplex)
          .Attr("Tout: {float, double} = DT_FLOAT")
          .Shape(shape_fns::Unchanged)
          .Traits(kElementwise),
      RealOfComplex("Angle"),
      RealOfComplex("Imag"),
      RealOfComplex("Real"),
      OpBuilder("Complex")
          .Input("real: T")
          .Input("imag: T")
          .Output("out: Tout")
          .Attr("T: {float, double} = DT_FLOAT")
          .Attr("Tout: {complex64, complex128} = DT_COMPLEX64")
          .Shape(shape_fns::BroadcastBinary)
          .Traits(kElementwise),
      OpBuilder("Conj")
          .Input("input: T")
          .Output("output: T")
          .Attr("T: {complex64, complex128, variant} = DT_COMPLEX64")
          .Shape(shape_fns::Unchanged)
          .Traits(kInvolution),
  };
}

// Element-wise ops with something of their own.
std::vector<OpBuilder> OtherElementwise() {
  return {
      Unary({"Inv", kMath}),
      UnaryGradient({"InvGrad", kComplexFloating}),
      Binary({"AddV2",
              "T: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, complex128}",
              kSum})
          .Commutative()
          .Aggregate(),
      OpBuilder("Atan2")
          .Input("y: T")
          .Input("x: T")
          .Output("z: T")
          .Attr(kFloatingFirst16)
          .Shape(shape_fns::BroadcastBinary)
          .Traits(kElementwise),
      OpBuilder("ApproximateEqual")
          .Input("x: T")
          .Input("y: T")
          .Output("z: bool")
          .Commutative()
          .Attr(kNumber)
          .Attr("tolerance: float = 0.00001")
          .Shape(LikeFirstInputShape)
          .Traits(kElementwise),
      Logical("LogicalAnd", Unit::kOne, Unit::kZero),
      Logical("LogicalOr", Unit::kZero, Unit::kOne),
      OpBuilder("LogicalNot")
          .Input("x: bool")
          .Output("y: bool")
          .Shape(shape_fns::Unchanged)
          .Traits(kInvolution),
      OpBuilder("Cast")
          .Input("x: SrcT")
          .Output("y: DstT")
          .Attr("SrcT: type")
          .Attr("DstT: type")
          .Attr("Truncate: bool = false")
          .Shape(shape_fns::Unchanged)
          .Traits(kElementwise),
      OpBuilder("AddN")
          .Input("inputs: N * T")
          .Output("sum: T")
          .Attr("N: int >= 1")
          .Attr("T: {float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, "
                "bfloat16, uint16, complex128, half, uint32, uint64, variant}")
          .Commutative()
          .Aggregate()
          .Shape(AddNShape)
          .Traits(kElementwise),
      OpBuilder("Select")
          .Input("condition: bool")
          .Input("t: T")
          .Input("e: T")
          .Output("output: T")
          .Attr(kAnyType)
          .Shape(SelectShape),
  };
}

std::vector<OpBuilder> Contractions() {
  return {
      OpBuilder("MatMul")
          .Input("a: T")
          .Input("b: T")
          .Output("product: T")
          .Attr("transpose_a: bool = false")
          .Attr("transpose_b: bool = false")
          .Attr(kContractable)
          .Shape(shape_fns::MatMul),
      OpBuilder("SparseMatMul")
          .Input("a: Ta")
          .Input("b: Tb")
          .Output("product: float")
          .Attr("transpose_a: bool = false")
          .Attr("transpose_b: bool = false")
          .Attr("a_is_sparse: bool = false")
          .Attr("b_is_sparse: bool = false")
          .Attr("Ta: {float, bfloat16} = DT_FLOAT")
          .Attr("Tb: {float, bfloat16} = DT_FLOAT")
          .Shape(shape_fns::MatMul),
      OpBuilder("BatchMatMul")
          .Input("x: T")
          .Input("y: T")
          .Output("output: T")
          .Attr(kContractable)
          .Attr("adj_x: bool = false")
          .Attr("adj_y: bool = false")
          .Shape(BatchMatMulShape),
      OpBuilder("BatchMatMulV2")
          .Input("x: T")
          .Input("y: T")
          .Output("output: T")
          .Attr(kContractable)
          .Attr("adj_x: bool = false")
          .Attr("adj_y: bool = false")
          .Shape(BatchMatMulV2Shape),
  };
}

OpBuilder NumberReduction(const char* name) {
  return OpBuilder(name)
      .Input("input: T")
      .Input("reduction_indices: Tidx")
      .Output("output: T")
      .Attr("keep_dims: bool = false")
      .Attr(kNumber)
      .Attr(kIndex)
      .Shape(shape_fns::Reduction)
      .Traits(kReduction);
}

OpBuilder BoolReduction(const char* name) {
  return OpBuilder(name)
      .Input("input: bool")
      .Input("reduction_indices: Tidx")
      .Output("output: bool")
      .Attr("keep_dims: bool = false")
      .Attr(kIndex)
      .Shape(shape_fns::Reduction)
      .Traits(kReduction);
}

OpBuilder ArgReduction(const char* name) {
  return OpBuilder(name)
      .Input("input: T")
      .Input("dimension: Tidx")
      .Output("output: output_type")
      .Attr(kNumber)
      .Attr(kIndex)
      .Attr("output_type: {int32, int64} = DT_INT64")
      .Shape(ArgReductionShape);
}

OpBuilder Cumulative(const char* name) {
  return OpBuilder(name)
      .Input("x: T")
      .Input("axis: Tidx")
      .Output("out: T")
      .Attr("exclusive: bool = false")
      .Attr("reverse: bool = false")
      .Attr(kNumber)
      .Attr(kIndex)
      .Shape(shape_fns::Unchanged);
}

OpBuilder Segment(const char* name, const char* types) {
  return OpBuilder(name)
      .Input("data: T")
      .Input("segment_ids: Tindices")
      .Output("output: T")
      .Attr(types)
      .Attr(kIndices)
      .Shape(SegmentShape);
}

std::vector<OpBuilder> Reductions() {
  return {
      NumberReduction("Max"),
      NumberReduction("Mean"),
      NumberReduction("Min"),
      NumberReduction("Prod"),
      NumberReduction("Sum"),
      BoolReduction("All"),
      BoolReduction("Any"),
      ArgReduction("ArgMax"),
      ArgReduction("ArgMin"),
      OpBuilder("Bincount")
          .Input("arr: int32")
          .Input("size: int32")
          .Input("weights: T")
          .Output("bins: T")
          .Attr("T: {int32, int64, float, double}")
          .Shape(BincountShape),
      Cumulative("Cumprod"),
      Cumulative("Cumsum"),
      Segment("SegmentMax", kRealNumber),
      Segment("SegmentMean", kNumber),
      Segment("SegmentMin", kRealNumber),
      Segment("SegmentProd", kNumber),
      Segment("SegmentSum", kNumber),
      OpBuilder("UnsortedSegmentSum")
          .Input("data: T")
          .Input("segment_ids: Tindices")
          .Input("num_segments: Tnumsegments")
          .Output("output: T")
          .Attr(kNumber)
          .Attr(kIndices)
          .Attr("Tnumsegments: {int32, int64} = DT_INT32")
          .Shape(UnsortedSegmentShape),
  };
}

std::vector<OpBuilder> Sequences() {
  return {
      OpBuilder("LinSpace")
          .Input("start: T")
          .Input("stop: T")
          .Input("num: Tidx")
          .Output("output: T")
          .Attr("T: {bfloat16, float, double}")
          .Attr(kIndex)
          .Shape(LinSpaceShape),
      OpBuilder("Range")
          .Input("start: Tidx")
          .Input("limit: Tidx")
          .Input("delta: Tidx")
          .Output("output: Tidx")
          .Attr("Tidx: {bfloat16, float, double, int32, int64} = DT_INT32")
          .Shape(RangeShape),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterMathOps(OpRegistry& registry) {
  for (const auto part : {ops::ElementwiseTables, ops::OtherElementwise, ops::ComplexNumbers,
                          ops::Contractions, ops::Reductions, ops::Sequences}) {
    MR_RETURN_IF_ERROR(ops::RegisterEach(registry, part()));
  }
  return Status::Ok();
}

}  // namespace millrace
