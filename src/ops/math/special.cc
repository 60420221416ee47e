// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Element-wise functions that came after TensorFlow 1.2, and special functions.
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
      Binary("BitwiseAnd", kBits).Commutative(),
      Binary("BitwiseOr", kBits).Commutative(),
      Binary("BitwiseXor", kBits).Commutative(),
      Binary("LeftShift", kBits),
      Binary("RightShift", kBits),
      Unary("Invert", kBits, "y: T", {.elementwise = true, .involution = true}),
      Unary("PopulationCount", kBits, "y: uint8"),
      Unary("BesselI0e", "T: {bfloat16, half, float, double}"),
      Unary("BesselI1e", "T: {bfloat16, half, float, double}"),
      Binary("MulNoNan", "T: {half, float, double, complex64, complex128}"),
      Binary("NextAfter", "x1: T", "x2: T", "output: T", "T: {double, float} = DT_FLOAT"),
      Binary("Igamma", "a: T", "x: T", "z: T", kPlainFloating),
      Binary("Igammac", "a: T", "x: T", "z: T", kPlainFloating),
      Binary("IgammaGradA", "a: T", "x: T", "z: T", kPlainFloating),
      Binary("RandomGammaGrad", "alpha: T", "sample: T", "output: T", kPlainFloating),
      Binary("Polygamma", "a: T", "x: T", "z: T", kPlainFloating),
      Binary("Zeta", "x: T", "q: T", "z: T", kPlainFloating),
      OpBuilder("Betainc")
          .Input("a: T")
          .Input("b: T")
          .Input("x: T")
          .Output("z: T")
          .Attr("T: {float, double}")
          .Shape(BetaincShape),
      OpBuilder("ClipByValue")
          .Input("t: T")
          .Input("clip_value_min: T")
          .Input("clip_value_max: T")
          .Output("output: T")
          .Attr("T: numbertype")
          .Shape(shape_fns::Unchanged),
      OpBuilder("SelectV2")
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
