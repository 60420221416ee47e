// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Element-wise functions added after TensorFlow 1.2, and special functions.
#include "ops/family.h"

namespace millrace::ops {
namespace {

constexpr char kBits[] = "T: {int8, int16, int32, int64, uint8, uint16, uint32, uint64}";
constexpr char kPlainFloating[] = "T: {float, double}";

// z = f(x, y) with broadcasting.
OpBuilder Binary(const char* name, const char* x, const char* y, const char* z, const char* types) {
  return OpBuilder(name)
      .Input(x)
      .Input(y)
      .Output(z)
      .Attr(types)
      .Shape(shape_fns::BroadcastBinary)
      .Traits(kElementwise);
}
OpBuilder Binary(const char* name, const char* types) { return Binary(name, "x: T", "y: T", "z: T", types); }

OpBuilder Unary(const char* name, const char* types, const char* y = "y: T", OpTraits traits = kElementwise) {
  return OpBuilder(name).Input("x: T").Output(y).Attr(types).Shape(shape_fns::Unchanged).Traits(traits);
}

// Scalars go with any shape; the others have one.
Status BetaincShape(InferenceContext& c) {
  ShapeHandle out = c.UnknownShape();
  bool all_scalars = true;
  for (int i = 0; i < 3; ++i) {
    if (c.RankKnown(c.input(i)) && c.Rank(c.input(i)) == 0) continue;
    all_scalars = false;
    if (c.RankKnown(c.input(i))) {
      MR_ASSIGN_OR_RETURN(out, c.Merge(out, c.input(i)));
    }
  }
  c.set_output(0, all_scalars ? c.Scalar() : out);
  return Status::Ok();
}

Status SelectV2Shape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle values, Broadcast(c, c.input(1), c.input(2)));
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, Broadcast(c, c.input(0), values));
  c.set_output(0, out);
  return Status::Ok();
}

std::vector<OpBuilder> SpecialMathOps() {
  return {
      Binary("BitwiseAnd: The bitwise AND of two elements.", kBits).Commutative().NotDifferentiable(),
      Binary("BitwiseOr: The bitwise OR of two elements.", kBits).Commutative().NotDifferentiable(),
      Binary("BitwiseXor: The bitwise exclusive OR of two elements.", kBits)
          .Commutative()
          .NotDifferentiable(),
      Binary("LeftShift: Shifts bits to the left.", kBits).NotDifferentiable(),
      Binary("RightShift: Shifts bits to the right.", kBits).NotDifferentiable(),
      Unary("Invert: The bitwise complement of each element.", kBits, "y: T",
            {.elementwise = true, .involution = true})
          .NotDifferentiable(),
      Unary("PopulationCount: The number of bits that are set in each element.", kBits, "y: uint8")
          .NotDifferentiable(),
      Unary("BesselI0e: The modified Bessel function of order 0, divided by exp(|x|).",
            "T: {bfloat16, half, float, double}"),
      Unary("BesselI1e: The modified Bessel function of order 1, divided by exp(|x|).",
            "T: {bfloat16, half, float, double}"),
      Binary("MulNoNan: The product, and zero where the second factor is zero.",
             "T: {half, float, double, complex64, complex128}"),
      Binary("NextAfter: The next representable number in the direction of another.", "x1: T", "x2: T",
             "output: T", "T: {double, float} = DT_FLOAT"),
      Binary("Igamma: The lower regularised incomplete gamma function.", "a: T", "x: T", "z: T",
             kPlainFloating),
      Binary("Igammac: The upper regularised incomplete gamma function.", "a: T", "x: T", "z: T",
             kPlainFloating),
      Binary("IgammaGradA: The gradient of Igamma with respect to its first argument.", "a: T", "x: T",
             "z: T", kPlainFloating)
          .NotDifferentiable(),
      Binary("RandomGammaGrad: The gradient of RandomGamma.", "alpha: T", "sample: T", "output: T",
             kPlainFloating)
          .NotDifferentiable(),
      Binary("Polygamma: The n-th derivative of the digamma function.", "a: T", "x: T", "z: T",
             kPlainFloating),
      Binary("Zeta: The Hurwitz zeta function.", "x: T", "q: T", "z: T", kPlainFloating),
      OpBuilder("Betainc: The regularised incomplete beta function.")
          .Input("a: T")
          .Input("b: T")
          .Input("x: T")
          .Output("z: T")
          .Attr("T: {float, double}")
          .Shape(BetaincShape),
      OpBuilder("ClipByValue: Clips each element to an interval.")
          .Input("t: T")
          .Input("clip_value_min: T")
          .Input("clip_value_max: T")
          .Output("output: T")
          .Attr("T: numbertype")
          .Shape(shape_fns::Unchanged),
      OpBuilder("SelectV2: Elements of t where the condition is true, else of e.")
          .Input("condition: bool")
          .Input("t: T")
          .Input("e: T")
          .Output("output: T")
          .Attr("T: type")
          .Shape(SelectV2Shape),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterSpecialMathOps(OpRegistry& registry) {
  return ops::RegisterEach(registry, ops::SpecialMathOps());
}

}  // namespace millrace
