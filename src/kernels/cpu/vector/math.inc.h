// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Elementary functions on one register. Polynomials are minimax fits (Remez, by relative error of the result)
// over the reduced range; unary_test.cc has the bound of the error of each function in units of the last
// place.
#pragma once

#include "kernels/cpu/vector/simd.inc.h"

namespace millrace::cpu::MR_ISA {

template <typename V, int n>
MR_INLINE V Polynomial(V x, const typename ElementOf<V>::T (&c)[n]) {
  V y = Set(c[n - 1]);
  for (int i = n - 2; i >= 0; --i) y = y * x + c[i];
  return y;
}

template <typename T>
struct MathConstants;
template <>
struct MathConstants<float> {
  static constexpr float kLog2E = 1.44269504f;
  static constexpr float kLn2Hi = 0.693359375f;  // few bits: products with exponents are exact
  static constexpr float kLn2Lo = -2.12194440e-4f;
  static constexpr float kExpMin = -104.0f;  // e^x rounds to 0 below, to infinity above
  static constexpr float kExpMax = 89.0f;
  static constexpr float kExpm1Exact = 60.0f;  // 2^60 - 1 == 2^60
  static constexpr float kTanhMax = 10.0f;     // tanh rounds to 1 from here
  static constexpr float kLogDenormal = 0x1p25f;
  static constexpr float kLogDenormalExponent = 25.0f;
  static constexpr float kMinNormal = 0x1p-126f;
  static constexpr uint32_t kSqrtHalfBits = 0x3f3504f3u;
  // (e^r - 1 - r) / r^2 for |r| <= ln(2) / 2
  static constexpr float kExp[] = {0.5f,           0.166666657f,   0.0416663587f,
                                   0.00833338965f, 0.00139406684f, 0.0001984587f};
};
template <>
struct MathConstants<double> {
  static constexpr double kLog2E = 1.4426950408889634;
  static constexpr double kLn2Hi = 6.93147180369123816490e-01;
  static constexpr double kLn2Lo = 1.90821492927058770002e-10;
  static constexpr double kExpMin = -746.0;
  static constexpr double kExpMax = 710.0;
  static constexpr double kExpm1Exact = 100.0;
  static constexpr double kTanhMax = 22.0;
  static constexpr double kLogDenormal = 0x1p54;
  static constexpr double kLogDenormalExponent = 54.0;
  static constexpr double kMinNormal = 0x1p-1022;
  static constexpr uint64_t kSqrtHalfBits = 0x3fe6a09e667f3bcdu;
  static constexpr double kExp[] = {0.5,
                                    0.16666666666666666,
                                    0.041666666666666692,
                                    0.0083333333333333124,
                                    0.0013888888888872262,
                                    0.00019841269841343047,
                                    2.4801587349500479e-05,
                                    2.755731911725792e-06,
                                    2.7557252354834321e-07,
                                    2.5052167861015657e-08,
                                    2.0921456787235125e-09,
                                    1.6059712908816821e-10};
};
template <typename V>
using MathOf = MathConstants<typename ElementOf<V>::T>;

// x = n ln(2) + r; returns e^r - 1.
template <typename V>
MR_INLINE V ExpReduced(V x, V* n) {
  using M = MathOf<V>;
  *n = RoundSmall(x * M::kLog2E);
  const V r = (x - *n * M::kLn2Hi) - *n * M::kLn2Lo;
  return r + r * r * Polynomial(r, M::kExp);
}

template <typename V>
MR_INLINE V Exp(V x) {
  using M = MathOf<V>;
  x = Min(Set(M::kExpMax), Max(Set(M::kExpMin), x));  // NaN stays
  V n;
  const V p = ExpReduced(x, &n);
  return Scale(1 + p, n);
}

// For x for which 2^n is a normal number.
template <typename V>
MR_INLINE V Expm1Normal(V x, V* n, V* p) {
  *p = ExpReduced(x, n);
  const V power = PowerOfTwo(*n);
  return power * *p + (power - 1);
}

template <typename V>
MR_INLINE V Expm1(V x) {
  using M = MathOf<V>;
  const V clamped = Min(Set(M::kExpMax), Max(Set(M::kExpMin * 3 / 4), x));
  V n, p;
  const V near = Expm1Normal(Min(Set(M::kExpm1Exact), clamped), &n, &p);
  const V y = clamped > M::kExpm1Exact ? Exp(clamped) : near;
  return x == 0 ? x : y;
}

// a / b for b that is a normal number, as is its reciprocal. A division of AVX-512 takes as long as ten other
// instructions; here the error is one unit in the last place.
template <typename V>
MR_INLINE V Quotient(V a, V b) {
  return a / b;
}
#if defined(__AVX512F__)
MR_INLINE VecF Quotient(VecF a, VecF b) {
  const VecF near = (VecF)_mm512_rcp14_ps((__m512)b);
  return a * (near + near * (1 - b * near));
}
#endif

// By a quotient of polynomials in x^2.
MR_INLINE VecF TanhByQuotient(VecF x) {
  static constexpr float kUpper[] = {1.0f, 0.13379733f, 0.0034940513f, 2.0583722e-05f, 1.3319343e-08f};
  static constexpr float kLower[] = {1.0f, 0.46713048f, 0.025871139f, 0.00032831187f, 7.762144e-07f};
  constexpr float kMax = 9.02f;  // rounds to 1 from there; beyond, the quotient stays the same
  const VecF z = Min(Set(kMax * kMax), x * x);
  const VecF y = Quotient(x * Polynomial(z, kUpper), Polynomial(z, kLower));
  return Max(Set(-1.0f), Min(Set(1.0f), y));  // NaN stays
}

template <typename V>
MR_INLINE V Tanh(V x) {
  if constexpr (sizeof(typename ElementOf<V>::T) == sizeof(float)) {
    return TanhByQuotient(x);
  } else {
    const V a = Min(Set(MathOf<V>::kTanhMax), Abs(x));
    V n, p;
    const V e = Expm1Normal(a + a, &n, &p);
    return CopySign(e / (e + 2), x);
  }
}

// e^x for x <= 0.
#if defined(__AVX512F__)
// A power of two with an exponent in sixteenths comes from a table in a register: the polynomial is short.
MR_INLINE VecF ExpOfNegative(VecF x) {
  using M = MathConstants<float>;
  static constexpr float kPowers[] = {
      1.0f,        1.04427373f, 1.09050775f, 1.13878858f, 1.18920708f, 1.24185777f, 1.29683959f, 1.35425556f,
      1.41421354f, 1.47682619f, 1.54221082f, 1.61049032f, 1.68179286f, 1.75625217f, 1.8340081f,  1.91520655f};
  constexpr float kShifter = 0x1.8p19f;  // rounds to a sixteenth, whose number is in the low bits
  x = Max(Set(M::kExpMin), x);           // NaN stays
  const VecF shifted = x * M::kLog2E + kShifter;
  const VecF n = shifted - kShifter;
  const VecF r = (x - n * M::kLn2Hi) - n * M::kLn2Lo;
  const VecF power = (VecF)_mm512_permutexvar_ps((__m512i)shifted, (__m512)Load(kPowers));
  const VecF p = ((r * 0.166666672f + 0.5f) * r + 1) * r;
  return Scale(power * p + power, n);  // scales by the whole part of n
}
#else
MR_INLINE VecF ExpOfNegative(VecF x) { return Exp(x); }
#endif
MR_INLINE VecD ExpOfNegative(VecD x) { return Exp(x); }

#if defined(__AVX512F__)
// 1 / (1 + e^-x). A power of two with an exponent in 32nds comes from a table in two registers, so that the
// polynomial is short: e^r - 1 for |r| <= ln(2) / 64, by a parabola whose error is spread evenly over that
// range. Results below the smallest normal number are zero.
MR_INLINE VecF SigmoidOfFloats(VecF x) {
  using M = MathConstants<float>;
  static constexpr float kPowers[] = {
      1.0f,        1.0218972f,  1.04427373f, 1.06714046f, 1.09050775f, 1.1143868f,  1.13878858f, 1.1637249f,
      1.18920708f, 1.21524739f, 1.24185777f, 1.26905096f, 1.29683959f, 1.32523668f, 1.35425556f, 1.38390994f,
      1.41421354f, 1.44518077f, 1.47682619f, 1.50916445f, 1.54221082f, 1.5759809f,  1.61049032f, 1.64575553f,
      1.68179286f, 1.71861935f, 1.75625217f, 1.79470909f, 1.8340081f,  1.87416768f, 1.91520655f, 1.95714414f};
  constexpr float kShifter = 0x1.8p18f;                 // rounds to a 32nd, whose number is in the low bits
  constexpr float kMost = 87.3f;                        // the reciprocal of e^87.3 is a normal number
  const VecF a = Min(Set(kMost), Max(Set(-kMost), x));  // NaN stays
  const VecF shifted = kShifter - a * M::kLog2E;
  const VecF n = shifted - kShifter;
  const VecF r = -(a + n * M::kLn2Hi) - n * M::kLn2Lo;
  const VecF power = (VecF)_mm512_permutex2var_ps((__m512)Load(kPowers), (__m512i)shifted,
                                                  (__m512)Load(kPowers + FpOf<VecF>::kLanes));
  const VecF b = 1 + Scale(power + power * ((r * 0.5f + 1.00001466f) * r), n);
  const VecF near = (VecF)_mm512_rcp14_ps((__m512)b);
  const __mmask16 is_large = _mm512_cmp_ps_mask((__m512)x, (__m512)Set(-kMost), _CMP_NLT_UQ);
  return (VecF)_mm512_maskz_fmadd_ps(is_large, (__m512)near, (__m512)(1 - b * near), (__m512)near);
}
#endif

template <typename V>
MR_INLINE V Sigmoid(V x) {
#if defined(__AVX512F__)
  if constexpr (sizeof(x[0]) == sizeof(float)) return SigmoidOfFloats(x);
#endif
  using F = FpOf<V>;
  const V e = ExpOfNegative((V)((typename F::Uint)x | F::kSign));
  return Quotient(x < 0 ? e : Set((decltype(+x[0]))1), 1 + e);
}

// log(m 2^e) for 1/sqrt(2) <= m < sqrt(2), given f = m - 1.
MR_INLINE VecF LogReduced(VecF f, VecF e) {
  using M = MathConstants<float>;
  // (log(1 + f) - f + f^2 / 2) / f^3
  static constexpr float kLog[] = {0.333333135f,  -0.250000089f, 0.200021341f,  -0.166680068f, 0.142192245f,
                                   -0.124051362f, 0.118903242f,  -0.116796523f, 0.067465961f};
  const VecF f2 = f * f;
  const VecF tail = f2 * f * Polynomial(f, kLog) + e * M::kLn2Lo;
  return (tail - 0.5f * f2 + f) + e * M::kLn2Hi;
}
MR_INLINE VecD LogReduced(VecD f, VecD e) {
  using M = MathConstants<double>;
  // With s = f / (2 + f): log(1 + f) = 2 atanh(s) = 2 s + s z R(z), z = s^2.
  static constexpr double kLog[] = {0.66666666666667351, 0.39999999999407493, 0.28571428744140748,
                                    0.22222198378532723, 0.18183575162637211, 0.15313755832536791,
                                    0.14799065399729042};
  const VecD s = f / (2 + f);
  const VecD z = s * s;
  const VecD half_square = 0.5 * f * f;
  return e * M::kLn2Hi - ((half_square - (s * (half_square + z * Polynomial(z, kLog)) + e * M::kLn2Lo)) - f);
}

// The logarithm of normal positive x, times 2^-shift.
template <typename V>
MR_INLINE V LogNormal(V x, V shift) {
  using F = FpOf<V>;
  using Uint = typename F::Uint;
  constexpr auto kOne = (typename F::Bits)F::kBias << F::kMantissa;
  const Uint bits = (Uint)x + (kOne - MathOf<V>::kSqrtHalfBits);
  const Uint mantissa = (bits & ((typename F::Bits{1} << F::kMantissa) - 1)) + MathOf<V>::kSqrtHalfBits;
  // The biased exponent is converted to a float by means of the bits of 2^kMantissa.
  const V e = (V)((bits >> F::kMantissa) | (Uint)Set(F::kInteger)) - (F::kInteger + F::kBias) - shift;
  return LogReduced((V)mantissa - 1, e);
}

template <typename V>
MR_INLINE V Log(V x) {
  using F = FpOf<V>;
  using M = MathOf<V>;
  const V zero = {};
  const V normal = x < M::kMinNormal ? x * M::kLogDenormal : x;
  V y = LogNormal(normal, x < M::kMinNormal ? Set(M::kLogDenormalExponent) : zero);
  y = x < F::kInf ? y : x;  // infinity and NaN
  y = x == 0 ? Set(-F::kInf) : y;
  return x < 0 ? Set(F::kNan) : y;
}

template <typename V>
MR_INLINE V Log1p(V x) {
  using F = FpOf<V>;
  const V u = 1 + x;
  // The rounding error of the addition, to first order.
  const V lost = x > 1 ? 1 - (u - x) : x - (u - 1);
  V y = LogNormal(u, V{}) + lost / u;
  y = x < F::kInf ? y : x;
  y = u == 0 ? Set(-F::kInf) : y;
  y = u < 0 ? Set(F::kNan) : y;
  return x == 0 ? x : y;
}

// |x| < 1
MR_INLINE VecF ErfNear(VecF x) {
  // erf(x) / x - 1 in x^2
  static constexpr float kNear[] = {0.128379166f,   -0.37612626f,    0.112835854f,   -0.026853811f,
                                    0.00518832728f, -0.00080101908f, 7.85385128e-05f};
  return x + x * Polynomial(x * x, kNear);
}
MR_INLINE VecF Erf(VecF x) {
  // log(1 - erf(x)) for 1 <= x <= 4
  static constexpr float kFar[] = {0.000188466132f, -1.12958026f,    -0.633216441f,   -0.108422086f,
                                   0.0252103284f,   -0.00420528091f, 0.000441471842f, -2.16975459e-05f};
  const VecF a = Min(Set(4.0f), Abs(x));
  const VecF near = ErfNear(x);
  VecF n;
  const VecF p = ExpReduced(Polynomial(a, kFar), &n);
  const VecF power = PowerOfTwo(n);
  const VecF far = (1 - power) - power * p;
  return a < 1 ? near : CopySign(far, x);
}

// The largest |x| for which the reduction by multiples of pi / 2 below is accurate enough.
inline constexpr float kSinMax = 8192.0f;

// sin(x) for quadrant 0, cos(x) for quadrant 1; |x| <= kSinMax.
template <int quadrant>
MR_INLINE VecF SinQuadrant(VecF x) {
  static constexpr float kSin[] = {-0.166666672f, 0.00833332911f, -0.000198393274f, 2.71823728e-06f};
  static constexpr float kCos[] = {0.0416666456f, -0.00138873619f, 2.44377297e-05f};
  const VecF shifted = x * 0.636619772f + Fp<float>::kShifter;
  const VecF n = shifted - Fp<float>::kShifter;
  // pi / 2 in four parts, of which the first three have exact products with n.
  const VecF r =
      (((x - n * 1.5703125f) - n * 0x1.fb4p-12f) - n * 0x1.444p-24f) - n * 2.56334406825708960e-12f;
  const VecF z = r * r;
  const VecF sine = r + r * z * Polynomial(z, kSin);
  const VecF cosine = (1 - 0.5f * z) + z * z * Polynomial(z, kCos);
  const VecU32 q = (VecU32)shifted + quadrant;
  const VecF y = (q & 1) != 0 ? cosine : (r == 0 ? r : sine);  // the sign of zero
  return (VecF)((VecU32)y ^ ((q & 2) << 30));
}

// |x| <= kSinMax.
MR_INLINE VecF TanReduced(VecF x) {
  // (tan(r) - r) / r^3 in r^2
  static constexpr float kTan[] = {3.33331568548e-1f, 1.33387994085e-1f, 5.34112807005e-2f,
                                   2.44301354525e-2f, 3.11992232697e-3f, 9.38540185543e-3f};
  const VecF shifted = x * 0.636619772f + Fp<float>::kShifter;
  const VecF n = shifted - Fp<float>::kShifter;
  const VecF r =
      (((x - n * 1.5703125f) - n * 0x1.fb4p-12f) - n * 0x1.444p-24f) - n * 2.56334406825708960e-12f;
  const VecF z = r * r;
  const VecF tangent = r == 0 ? r : r + r * z * Polynomial(z, kTan);  // the sign of zero
  return ((VecU32)shifted & 1) != 0 ? -1 / tangent : tangent;
}

// (atan(t) - t) / t^3 in t^2 for |t| <= tan(pi / 8)
inline constexpr float kAtan[] = {-3.33329491539e-1f, 1.99777106478e-1f, -1.38776856032e-1f,
                                  8.05374449538e-2f};
MR_INLINE VecF Atan(VecF x) {
  const VecF a = Abs(x), zero{}, one = Set(1.0f);
  const auto far = a > 2.414213562f, middle = a > 0.4142135623f;
  const VecF t = (far ? -one : middle ? a - 1 : a) / (far ? a : middle ? a + 1 : one);
  const VecF base = far ? Set(1.57079637f) : middle ? Set(0.785398185f) : zero;
  const VecF rest = far ? Set(-4.37113883e-8f) : middle ? Set(-2.18556941e-8f) : zero;
  const VecF z = t * t;
  return CopySign(base + (t + (t * z * Polynomial(z, kAtan) + rest)), x);
}

MR_INLINE VecF Atan2(VecF y, VecF x) {
  using F = Fp<float>;
  const VecF ay = Abs(y), ax = Abs(x), zero{}, one = Set(1.0f);
  const auto steep = ay > ax;
  VecF low = steep ? ax : ay, high = steep ? ay : ax;
  low = high == F::kInf ? (low == F::kInf ? one : zero) : low;
  high = ((high == 0) | (high == F::kInf)) ? one : high;
  const VecF scale = high > 0x1p126f ? Set(0.25f) : one;  // the sum below must not overflow
  low *= scale;
  high *= scale;
  const auto middle = low > 0.4142135623f * high;
  const VecF t = (middle ? low - high : low) / (middle ? low + high : high);
  const VecF base = middle ? Set(0.785398185f) : zero, rest = middle ? Set(-2.18556941e-8f) : zero;
  const VecF z = t * t;
  VecF angle = base + (t + (t * z * Polynomial(z, kAtan) + rest));
  angle = steep ? 1.57079637f - (angle + 4.37113883e-8f) : angle;
  angle = (F::Int)x < 0 ? 3.14159274f - (angle + 8.74227766e-8f) : angle;
  return ((x != x) | (y != y)) ? x + y : CopySign(angle, y);
}

// asin(s) for s^2 = z, 0 <= s <= 1/2.
MR_INLINE VecF AsinNear(VecF s, VecF z) {
  static constexpr float kAsin[] = {1.6666752422e-1f, 7.4953002686e-2f, 4.5470025998e-2f, 2.4181311049e-2f,
                                    4.2163199048e-2f};
  return s + s * z * Polynomial(z, kAsin);
}
MR_INLINE VecF Asin(VecF x) {
  const VecF a = Abs(x);
  const auto far = a > 0.5f;
  const VecF z = far ? 0.5f * (1 - a) : a * a;  // NaN comes out beyond 1
  const VecF y = AsinNear(far ? Sqrt(z) : a, z);
  return CopySign(far ? 1.57079637f - (2 * y + 4.37113883e-8f) : y, x);
}
MR_INLINE VecF Acos(VecF x) {
  const VecF a = Abs(x);
  const auto far = a > 0.5f;
  const VecF z = far ? 0.5f * (1 - a) : a * a;
  const VecF y = AsinNear(far ? Sqrt(z) : a, z);
  const VecF twice = y + y;
  const VecF outside = x < 0 ? 3.14159274f - (twice + 8.74227766e-8f) : twice;
  return far ? outside : 1.57079637f - (CopySign(y, x) + 4.37113883e-8f);
}

// Hyperbolic functions and their inverses, with the exact sign of zero. Beyond kLarge one of the two terms is
// negligible, and squares might overflow.
template <typename V>
MR_INLINE V HalfExp(V a) {
  const V root = Exp(a * (decltype(+a[0]))0.5);
  return root * (decltype(+a[0]))0.5 * root;
}
template <typename V>
MR_INLINE V Sinh(V x) {
  constexpr int kLarge = 20;
  const V a = Abs(x);
  const V e = Expm1(Min(Set((decltype(+x[0]))kLarge), a));
  const V near = (e + e / (e + 1)) * (decltype(+x[0]))0.5;
  return CopySign(a > kLarge ? HalfExp(a) : near, x);
}
template <typename V>
MR_INLINE V Cosh(V x) {
  constexpr int kLarge = 20;
  const V a = Abs(x);
  const V e = Exp(Min(Set((decltype(+x[0]))kLarge), a));
  return a > kLarge ? HalfExp(a) : (e + 1 / e) * (decltype(+x[0]))0.5;
}
template <typename V>
inline constexpr auto kLargeOf = (typename ElementOf<V>::T)(sizeof(typename ElementOf<V>::T) == 4 ? 0x1p12
                                                                                                  : 0x1p28);
template <typename V>
MR_INLINE V LogOfTwice(V x) {
  return Log(x) + (typename ElementOf<V>::T)0.693147180559945309417;
}
template <typename V>
MR_INLINE V Asinh(V x) {
  const V a = Abs(x);
  const V near = Log1p(a + a * a / (1 + Sqrt(1 + a * a)));
  return CopySign(a > kLargeOf<V> ? LogOfTwice(a) : near, x);
}
template <typename V>
MR_INLINE V Acosh(V x) {
  const V t = x - 1;
  const V near = Log1p(t + Sqrt(t * (t + 2)));
  const V y = x > kLargeOf<V> ? LogOfTwice(x) : near;
  return x < 1 ? Set(FpOf<V>::kNan) : y;
}
template <typename V>
MR_INLINE V Atanh(V x) {
  const V a = Abs(x);
  return CopySign(Log1p(2 * a / (1 - a)) * (decltype(+x[0]))0.5, x);
}

}  // namespace millrace::cpu::MR_ISA
