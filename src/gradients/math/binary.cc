// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Element-wise math of two arguments with broadcasting, and of many.
#include "gradients/broadcast.h"
#include "gradients/family.h"

namespace millrace {
namespace {

using gradients::Row;
using gradients::SumRepeated;

// z = f(x, y); dz is what arrives.
struct Args {
  Expr x;
  Expr y;
  Expr z;
  Expr dz;
};
using Formula = Expr (*)(const Args&);

// The formulas give gradients of the shape of z.
template <Formula kOfX, Formula kOfY>
Status Binary(GradientContext& c) {
  const Args a{c.input(0), c.input(1), c.output(0), c.grad(0)};
  if (c.wants(0)) c.SetInputGrad(0, SumRepeated(a.x, a.y, 0, kOfX(a)));
  if (c.wants(1)) c.SetInputGrad(1, SumRepeated(a.x, a.y, 1, kOfY(a)));
  return c.status();
}

Expr Dz(const Args& a) { return a.dz; }
Expr MinusDz(const Args& a) { return -a.dz; }
Expr MulOfX(const Args& a) { return a.dz * Conj(a.y); }
Expr MulOfY(const Args& a) { return Conj(a.x) * a.dz; }
Expr DivOfX(const Args& a) { return a.dz / Conj(a.y); }
Expr DivOfY(const Args& a) { return a.dz * (-Conj(a.x) / Conj(a.y) / Conj(a.y)); }
Expr DivNoNan(const Expr& x, const Expr& y) { return Op("DivNoNan", {x, y}); }
Expr DivNoNanOfX(const Args& a) { return DivNoNan(a.dz, Conj(a.y)); }
Expr DivNoNanOfY(const Args& a) { return a.dz * DivNoNan(DivNoNan(-Conj(a.x), Conj(a.y)), Conj(a.y)); }
// 1 where x is not 0, else 0.
Expr NotZero(const Expr& x) { return CastTo(Op("NotEqual", {x, ScalarLike(x, 0)}), x.dtype()); }
Expr XdivyOfX(const Args& a) { return a.dz * Op("Xdivy", {NotZero(Conj(a.x)), Conj(a.y)}); }
Expr XdivyOfY(const Args& a) { return a.dz * Op("Xdivy", {-Conj(a.x), Op("Square", Conj(a.y))}); }
Expr XlogyOfX(const Args& a) { return a.dz * Op("Xlogy", {NotZero(Conj(a.x)), Conj(a.y)}); }
Expr XlogyOfY(const Args& a) { return a.dz * Op("Xdivy", {Conj(a.x), Conj(a.y)}); }
// The square of the absolute value, of complex numbers.
Expr SquaredDifferenceOfX(const Args& a) {
  const Expr both = IsComplexType(a.dz.dtype()) ? a.dz + Conj(a.dz) : 2.0 * a.dz;
  return both * (a.x - a.y);
}
Expr SquaredDifferenceOfY(const Args& a) { return -SquaredDifferenceOfX(a); }
Expr FloorModOfY(const Args& a) { return -(a.dz * Op("Floor", a.x / a.y)); }
// The quotient whose remainder is z, for every rounding.
Expr ModOfY(const Args& a) { return -(a.dz * ((a.x - a.z) / a.y)); }

// If both values are equal, x counts as the result.
Expr MaximumOfX(const Args& a) { return Where(Op("GreaterEqual", {a.x, a.y}), a.dz, ZerosLike(a.dz)); }
Expr MaximumOfY(const Args& a) { return Where(Op("GreaterEqual", {a.x, a.y}), ZerosLike(a.dz), a.dz); }
Expr MinimumOfX(const Args& a) { return Where(Op("LessEqual", {a.x, a.y}), a.dz, ZerosLike(a.dz)); }
Expr MinimumOfY(const Args& a) { return Where(Op("LessEqual", {a.x, a.y}), ZerosLike(a.dz), a.dz); }

Expr PowOfX(const Args& a) {
  const Expr x = Conj(a.x), y = Conj(a.y);
  return a.dz * y * Op("Pow", {x, y - ScalarLike(y, 1)});
}
// log(x) where it is defined, and 0 elsewhere: powers of negative numbers have no derivative in the exponent,
// and those of 0 are constant.
Expr PowOfY(const Args& a) {
  const Expr x = Conj(a.x), zero = ScalarLike(x, 0);
  const Expr has_log = Op(IsComplexType(x.dtype()) ? "NotEqual" : "Greater", {x, zero});
  const Expr ones = Fill(ShapeOf(x), ScalarLike(x, 1));
  return a.dz * Conj(a.z) * Op("Log", Where(has_log, x, ones));
}

// z = atan(x / y), x first.
Expr Atan2OfX(const Args& a) { return a.dz * (a.y / (Op("Square", a.x) + Op("Square", a.y))); }
Expr Atan2OfY(const Args& a) { return a.dz * (-a.x / (Op("Square", a.x) + Op("Square", a.y))); }

Expr ComplexOfReal(const Args& a) { return Op("Real", {a.dz}, {{"Tout", a.x.dtype()}}); }
Expr ComplexOfImag(const Args& a) { return Op("Imag", {a.dz}, {{"Tout", a.y.dtype()}}); }

// The gradient of x + y and, with a sign of -1, of x - y. Slices stay slices unless they were broadcast.
template <int sign>
Status AddGrad(GradientContext& c) {
  const PartialShape shape = c.output(0).shape();
  const bool plain = shape.IsFullyDefined() && c.input(0).shape() == shape && c.input(1).shape() == shape;
  if (!c.has_slices(0) || !plain) return sign > 0 ? Binary<Dz, Dz>(c) : Binary<Dz, MinusDz>(c);
  c.SetInputGrad(0, c.grad_value(0));
  IndexedSlices slices = c.grad_value(0).slices;
  if (sign < 0 && c.wants(1)) slices.values = (-Expr(c.builder(), slices.values)).output();
  c.SetInputGrad(1, slices);
  return c.status();
}

Status AddNGrad(GradientContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) c.SetInputGrad(i, c.grad_value(0));
  return c.status();
}

// The condition may be a vector that chooses whole rows.
Status SelectGrad(GradientContext& c) {
  const Expr zeros = ZerosLike(c.grad(0));
  if (c.wants(1)) c.SetInputGrad(1, Where(c.input(0), c.grad(0), zeros));
  if (c.wants(2)) c.SetInputGrad(2, Where(c.input(0), zeros, c.grad(0)));
  return c.status();
}

constexpr Row kRows[] = {
    {"AccumulateNV2", AddNGrad},
    {"Add", AddGrad<1>},
    {"AddN", AddNGrad},
    {"AddV2", AddGrad<1>},
    {"Atan2", Binary<Atan2OfX, Atan2OfY>},
    {"Complex", Binary<ComplexOfReal, ComplexOfImag>},
    {"Div", Binary<DivOfX, DivOfY>},
    {"DivNoNan", Binary<DivNoNanOfX, DivNoNanOfY>},
    {"FloorMod", Binary<Dz, FloorModOfY>},
    {"Maximum", Binary<MaximumOfX, MaximumOfY>},
    {"Minimum", Binary<MinimumOfX, MinimumOfY>},
    {"Mod", Binary<Dz, ModOfY>},
    {"Mul", Binary<MulOfX, MulOfY>},
    {"Pow", Binary<PowOfX, PowOfY>},
    {"RealDiv", Binary<DivOfX, DivOfY>},
    {"Select", SelectGrad},
    {"SquaredDifference", Binary<SquaredDifferenceOfX, SquaredDifferenceOfY>},
    {"Sub", AddGrad<-1>},
    {"TruncateMod", Binary<Dz, ModOfY>},
    {"Xdivy", Binary<XdivyOfX, XdivyOfY>},
    {"Xlogy", Binary<XlogyOfX, XlogyOfY>},
};

}  // namespace

Status RegisterBinaryMathGradients(GradientRegistry& registry) {
  return gradients::RegisterEach(registry, kRows);
}

}  // namespace millrace
