// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Exponentials and logarithms of doubles without a branch or a table, for loops that the compiler vectorises
// (loop.h). Their errors are below two units in the last place.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace millrace {

// condition ? a : b, by bits: a plain choice would be compiled as a branch, which is not vectorised.
inline __attribute__((always_inline)) double LoopSelect(bool condition, double a, double b) {
  const uint64_t mask = -static_cast<uint64_t>(condition);
  return std::bit_cast<double>((std::bit_cast<uint64_t>(a) & mask) | (std::bit_cast<uint64_t>(b) & ~mask));
}

// e^(x - n log(2)) for an integer n that is next to x / log(2).
inline __attribute__((always_inline)) double LoopExpOfRest(double x, double n) {
  constexpr double kUpper = 0x1.62e42fefa3800p-1, kLower = 0x1.ef35793c76730p-45;  // of log(2)
  const double r = (x - n * kUpper) - n * kLower;
  double p = 1.0 / 6227020800;
  p = p * r + 1.0 / 479001600;
  p = p * r + 1.0 / 39916800;
  p = p * r + 1.0 / 3628800;
  p = p * r + 1.0 / 362880;
  p = p * r + 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  return 1 + (r + r * r * p);
}

// e^x; 0 below -708, where the result would not be normal.
inline __attribute__((always_inline)) double LoopExp(double x) {
  constexpr double kShifter = 0x1.8p52;
  const bool large = x > 709.782712893384, small = x < -708;
  const double y = LoopSelect(large | small, 0.0, x);  // NaN stays
  const double shifted = y * 1.4426950408889634 + kShifter, n = shifted - kShifter;
  const double e = LoopExpOfRest(y, n);
  // 2^(n - 1), as n may be 1024.
  const double power = std::bit_cast<double>((std::bit_cast<uint64_t>(shifted) + 1022) << 52);
  const double result = e * power * 2;
  return LoopSelect(small, 0.0, LoopSelect(large, std::numeric_limits<double>::infinity(), result));
}

// The logarithm. Numbers that are not normal count as zero.
inline __attribute__((always_inline)) double LoopLog(double x) {
  constexpr double kUpper = 0x1.62e42fee00000p-1, kLower = 0x1.a39ef35793c76p-33;  // of log(2)
  constexpr uint64_t kRoot = 0x3fe6a09e667f3bcd;                                   // of 1/2
  const uint64_t above = std::bit_cast<uint64_t>(x) - kRoot;
  // x = m 2^k, where m lies between the roots of 1/2 and 2. The exponent as a double, by its bits.
  const uint64_t exponent = above >> 52;  // of 12 bits, negative ones by their complement
  const double k = std::bit_cast<double>(((exponent + 2048) & 4095) | 0x4330000000000000) - (0x1p52 + 2048);
  const double m = std::bit_cast<double>((above & 0xfffffffffffff) + kRoot);
  // log(1 + f) = f - f f / 2 + s (f f / 2 + a polynomial in s s) for s = f / (2 + f)
  const double f = m - 1, half = 0.5 * f * f, s = f / (2 + f), z = s * s;
  double p = 1.479819860511658591e-01;
  p = p * z + 1.531383769920937332e-01;
  p = p * z + 1.818357216161805012e-01;
  p = p * z + 2.222219843214978396e-01;
  p = p * z + 2.857142874366239149e-01;
  p = p * z + 3.999999999940941908e-01;
  p = p * z + 6.666666666666735130e-01;
  const double result = k * kUpper - ((half - (s * (half + p * z) + k * kLower)) - f);
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double positive = LoopSelect(x < kInf, result, x);  // infinity and NaN stay
  const double other = LoopSelect(x < 0, std::numeric_limits<double>::quiet_NaN(), -kInf);
  return LoopSelect((x >= std::numeric_limits<double>::min()) | (x != x), positive, other);
}

// log(1 + x) for x >= 0.
inline __attribute__((always_inline)) double LoopLog1p(double x) {
  const double sum = 1 + x;
  const double lost = (x - (sum - 1)) / sum;
  return LoopLog(sum) + LoopSelect(x < 1, lost, 0.0);
}

// The same in single precision, with errors below two units in the last place: e^x, 0 below -86.5, and the
// logarithm of a normal number.
inline __attribute__((always_inline)) float LoopSelect(bool condition, float a, float b) {
  const uint32_t mask = -static_cast<uint32_t>(condition);
  return std::bit_cast<float>((std::bit_cast<uint32_t>(a) & mask) | (std::bit_cast<uint32_t>(b) & ~mask));
}

inline __attribute__((always_inline)) float LoopExp(float x) {
  constexpr float kShifter = 0x1.8p23f;
  const bool large = x > 88.72283f, small = x < -86.5f;
  const float y = LoopSelect(large | small, 0.0f, x);  // NaN stays
  const float shifted = y * 1.442695041f + kShifter, n = shifted - kShifter;
  const float r = (y - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  const float e = 1 + (r + r * r * p);
  // 2^(n - 1), as n may be 128.
  const float power = std::bit_cast<float>((std::bit_cast<uint32_t>(shifted) + 126) << 23);
  const float result = e * power * 2;
  return LoopSelect(small, 0.0f, LoopSelect(large, std::numeric_limits<float>::infinity(), result));
}

inline __attribute__((always_inline)) float LoopLogOfNormal(float x) {
  constexpr uint32_t kRoot = 0x3f3504f3;  // of 1/2
  const uint32_t above = std::bit_cast<uint32_t>(x) - kRoot;
  const auto k = static_cast<float>(static_cast<int32_t>(above) >> 23);
  const float m = std::bit_cast<float>((above & 0x7fffff) + kRoot);
  // As above, with a shorter polynomial.
  const float f = m - 1, half = 0.5f * f * f, s = f / (2 + f), z = s * s;
  float p = 0.28571428f;
  p = p * z + 0.4f;
  p = p * z + 0.66666667f;
  p = p * z;
  return k * 0.693359375f - ((half - (s * (half + p) + k * -2.12194440e-4f)) - f);
}

}  // namespace millrace
