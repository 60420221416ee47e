// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector/unary_scalar.h"

#include <math.h>  // lgamma_r

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "kernels/cpu/loop.h"
#include "kernels/cpu/vector/dispatch.h"
#include "kernels/cpu/vector/special.h"

namespace millrace::cpu {
namespace {

float Lgamma(float x) {
  int sign;  // std::lgamma writes it to a global
  return lgammaf_r(x, &sign);
}
double Lgamma(double x) {
  int sign;
  return lgamma_r(x, &sign);
}

// Real, Complex and Integer have a line for each op that they compute; for other ops they return nothing, and
// the op has no function of the type.
template <UnaryOp kOp, typename T>
auto Real(T x) {
  if constexpr (kOp == UnaryOp::kErf) return std::erf(x);
  if constexpr (kOp == UnaryOp::kErfc) return std::erfc(x);
  if constexpr (kOp == UnaryOp::kLgamma) return Lgamma(x);
  if constexpr (kOp == UnaryOp::kDigamma) return static_cast<T>(Digamma(x));
  if constexpr (kOp == UnaryOp::kSin) return std::sin(x);
  if constexpr (kOp == UnaryOp::kCos) return std::cos(x);
  if constexpr (kOp == UnaryOp::kTan) return std::tan(x);
  if constexpr (kOp == UnaryOp::kAsin) return std::asin(x);
  if constexpr (kOp == UnaryOp::kAcos) return std::acos(x);
  if constexpr (kOp == UnaryOp::kAtan) return std::atan(x);
  if constexpr (kOp == UnaryOp::kBesselI0e) return static_cast<T>(BesselI0e(x));
  if constexpr (kOp == UnaryOp::kBesselI1e) return static_cast<T>(BesselI1e(x));
}

// Squares of floats fit into a double; an infinite part takes precedence over NaN.
inline float Magnitude(std::complex<float> x) {
  const double re = x.real(), im = x.imag();
  const auto magnitude = static_cast<float>(std::sqrt(re * re + im * im));
  return std::isinf(x.real()) || std::isinf(x.imag()) ? std::numeric_limits<float>::infinity() : magnitude;
}
inline double Magnitude(std::complex<double> x) { return std::abs(x); }

template <UnaryOp kOp, typename T>
auto Complex(std::complex<T> x) {
  using C = std::complex<T>;
  const C one(1);
  if constexpr (kOp == UnaryOp::kAbs) return Magnitude(x);
  if constexpr (kOp == UnaryOp::kReal) return x.real();
  if constexpr (kOp == UnaryOp::kImag) return x.imag();
  if constexpr (kOp == UnaryOp::kAngle) return std::arg(x);
  if constexpr (kOp == UnaryOp::kConj) return std::conj(x);
  if constexpr (kOp == UnaryOp::kNeg) return -x;
  if constexpr (kOp == UnaryOp::kSign) return x == C(0) ? C(0) : x / std::abs(x);
  if constexpr (kOp == UnaryOp::kSquare) return x * x;
  if constexpr (kOp == UnaryOp::kSqrt) return std::sqrt(x);
  if constexpr (kOp == UnaryOp::kRsqrt) return one / std::sqrt(x);
  if constexpr (kOp == UnaryOp::kReciprocal) return one / x;
  if constexpr (kOp == UnaryOp::kExp) return std::exp(x);
  if constexpr (kOp == UnaryOp::kExpm1) {
    // e^a cos(b) - 1 = expm1(a) cos(b) - 2 sin^2(b / 2), without cancellation near 0.
    const T half_sine = std::sin(x.imag() / 2);
    return C(std::expm1(x.real()) * std::cos(x.imag()) - 2 * half_sine * half_sine,
             std::exp(x.real()) * std::sin(x.imag()));
  }
  if constexpr (kOp == UnaryOp::kLog) return std::log(x);
  if constexpr (kOp == UnaryOp::kLog1p) {
    // |1 + x|^2 - 1 = a (a + 2) + b^2.
    const T a = x.real(), b = x.imag();
    return C(T(0.5) * std::log1p(a * (a + 2) + b * b), std::atan2(b, 1 + a));
  }
  if constexpr (kOp == UnaryOp::kTanh) return std::tanh(x);
  if constexpr (kOp == UnaryOp::kSigmoid) return one / (one + std::exp(-x));
  if constexpr (kOp == UnaryOp::kSin) return std::sin(x);
  if constexpr (kOp == UnaryOp::kCos) return std::cos(x);
  if constexpr (kOp == UnaryOp::kTan) return std::tan(x);
  if constexpr (kOp == UnaryOp::kAsin) return std::asin(x);
  if constexpr (kOp == UnaryOp::kAcos) return std::acos(x);
  if constexpr (kOp == UnaryOp::kAtan) return std::atan(x);
  if constexpr (kOp == UnaryOp::kSinh) return std::sinh(x);
  if constexpr (kOp == UnaryOp::kCosh) return std::cosh(x);
  if constexpr (kOp == UnaryOp::kAsinh) return std::asinh(x);
  if constexpr (kOp == UnaryOp::kAcosh) return std::acosh(x);
  if constexpr (kOp == UnaryOp::kAtanh) return std::atanh(x);
}

// The number of bits that are set in x, by sums of adjacent fields: loops over it are vectorised, unlike
// those over std::popcount.
template <typename U>
uint8_t CountBits(U x) {
  x = static_cast<U>(x - ((x >> 1) & static_cast<U>(0x5555555555555555u)));
  constexpr U kPairs = static_cast<U>(0x3333333333333333u);
  x = static_cast<U>((x & kPairs) + ((x >> 2) & kPairs));
  x = static_cast<U>((x + (x >> 4)) & static_cast<U>(0x0f0f0f0f0f0f0f0fu));
  if constexpr (sizeof(U) > 1) x = static_cast<U>(x + (x >> 8));
  if constexpr (sizeof(U) > 2) x = static_cast<U>(x + (x >> 16));
  if constexpr (sizeof(U) > 4) x = static_cast<U>(x + (x >> 32));
  return static_cast<uint8_t>(x & 0x7f);
}

// The lowest integer is its own negative and its own magnitude.
template <UnaryOp kOp, typename T>
auto Integer(T x) {
  using U = std::make_unsigned_t<T>;
  const auto negative = static_cast<T>(U{0} - static_cast<U>(x));
  if constexpr (kOp == UnaryOp::kAbs) return x < 0 ? negative : x;
  if constexpr (kOp == UnaryOp::kNeg) return negative;
  if constexpr (kOp == UnaryOp::kSign) return static_cast<T>((x > 0) - (x < 0));
  if constexpr (kOp == UnaryOp::kSquare) return static_cast<T>(static_cast<U>((x | 0u) * U(x)));
  if constexpr (kOp == UnaryOp::kInvert) return static_cast<T>(~x);
  if constexpr (kOp == UnaryOp::kRound) return x;
  if constexpr (kOp == UnaryOp::kRelu) return x < 0 ? T{0} : x;
  if constexpr (kOp == UnaryOp::kRelu6) return x < 0 ? T{0} : x > 6 ? T{6} : x;
}

template <typename In, auto kFunction>
void Loop(const void* in, void* out, int64_t n) {
  using Out = decltype(kFunction(In{}));
  const auto* x = static_cast<const In*>(in);
  auto* y = static_cast<Out*>(out);
  for (int64_t i = 0; i < n; ++i) y[i] = kFunction(x[i]);
}

template <typename U>
void CountAllBits(const void* in, void* out, int64_t n) {
  millrace::MapLoop(static_cast<const U*>(in), static_cast<uint8_t*>(out), n,
                    [](U x) MR_INLINE_LAMBDA { return CountBits(x); });
}

// In blocks of real and imaginary parts.
void Angles(const void* in, void* out, int64_t n) {
  constexpr int64_t kBlock = 256;
  const auto* x = static_cast<const float*>(in);
  auto* y = static_cast<float*>(out);
  float re[kBlock], im[kBlock];
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t count = std::min(kBlock, n - begin);
    for (int64_t i = 0; i < count; ++i) {
      re[i] = x[2 * (begin + i)];
      im[i] = x[2 * (begin + i) + 1];
    }
    ActiveTables().binary_real.f32[static_cast<int>(BinaryOp::kAtan2)].same(im, re, y + begin, count);
  }
}

void LogicalNot(const void* in, void* out, int64_t n) {
  const auto* x = static_cast<const uint8_t*>(in);
  auto* y = static_cast<uint8_t*>(out);
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] == 0;
}

// A loop over In by kFunction; null if that returns nothing.
template <typename In, auto kFunction>
constexpr UnaryFn LoopOf() {
  if constexpr (std::is_void_v<decltype(kFunction(In{}))>) {
    return nullptr;
  } else {
    return Loop<In, kFunction>;
  }
}

// By op.
using Loops = std::array<UnaryFn, static_cast<size_t>(UnaryOp::kCount)>;
using AllOps = std::make_integer_sequence<int, static_cast<int>(UnaryOp::kCount)>;

template <typename T, int... kOps>
constexpr Loops RealLoops(std::integer_sequence<int, kOps...>) {
  static_assert(((std::is_void_v<decltype(Real<static_cast<UnaryOp>(kOps), T>(T{}))> ||
                  std::is_same_v<decltype(Real<static_cast<UnaryOp>(kOps), T>(T{})), T>)&&...));
  return {LoopOf<T, Real<static_cast<UnaryOp>(kOps), T>>()...};
}
template <typename T, int... kOps>
constexpr Loops ComplexLoops(std::integer_sequence<int, kOps...>) {
  return {LoopOf<std::complex<T>, Complex<static_cast<UnaryOp>(kOps), T>>()...};
}
template <typename T, int... kOps>
constexpr Loops IntegerLoops(std::integer_sequence<int, kOps...>) {
  return {LoopOf<T, Integer<static_cast<UnaryOp>(kOps), T>>()...};
}

template <typename T>
UnaryFn FindReal(UnaryOp op) {
  static constexpr Loops kLoops = RealLoops<T>(AllOps());
  return kLoops[static_cast<size_t>(op)];
}
template <typename T>
UnaryFn FindComplex(UnaryOp op) {
  static constexpr Loops kLoops = ComplexLoops<T>(AllOps());
  return kLoops[static_cast<size_t>(op)];
}
template <typename T>
UnaryFn FindInteger(UnaryOp op) {
  static constexpr Loops kLoops = IntegerLoops<T>(AllOps());
  if (op == UnaryOp::kPopulationCount) return CountAllBits<std::make_unsigned_t<T>>;
  return kLoops[static_cast<size_t>(op)];
}

}  // namespace

UnaryFn FindScalarUnary(UnaryOp op, DataType type) {
  switch (type) {
    case DataType::kFloat:
      return FindReal<float>(op);
    case DataType::kDouble:
      return FindReal<double>(op);
    case DataType::kComplex64:
      if (op == UnaryOp::kAngle) return Angles;
      return FindComplex<float>(op);
    case DataType::kComplex128:
      return FindComplex<double>(op);
    case DataType::kInt8:
      return FindInteger<int8_t>(op);
    case DataType::kInt16:
      return FindInteger<int16_t>(op);
    case DataType::kInt32:
      return FindInteger<int32_t>(op);
    case DataType::kInt64:
      return FindInteger<int64_t>(op);
    case DataType::kUint8:
      return FindInteger<uint8_t>(op);
    case DataType::kUint16:
      return FindInteger<uint16_t>(op);
    case DataType::kUint32:
      return FindInteger<uint32_t>(op);
    case DataType::kUint64:
      return FindInteger<uint64_t>(op);
    case DataType::kBool:
      return op == UnaryOp::kLogicalNot ? LogicalNot : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace millrace::cpu
