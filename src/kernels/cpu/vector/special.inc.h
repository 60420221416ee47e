// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Special functions of a register of floats. Polynomials are minimax fits by relative error; unary_test.cc
// has the bounds of the errors.
#pragma once

#include "kernels/cpu/vector/math.inc.h"

// Declared here: <math.h> and special.h would bring in inline functions of the standard library.
extern "C" float lgammaf_r(float, int*) noexcept;
namespace millrace::cpu {
double Digamma(double x);
}

namespace millrace::cpu::MR_ISA {

// e^(x + rest) for x <= 0 and a rest that is small in comparison with x.
MR_INLINE VecF ExpOfSum(VecF x, VecF rest) {
  using M = MathConstants<float>;
  x = Max(Set(M::kExpMin), x);  // NaN stays
  const VecF n = RoundSmall(x * M::kLog2E);
  const VecF r = ((x - n * M::kLn2Hi) + rest) - n * M::kLn2Lo;
  return Scale(1 + (r + r * r * Polynomial(r, M::kExp)), n);
}

MR_INLINE VecF Erfc(VecF x) {
  // e^(a^2) erfc(a) / t in t = 2 / (2 + a) for 0.5 <= a <= 10.2, where erfc is 0
  static constexpr float kFar[] = {0.282076597f, 0.282571882f,  0.241491437f, 0.209765717f,  -0.0448106192f,
                                   0.306010783f, -0.512173593f, 0.29632324f,  -0.0612448379f};
  const VecF a = Min(Set(10.2f), Abs(x));
  const VecF t = Quotient(Set(2.0f), 2 + a);
  // The square of the upper half of a's bits is exact.
  const VecF upper = (VecF)((VecU32)a & 0xfffff000u);
  const VecF power = ExpOfSum(-upper * upper, -(a - upper) * (a + upper));
  const VecF far = power * t * Polynomial(t, kFar);
  return a < 0.75f ? 1 - ErfNear(x) : x < 0 ? 2 - far : far;
}

// x > 0
MR_INLINE VecF LgammaPositive(VecF x) {
  // lgamma(2 + u) / u for |u| <= 1/2
  static constexpr float kNear[] = {0.422784328f,    0.322467029f,    -0.0673522204f,
                                    0.0205816012f,   -0.00738742715f, 0.00287905685f,
                                    -0.00117784226f, 0.000569821452f, -0.000269850774f};
  const VecF one = Set(1.0f);
  // Gamma(x) is Gamma(y) times a product, or divided by one, with y between 1.5 and 2.5.
  VecF y = Min(Set(8.0f), x), product = one;
  for (int i = 0; i < 6; ++i) {
    const auto above = y >= 2.5f;
    y = above ? y - 1 : y;
    product = above ? product * y : product;
  }
  const auto small = y < 1.5f, tiny = y < 0.5f;
  const VecF u = y - (tiny ? VecF{} : small ? one : Set(2.0f));  // exact
  product = tiny ? y * (y + 1) : small ? y : product;
  const auto large = x >= 8;
  const VecF log = Log(large ? x : product);
  const VecF near = u * Polynomial(u, kNear) + (small ? -log : log);
  const VecF r = 1 / x;
  const VecF series = r * (0.0833333358f - r * r * (0.00277777785f - r * r * 0.000793650805f));
  return large ? (x - 0.5f) * (log - 1) + (0.418938547f + series) : near;
}
MR_INLINE VecF Lgamma(VecF x) {
  VecF y = LgammaPositive(x);
  for (int i = 0; i < Fp<float>::kLanes; ++i) {
    int sign;
    if (__builtin_expect(!(x[i] > 0), 0)) y[i] = lgammaf_r(x[i], &sign);
  }
  return y;
}

// x > 0
MR_INLINE VecF DigammaPositive(VecF x) {
  // Digamma(1.5 + u) / (1.5 + u - root) for |u| <= 1/2
  static constexpr float kNear[] = {0.951055884f,  -0.423627466f,  0.240538388f,  -0.148399964f,
                                    0.0951174051f, -0.0620399974f, 0.0393618196f, -0.0258723721f,
                                    0.0239243302f, -0.0162213054f};
  constexpr float kRoot = 1.46163213f, kRootRest = 1.24381498e-8f;
  const VecF zero{}, one = Set(1.0f);
  const auto below = x < 1, above = x >= 2;
  const VecF y = below ? x + 1 : above ? x - 1 : x;
  const VecF step_down = (above ? one : -one) / (above ? y : x);
  const VecF near =
      ((y - kRoot) - kRootRest) * Polynomial(y - 1.5f, kNear) + (below | above ? step_down : zero);
  // The sum of 1 / (x + k) up to 6, as one quotient.
  VecF z = x, upper = zero, lower = one;
  for (int i = 0; i < 3; ++i) {
    const auto step = z < 6;
    upper = step ? upper * z + lower : upper;
    lower = step ? lower * z : lower;
    z = step ? z + 1 : z;
  }
  const VecF r = 1 / z, w = r * r;
  const VecF series = 0.5f * r + w * (0.0833333358f - w * (0.00833333377f - w * 0.0039682542f));
  const VecF far = (Log(z) - series) - upper / lower;
  return x < 3 ? near : far;
}
MR_INLINE VecF Digamma(VecF x) {
  VecF y = DigammaPositive(x);
  for (int i = 0; i < Fp<float>::kLanes; ++i) {
    if (__builtin_expect(!(x[i] > 0), 0)) y[i] = (float)cpu::Digamma((double)x[i]);
  }
  return y;
}

MR_INLINE VecF BesselI0e(VecF x) {
  // I0(a) in a^2 / 4 for a <= 8
  static constexpr float kNear[] = {
      1.0f,          1.0f,           0.25000003f,     0.0277777258f,   0.00173614861f, 6.94296104e-5f,
      1.9324923e-6f, 3.88651209e-8f, 6.59919064e-10f, 5.22016892e-12f, 1.42253898e-13f};
  // I0(a) e^-a sqrt(a) in 1 / a for a >= 8
  static constexpr float kFar[] = {0.398942292f,  0.0498695858f,  0.0278987978f,
                                   0.0337852389f, -0.0138518317f, 0.387970805f};
  const VecF a = Abs(x), small = Min(Set(8.0f), a);
  const VecF near = ExpOfNegative(-small) * Polynomial(small * small * 0.25f, kNear);
  return a > 8 ? Polynomial(1 / a, kFar) / Sqrt(a) : near;
}
MR_INLINE VecF BesselI1e(VecF x) {
  // I1(a) / a in a^2 / 4 for a <= 8
  static constexpr float kNear[] = {
      0.5f,           0.25000003f,    0.0416666046f,  0.0034722928f,   0.000173573528f,
      5.79799644e-6f, 1.35916864e-7f, 2.65064126e-9f, 2.29674283e-11f, 7.21012714e-13f};
  // I1(a) e^-a sqrt(a) in 1 / a for a >= 8
  static constexpr float kFar[] = {0.398942292f,  -0.149605453f,  -0.0465757735f,
                                   -0.046156235f, 0.00969809759f, -0.452375889f};
  const VecF a = Abs(x), small = Min(Set(8.0f), a);
  const VecF near = ExpOfNegative(-small) * small * Polynomial(small * small * 0.25f, kNear);
  return CopySign(a > 8 ? Polynomial(1 / a, kFar) / Sqrt(a) : near, x);
}

}  // namespace millrace::cpu::MR_ISA
