// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Element-wise math of one argument, and the gradients that some of these ops have as ops of their own.
#include <numbers>

#include "gradients/family.h"

namespace millrace {
namespace {

using gradients::Row;

// y = f(x); dy is what arrives.
struct Args {
  Expr x;
  Expr y;
  Expr dy;
};

template <Expr (*kFormula)(const Args&)>
Status Unary(GradientContext& c) {
  c.SetInputGrad(0, kFormula({c.input(0), c.output(0), c.grad(0)}));
  return c.status();
}

Expr Exp(const Expr& x) { return Op("Exp", x); }
Expr Sqrt(const Expr& x) { return Op("Sqrt", x); }
Expr Square(const Expr& x) { return Op("Square", x); }

Expr AbsGrad(const Args& a) { return a.dy * Op("Sign", a.x); }
Expr SignGrad(const Args& a) { return ZerosLike(a.x); }
Expr SquareGrad(const Args& a) { return a.dy * (2.0 * Conj(a.x)); }
Expr ExpGrad(const Args& a) { return a.dy * Conj(a.y); }
// This does not use y + 1, which loses all digits where x is far below zero.
Expr Expm1Grad(const Args& a) { return a.dy * Exp(Conj(a.x)); }
Expr LogGrad(const Args& a) { return a.dy / Conj(a.x); }
Expr Log1pGrad(const Args& a) { return a.dy / (1.0 + Conj(a.x)); }
Expr SinGrad(const Args& a) { return a.dy * Op("Cos", Conj(a.x)); }
Expr CosGrad(const Args& a) { return -(a.dy * Op("Sin", Conj(a.x))); }
Expr TanGrad(const Args& a) { return a.dy / Square(Op("Cos", Conj(a.x))); }
Expr AsinGrad(const Args& a) { return a.dy / Sqrt(1.0 - Square(Conj(a.x))); }
Expr AcosGrad(const Args& a) { return -AsinGrad(a); }
Expr AtanGrad(const Args& a) { return a.dy / (1.0 + Square(Conj(a.x))); }
Expr SinhGrad(const Args& a) { return a.dy * Op("Cosh", Conj(a.x)); }
Expr CoshGrad(const Args& a) { return a.dy * Op("Sinh", Conj(a.x)); }
Expr AsinhGrad(const Args& a) { return a.dy / Op("Cosh", Conj(a.y)); }
Expr AcoshGrad(const Args& a) { return a.dy / Op("Sinh", Conj(a.y)); }
Expr AtanhGrad(const Args& a) { return a.dy / (1.0 - Square(Conj(a.x))); }
Expr ErfGrad(const Args& a) { return (2.0 * std::numbers::inv_sqrtpi) * Exp(-Square(a.x)) * a.dy; }
Expr ErfcGrad(const Args& a) { return (-2.0 * std::numbers::inv_sqrtpi) * Exp(-Square(a.x)) * a.dy; }
Expr DigammaGrad(const Args& a) { return a.dy * Op("Polygamma", {ScalarLike(a.x, 1), a.x}); }
Expr LgammaGrad(const Args& a) { return a.dy * Op("Digamma", a.x); }

// These kernels take the conjugate of y themselves …
Expr ReciprocalGrad(const Args& a) { return Op("ReciprocalGrad", {a.y, a.dy}); }
Expr SqrtGrad(const Args& a) { return Op("SqrtGrad", {a.y, a.dy}); }
Expr RsqrtGrad(const Args& a) { return Op("RsqrtGrad", {a.y, a.dy}); }
// … and these do not.
Expr TanhGrad(const Args& a) { return Op("TanhGrad", {Conj(a.y), a.dy}); }
Expr SigmoidGrad(const Args& a) { return Op("SigmoidGrad", {Conj(a.y), a.dy}); }

// Gradients of a complex x. The real part is the direction 1, the imaginary part the direction i …
Expr RealGrad(const Args& a) { return CastTo(a.dy, a.x.dtype()); }
Expr ImagGrad(const Args& a) { return Op("Complex", {ScalarLike(a.dy, 0), a.dy}, {{"Tout", a.x.dtype()}}); }
Expr ConjGrad(const Args& a) { return Conj(a.dy); }
// … angles along i x / |x|^2, which is i / conj(x), …
Expr AngleGrad(const Args& a) { return ImagGrad(a) / Conj(a.x); }
// … and absolute values along x / |x|.
Expr ComplexAbsGrad(const Args& a) { return CastTo(a.dy, a.x.dtype()) * Op("Sign", a.x); }

// Gradients of gradients: z = g(y, b), where y is the value of the function and b the gradient that arrived
// at it; dz arrives here. As g is linear in b, the share for b is g again with dz in the place of b.
struct SecondArgs {
  Expr y;
  Expr b;
  Expr z;
  Expr dz;
};

template <Expr (*kOfY)(const SecondArgs&), Expr (*kOfB)(const SecondArgs&)>
Status Second(GradientContext& c) {
  const SecondArgs a{c.input(0), c.input(1), c.output(0), c.grad(0)};
  if (c.wants(0)) c.SetInputGrad(0, kOfY(a));
  if (c.wants(1)) c.SetInputGrad(1, kOfB(a));
  return c.status();
}

// z = b (1 - y^2)
Expr TanhGradOfY(const SecondArgs& a) { return -2.0 * a.dz * Conj(a.b) * Conj(a.y); }
Expr TanhGradOfB(const SecondArgs& a) { return Op("TanhGrad", {Conj(a.y), a.dz}); }
// z = b y (1 - y)
Expr SigmoidGradOfY(const SecondArgs& a) {
  const Expr db = a.dz * Conj(a.b);
  return db - 2.0 * db * Conj(a.y);
}
Expr SigmoidGradOfB(const SecondArgs& a) { return Op("SigmoidGrad", {Conj(a.y), a.dz}); }
// z = b / (2 conj(y))
Expr SqrtGradOfY(const SecondArgs& a) { return -Conj(a.dz / a.y) * a.z; }
Expr SqrtGradOfB(const SecondArgs& a) { return 0.5 * (a.dz / a.y); }
// z = -b conj(y)^3 / 2
Expr RsqrtGradOfY(const SecondArgs& a) { return -1.5 * Conj(a.dz) * a.b * Square(Conj(a.y)); }
Expr RsqrtGradOfB(const SecondArgs& a) { return Op("RsqrtGrad", {Conj(a.y), a.dz}); }
// z = -b conj(y)^2
Expr ReciprocalGradOfY(const SecondArgs& a) { return -2.0 * Conj(a.dz) * a.b * Conj(a.y); }
Expr ReciprocalGradOfB(const SecondArgs& a) { return Op("ReciprocalGrad", {Conj(a.y), a.dz}); }

// Changes the values of slices, or the gradient as it is.
template <typename F>
void SetInputGradBy(GradientContext& c, const F& change) {
  if (!c.has_slices(0)) return c.SetInputGrad(0, change(c.grad(0)));
  IndexedSlices slices = c.grad_value(0).slices;
  slices.values = change(Expr(c.builder(), slices.values)).output();
  c.SetInputGrad(0, slices);
}

Status CastGrad(GradientContext& c) {
  const DataType from = c.input(0).dtype();
  SetInputGradBy(c, [from](const Expr& dy) { return CastTo(dy, from); });
  return c.status();
}

Status NegGrad(GradientContext& c) {
  SetInputGradBy(c, [](const Expr& dy) { return -dy; });
  return c.status();
}

constexpr Row kRows[] = {
    {"Abs", Unary<AbsGrad>},
    {"Acos", Unary<AcosGrad>},
    {"Acosh", Unary<AcoshGrad>},
    {"Angle", Unary<AngleGrad>},
    {"Asin", Unary<AsinGrad>},
    {"Asinh", Unary<AsinhGrad>},
    {"Atan", Unary<AtanGrad>},
    {"Atanh", Unary<AtanhGrad>},
    {"Cast", CastGrad},
    {"ComplexAbs", Unary<ComplexAbsGrad>},
    {"Conj", Unary<ConjGrad>},
    {"Cos", Unary<CosGrad>},
    {"Cosh", Unary<CoshGrad>},
    {"Erf", Unary<ErfGrad>},
    {"Erfc", Unary<ErfcGrad>},
    {"Exp", Unary<ExpGrad>},
    {"Expm1", Unary<Expm1Grad>},
    {"Imag", Unary<ImagGrad>},
    {"Inv", Unary<ReciprocalGrad>},
    {"InvGrad", Second<ReciprocalGradOfY, ReciprocalGradOfB>},
    {"Digamma", Unary<DigammaGrad>},
    {"Lgamma", Unary<LgammaGrad>},
    {"Log", Unary<LogGrad>},
    {"Log1p", Unary<Log1pGrad>},
    {"Neg", NegGrad},
    {"Real", Unary<RealGrad>},
    {"Reciprocal", Unary<ReciprocalGrad>},
    {"ReciprocalGrad", Second<ReciprocalGradOfY, ReciprocalGradOfB>},
    {"Rsqrt", Unary<RsqrtGrad>},
    {"RsqrtGrad", Second<RsqrtGradOfY, RsqrtGradOfB>},
    {"Sigmoid", Unary<SigmoidGrad>},
    {"SigmoidGrad", Second<SigmoidGradOfY, SigmoidGradOfB>},
    {"Sign", Unary<SignGrad>},
    {"Sin", Unary<SinGrad>},
    {"Sinh", Unary<SinhGrad>},
    {"Sqrt", Unary<SqrtGrad>},
    {"SqrtGrad", Second<SqrtGradOfY, SqrtGradOfB>},
    {"Square", Unary<SquareGrad>},
    {"Tan", Unary<TanGrad>},
    {"Tanh", Unary<TanhGrad>},
    {"TanhGrad", Second<TanhGradOfY, TanhGradOfB>},
};

}  // namespace

Status RegisterUnaryMathGradients(GradientRegistry& registry) {
  return gradients::RegisterEach(registry, kRows);
}

}  // namespace millrace
