// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Special functions, and element-wise math that was added after TensorFlow 1.2.
#include <limits>

#include "gradients/broadcast.h"
#include "gradients/family.h"

namespace millrace {
namespace {

using gradients::Row;
using gradients::SumRepeated;

Expr Log(const Expr& x) { return Op("Log", x); }
Expr Lgamma(const Expr& x) { return Op("Lgamma", x); }
Expr Exp(const Expr& x) { return Op("Exp", x); }
Expr Select(const Expr& condition, const Expr& a, const Expr& b) { return Op("SelectV2", {condition, a, b}); }

// P(a, x), or Q = 1 - P when `sign` is -1.
template <int sign>
Status IgammaGrad(GradientContext& c) {
  const Expr a = c.input(0), x = c.input(1), dz = c.grad(0);
  const auto toward = [](const Expr& g) { return sign > 0 ? g : -g; };
  if (c.wants(0)) c.SetInputGrad(0, SumRepeated(a, x, 0, toward(dz * Op("IgammaGradA", {a, x}))));
  if (c.wants(1)) {
    const Expr density = Exp((a - 1.0) * Log(x) - x - Lgamma(a));
    c.SetInputGrad(1, SumRepeated(a, x, 1, toward(dz * density)));
  }
  return c.status();
}

// There are no derivatives by a and b, as in TensorFlow.
Status BetaincGrad(GradientContext& c) {
  const Expr a = c.input(0), b = c.input(1), x = c.input(2);
  if (!c.wants(2)) return c.status();
  const Expr log_beta = Lgamma(a) + Lgamma(b) - Lgamma(a + b);
  const Expr density = Exp((b - 1.0) * Op("Log1p", -x) + (a - 1.0) * Log(x) - log_beta);
  c.SetInputGrad(2, SumRepeated(x, c.output(0), 0, c.grad(0) * density));
  return c.status();
}

// There is no derivative by the order.
Status PolygammaGrad(GradientContext& c) {
  const Expr n = c.input(0), x = c.input(1);
  if (c.wants(1)) c.SetInputGrad(1, SumRepeated(n, x, 1, c.grad(0) * Op("Polygamma", {n + 1.0, x})));
  return c.status();
}
Status ZetaGrad(GradientContext& c) {
  const Expr x = c.input(0), q = c.input(1);
  if (c.wants(1)) c.SetInputGrad(1, SumRepeated(x, q, 1, c.grad(0) * (-x * Op("Zeta", {x + 1.0, q}))));
  return c.status();
}

Status BesselI0eGrad(GradientContext& c) {
  const Expr x = c.input(0);
  c.SetInputGrad(0, c.grad(0) * (Op("BesselI1e", x) - Op("Sign", x) * c.output(0)));
  return c.status();
}

// I1e(x) / x tends to 1/2 at 0, where the formula would divide by it.
Status BesselI1eGrad(GradientContext& c) {
  const Expr x = c.input(0);
  const double tiny = x.dtype() == DataType::kDouble ? std::numeric_limits<double>::epsilon()
                                                     : std::numeric_limits<float>::epsilon();
  const Expr has_quotient = Op("Greater", {Op("Abs", x), ScalarLike(x, tiny)});
  const Expr safe = Select(has_quotient, x, ScalarLike(x, tiny));
  const Expr slope = Op("BesselI0e", safe) - c.output(0) * (Op("Sign", safe) + 1.0 / safe);
  c.SetInputGrad(0, c.grad(0) * Select(has_quotient, slope, ScalarLike(x, 0.5)));
  return c.status();
}

Status MulNoNanGrad(GradientContext& c) {
  const Expr x = c.input(0), y = c.input(1), dz = c.grad(0);
  if (c.wants(0)) c.SetInputGrad(0, SumRepeated(x, y, 0, Op("MulNoNan", {dz, Conj(y)})));
  if (c.wants(1)) c.SetInputGrad(1, SumRepeated(x, y, 1, Op("MulNoNan", {Conj(x), dz})));
  return c.status();
}

Status NextAfterGrad(GradientContext& c) {
  const Expr x = c.input(0), y = c.input(1);
  if (c.wants(0)) c.SetInputGrad(0, SumRepeated(x, y, 0, c.grad(0)));
  if (c.wants(1)) c.SetInputGrad(1, SumRepeated(x, y, 1, ZerosLike(c.grad(0))));
  return c.status();
}

Status ClipByValueGrad(GradientContext& c) {
  const Expr x = c.input(0), low = c.input(1), high = c.input(2), dy = c.grad(0);
  const Expr below = Op("Less", {x, low}), above = Op("Greater", {x, high}), zeros = ZerosLike(dy);
  if (c.wants(0)) c.SetInputGrad(0, Select(Op("LogicalOr", {below, above}), zeros, dy));
  if (c.wants(1)) c.SetInputGrad(1, SumRepeated(low, x, 0, Select(below, dy, zeros)));
  if (c.wants(2)) c.SetInputGrad(2, SumRepeated(high, x, 0, Select(above, dy, zeros)));
  return c.status();
}

Status SelectV2Grad(GradientContext& c) {
  const Expr pick = c.input(0), z = c.output(0), dz = c.grad(0), zeros = ZerosLike(dz);
  if (c.wants(1)) c.SetInputGrad(1, SumRepeated(c.input(1), z, 0, Select(pick, dz, zeros)));
  if (c.wants(2)) c.SetInputGrad(2, SumRepeated(c.input(2), z, 0, Select(pick, zeros, dz)));
  return c.status();
}

// A sample moves with its alpha so that its quantile stays. The samples have dimensions before those of
// alpha.
Status RandomGammaGrad(GradientContext& c) {
  if (!c.wants(1)) return c.status();
  const Expr alpha = c.input(1), zero = Scalar(c.builder(), DataType::kInt32, 0);
  const Expr one = Scalar(c.builder(), DataType::kInt32, 1);
  const Expr count = Op("Size", c.input(0));
  const Expr per_sample = c.grad(0) * Op("RandomGammaGrad", {alpha, c.output(0)});
  c.SetInputGrad(1, ReshapeLike(Sum(per_sample, Op("Range", {zero, count, one})), alpha));
  return c.status();
}

constexpr Row kRows[] = {
    {"BesselI0e", BesselI0eGrad},     {"BesselI1e", BesselI1eGrad}, {"Betainc", BetaincGrad},
    {"ClipByValue", ClipByValueGrad}, {"Igamma", IgammaGrad<1>},    {"Igammac", IgammaGrad<-1>},
    {"MulNoNan", MulNoNanGrad},       {"NextAfter", NextAfterGrad}, {"Polygamma", PolygammaGrad},
    {"RandomGamma", RandomGammaGrad}, {"SelectV2", SelectV2Grad},   {"Zeta", ZetaGrad},
};

}  // namespace

Status RegisterSpecialMathGradients(GradientRegistry& registry) {
  return gradients::RegisterEach(registry, kRows);
}

}  // namespace millrace
