// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Element-wise math, comparisons, contraction, sequences.
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
// Constant between jumps.
constexpr OpTraits kSteps{.elementwise = true, .not_differentiable = true};
constexpr OpTraits kSign{.elementwise = true, .idempotent = true};
constexpr OpTraits kRounding{.elementwise = true, .not_differentiable = true, .idempotent = true};
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

using Operands = ElementwiseForm::Operands;
using Result = ElementwiseForm::Result;

constexpr ElementwiseForm kRealPart{.operands = Operands::kOne, .result = Result::kReal};

struct ElementwiseRow {
  const char* name;
  const char* types;
  OpTraits traits = kElementwise;
};

// y = f(x), of the same type.
constexpr ElementwiseRow kUnary[] = {
    {"Abs: The absolute value of each element.", kOrdered, kIdempotent},
    {"Acos: The inverse cosine of each element, in radians.", kMath},
    {"Acosh: The inverse hyperbolic cosine of each element.", kComplexFloating},
    {"Asin: The inverse sine of each element, in radians.", kMath},
    {"Asinh: The inverse hyperbolic sine of each element.", kComplexFloating},
    {"Atan: The inverse tangent of each element, in radians.", kMath},
    {"Atanh: The inverse hyperbolic tangent of each element.", kComplexFloating},
    {"Ceil: Each element rounded up.", kFloatingFirst16, kRounding},
    {"Cos: The cosine of each element.", kComplexFloating},
    {"Cosh: The hyperbolic cosine of each element.", kComplexFloating},
    {"Digamma: The derivative of the logarithm of the gamma function.", kFloatingFirst16},
    {"Erf: The error function of each element.", kFloatingFirst16},
    {"Erfc: One minus the error function of each element.", kFloatingFirst16},
    {"Exp: e to the power of each element.", kComplexFloating},
    {"Expm1: exp(x) - 1, exact near zero.", kComplexFloating},
    {"Floor: Each element rounded down.", kFloatingFirst16, kRounding},
    {"Lgamma: The logarithm of the absolute value of the gamma function.", kFloatingFirst16},
    {"Log: The natural logarithm of each element.", kComplexFloating},
    {"Log1p: log(1 + x), exact near zero.", kComplexFloating},
    {"Neg: The negative of each element.", kMath, kInvolution},
    {"Reciprocal: One divided by each element.", kMath},
    {"Rint: Each element rounded to the nearest integer, halves to even.", kFloatingFirst16, kRounding},
    {"Rsqrt: One divided by the square root of each element.", kComplexFloating},
    {"Sigmoid: 1 / (1 + exp(-x)).", kComplexFloating},
    {"Sign: -1, 0 or 1, by the sign of each element.", kMath, kSign},
    {"Sin: The sine of each element.", kComplexFloating},
    {"Sinh: The hyperbolic sine of each element.", kComplexFloating},
    {"Sqrt: The square root of each element.", kComplexFloating},
    {"Square: Each element times itself.", kMath},
    {"Tan: The tangent of each element.", kMath},
    {"Tanh: The hyperbolic tangent of each element.", kComplexFloating},
};

// y = f(x), a bool.
constexpr ElementwiseRow kUnaryTests[] = {
    {"IsFinite: Whether each element is neither infinite nor NaN.", kFloatingFirst16},
    {"IsInf: Whether each element is infinite.", kFloatingFirst16},
    {"IsNan: Whether each element is NaN.", kFloatingFirst16}};

// z = the gradient for the argument of the function whose value is y, given the gradient dy.
constexpr ElementwiseRow kUnaryGradients[] = {
    {"ReciprocalGrad: The gradient of Reciprocal.", kComplexFloating},
    {"RsqrtGrad: The gradient of Rsqrt.", kComplexFloating},
    {"SigmoidGrad: The gradient of Sigmoid.", kComplexFloating},
    {"SqrtGrad: The gradient of Sqrt.", kComplexFloating},
    {"TanhGrad: The gradient of Tanh.", kComplexFloating},
};

// z = f(x, y) with broadcasting, of the same type.
constexpr ElementwiseRow kBinary[] = {
    {"Add: The sum of two tensors, element by element, with broadcasting.",
     "T: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, complex128, string}",
     kSum},
    {"Div: The quotient of two tensors, with broadcasting; integer quotients are rounded towards zero.",
     kArithmetic, kQuotient},
    {"DivNoNan: The quotient, and zero where the divisor is zero.", kInexact},
    {"FloorDiv: The quotient rounded down.", kArithmetic, kSteps},
    {"FloorMod: The remainder with the sign of the divisor.", kModular},
    {"Maximum: The larger of two elements, with broadcasting.", kOrdered, kExtremum},
    {"Minimum: The smaller of two elements, with broadcasting.", kOrdered, kExtremum},
    {"Mod: The remainder with the sign of the dividend.",
     "T: {int32, int64, half, half, bfloat16, float, double}"},
    {"Pow: x to the power of y, with broadcasting.",
     "T: {bfloat16, float, half, double, int32, int64, complex64, complex128}"},
    {"RealDiv: The quotient of two tensors, with broadcasting.", kArithmetic, kQuotient},
    {"Sub: The difference of two tensors, element by element, with broadcasting.", kArithmetic, kDifference},
    {"TruncateDiv: The quotient rounded towards zero.", kArithmetic, kSteps},
    {"TruncateMod: The remainder with the sign of the dividend.", kModular},
    {"Xdivy: x / y, and zero where x is zero.", kInexact},
    {"Xlogy: x log(y), and zero where x is zero.", kInexact},
};
constexpr ElementwiseRow kCommutativeBinary[] = {
    {"Mul: The product of two tensors, element by element, with broadcasting.", kArithmetic, kProduct},
    {"SquaredDifference: The square of the difference, with broadcasting.", kMath}};

// z = f(x, y) with broadcasting, a bool.
constexpr ElementwiseRow kComparisons[] = {{"Greater: Whether x > y, with broadcasting.", kRealNumber},
                                           {"GreaterEqual: Whether x >= y, with broadcasting.", kRealNumber},
                                           {"Less: Whether x < y, with broadcasting.", kRealNumber},
                                           {"LessEqual: Whether x <= y, with broadcasting.", kRealNumber}};
constexpr ElementwiseRow kCommutativeComparisons[] = {
    {"Equal: Whether elements are equal, with broadcasting.", kComparable},
    {"NotEqual: Whether elements differ, with broadcasting.", kComparable}};

OpBuilder Unary(const ElementwiseRow& row, const char* output = "y: T", Result result = Result::kSame) {
  return OpBuilder(row.name)
      .Input("x: T")
      .Output(output)
      .Attr(row.types)
      .Shape(shape_fns::Unchanged)
      .Traits(row.traits)
      .Fuses({.operands = Operands::kOne, .result = result});
}

OpBuilder Binary(const ElementwiseRow& row, const char* output = "z: T", Result result = Result::kSame) {
  return OpBuilder(row.name)
      .Input("x: T")
      .Input("y: T")
      .Output(output)
      .Attr(row.types)
      .Shape(shape_fns::BroadcastBinary)
      .Traits(row.traits)
      .Fuses({.operands = Operands::kBroadcast, .result = result});
}

OpBuilder UnaryTest(const ElementwiseRow& row) {
  return Unary(row, "y: bool", Result::kBool).NotDifferentiable();
}
OpBuilder Comparison(const ElementwiseRow& row) {
  return Binary(row, "z: bool", Result::kBool).NotDifferentiable();
}

OpBuilder UnaryGradient(const ElementwiseRow& row) {
  return OpBuilder(row.name)
      .Input("y: T")
      .Input("dy: T")
      .Output("z: T")
      .Attr(row.types)
      .Shape(shape_fns::Unchanged)
      .Traits(kElementwise)
      .Fuses({.operands = Operands::kSameCount});
}

// output = a real number of each complex one.
OpBuilder RealOfComplex(const char* name) {
  return OpBuilder(name)
      .Input("input: T")
      .Output("output: Tout")
      .Attr(kComplex)
      .Attr("Tout: {float, double} = DT_FLOAT")
      .Shape(shape_fns::Unchanged)
      .Traits(kElementwise)
      .Fuses(kRealPart);
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
               .absorber = absorber})
      .Fuses({.operands = Operands::kBroadcast, .result = Result::kBool})
      .NotDifferentiable();
}

std::vector<OpBuilder> ElementwiseTables() {
  std::vector<OpBuilder> ops;
  for (const auto& row : kUnary) ops.push_back(Unary(row));
  for (const auto& row : kUnaryTests) ops.push_back(UnaryTest(row));
  for (const auto& row : kUnaryGradients) ops.push_back(UnaryGradient(row));
  for (const auto& row : kBinary) ops.push_back(Binary(row));
  for (const auto& row : kCommutativeBinary) ops.push_back(Binary(row).Commutative());
  for (const auto& row : kComparisons) ops.push_back(Comparison(row));
  for (const auto& row : kCommutativeComparisons) ops.push_back(Comparison(row).Commutative());
  return ops;
}

// Complex numbers from and to real ones.
std::vector<OpBuilder> ComplexNumbers() {
  return {
      OpBuilder("ComplexAbs: The magnitude of each complex number.")
          .Input("x: T")
          .Output("y: Tout")
          .Attr(kComplex)
          .Attr("Tout: {float, double} = DT_FLOAT")
          .Shape(shape_fns::Unchanged)
          .Traits(kElementwise)
          .Fuses(kRealPart),
      RealOfComplex("Angle: The argument of each complex number, in radians."),
      RealOfComplex("Imag: The imaginary part of each complex number."),
      RealOfComplex("Real: The real part of each complex number."),
      OpBuilder("Complex: Complex numbers of real and imaginary parts.")
          .Input("real: T")
          .Input("imag: T")
          .Output("out: Tout")
          .Attr("T: {float, double} = DT_FLOAT")
          .Attr("Tout: {complex64, complex128} = DT_COMPLEX64")
          .Shape(shape_fns::BroadcastBinary)
          .Traits(kElementwise),
      OpBuilder("Conj: The complex conjugate of each element.")
          .Input("input: T")
          .Output("output: T")
          .Attr("T: {complex64, complex128, variant} = DT_COMPLEX64")
          .Shape(shape_fns::Unchanged)
          .Traits(kInvolution)
          .Fuses({.operands = Operands::kOne}),
  };
}

// Element-wise ops with attributes or types of their own.
std::vector<OpBuilder> OtherElementwise() {
  return {
      Unary({"Inv: One divided by each element.", kMath}),
      Unary({"Round: Each element rounded to the nearest integer, halves to even.", kMath, kSteps})
          .Fuses({.operands = Operands::kOne, .takes_integers = false}),
      UnaryGradient({"InvGrad: The gradient of Inv.", kComplexFloating}),
      Binary({"AddV2: The sum of two tensors, element by element, with broadcasting; not of strings.",
              "T: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, complex128}",
              kSum})
          .Commutative()
          .Aggregate(),
      OpBuilder("Atan2: The angle of the point (x, y), in radians.")
          .Input("y: T")
          .Input("x: T")
          .Output("z: T")
          .Attr(kFloatingFirst16)
          .Shape(shape_fns::BroadcastBinary)
          .Traits(kElementwise)
          .Fuses({.operands = Operands::kBroadcast}),
      OpBuilder("ApproximateEqual: Whether two elements differ by less than a tolerance.")
          .Input("x: T")
          .Input("y: T")
          .Output("z: bool")
          .Commutative()
          .Attr(kNumber)
          .Attr("tolerance: float = 0.00001")
          .Shape(LikeFirstInputShape)
          .Traits(kElementwise)
          .NotDifferentiable(),
      Logical("LogicalAnd: Whether both elements are true.", Unit::kOne, Unit::kZero),
      Logical("LogicalOr: Whether at least one of two elements is true.", Unit::kZero, Unit::kOne),
      OpBuilder("LogicalNot: The negation of each element.")
          .Input("x: bool")
          .Output("y: bool")
          .Shape(shape_fns::Unchanged)
          .Traits(kInvolution)
          .NotDifferentiable()
          .Fuses({.operands = Operands::kOne, .result = Result::kBool}),
      OpBuilder("Cast: Converts elements to another type.")
          .Input("x: SrcT")
          .Output("y: DstT")
          .Attr("SrcT: type")
          .Attr("DstT: type")
          .Attr("Truncate: bool = false")
          .Shape(shape_fns::Unchanged)
          .Traits(kElementwise)
          .Fuses({.operands = Operands::kOne, .result = Result::kAny}),
      OpBuilder("AddN: The sum of all inputs, which have one shape.")
          .Input("inputs: N * T")
          .Output("sum: T")
          .Attr("N: int >= 1")
          .Attr("T: {float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, "
                "bfloat16, uint16, complex128, half, uint32, uint64, variant}")
          .Commutative()
          .Aggregate()
          .Shape(AddNShape)
          .Traits(kElementwise)
          .Flops(FlopRule::kTerms)
          .Fuses({.operands = Operands::kSum}),
      OpBuilder("Select: Elements of t where the condition is true, else of e.")
          .Input("condition: bool")
          .Input("t: T")
          .Input("e: T")
          .Output("output: T")
          .Attr(kAnyType)
          .Shape(SelectShape)
          .Fuses({.operands = Operands::kSelect}),
  };
}

std::vector<OpBuilder> Contractions() {
  return {
      OpBuilder("MatMul: The product of two matrices.")
          .Input("a: T")
          .Input("b: T")
          .Output("product: T")
          .Attr("transpose_a: bool = false")
          .Attr("transpose_b: bool = false")
          .Attr(kContractable)
          .Shape(shape_fns::MatMul)
          .Flops(FlopRule::kMatMul),
      OpBuilder("SparseMatMul: The product of matrices with many zero elements.")
          .Input("a: Ta")
          .Input("b: Tb")
          .Output("product: float")
          .Attr("transpose_a: bool = false")
          .Attr("transpose_b: bool = false")
          .Attr("a_is_sparse: bool = false")
          .Attr("b_is_sparse: bool = false")
          .Attr("Ta: {float, bfloat16} = DT_FLOAT")
          .Attr("Tb: {float, bfloat16} = DT_FLOAT")
          .Shape(shape_fns::MatMul)
          .Flops(FlopRule::kMatMul),
      OpBuilder("BatchMatMul: Products of matrices in the last two dimensions.")
          .Input("x: T")
          .Input("y: T")
          .Output("output: T")
          .Attr(kContractable)
          .Attr("adj_x: bool = false")
          .Attr("adj_y: bool = false")
          .Shape(BatchMatMulShape)
          .Flops(FlopRule::kMatMul),
      OpBuilder("BatchMatMulV2: Products of matrices in the last two dimensions.")
          .Input("x: T")
          .Input("y: T")
          .Output("output: T")
          .Attr(kContractable)
          .Attr("adj_x: bool = false")
          .Attr("adj_y: bool = false")
          .Shape(BatchMatMulV2Shape)
          .Flops(FlopRule::kMatMul),
  };
}

std::vector<OpBuilder> Sequences() {
  return {
      OpBuilder("LinSpace: Evenly spaced numbers from start to stop.")
          .Input("start: T")
          .Input("stop: T")
          .Input("num: Tidx")
          .Output("output: T")
          .Attr("T: {bfloat16, float, double}")
          .Attr(kIndex)
          .Shape(LinSpaceShape)
          .NotDifferentiable(),
      OpBuilder("Range: Numbers from start to limit (exclusive) in steps of delta.")
          .Input("start: Tidx")
          .Input("limit: Tidx")
          .Input("delta: Tidx")
          .Output("output: Tidx")
          .Attr("Tidx: {bfloat16, float, double, int32, int64} = DT_INT32")
          .Shape(RangeShape)
          .NotDifferentiable(),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterMathOps(OpRegistry& registry) {
  for (const auto part : {ops::ElementwiseTables, ops::OtherElementwise, ops::ComplexNumbers,
                          ops::Contractions, ops::Sequences}) {
    MR_RETURN_IF_ERROR(ops::RegisterEach(registry, part()));
  }
  return Status::Ok();
}

}  // namespace millrace
