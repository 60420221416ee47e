// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector/binary_scalar.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <type_traits>
#include <utility>

#include "kernels/cpu/vector/special.h"
#include "kernels/cpu/vector/special_rows.h"

namespace millrace::cpu {
namespace {

using enum BinaryOp;

template <typename T>
inline constexpr bool kIsComplex = false;
template <typename T>
inline constexpr bool kIsComplex<std::complex<T>> = true;

// One element; clears *ok if the result is undefined.
template <BinaryOp kOp, typename T>
T Integer(T a, T b, bool* ok) {
  using U = std::make_unsigned_t<T>;
  if constexpr (kOp == kPow) {
    if (b < T{0}) {
      *ok = false;
      return 0;
    }
    U base = static_cast<U>(a), result = 1;
    for (auto e = static_cast<U>(b); e != 0; e = static_cast<U>(e >> 1)) {
      if (e & 1) result = static_cast<U>(result * (base | 0u));
      base = static_cast<U>(base * (base | 0u));
    }
    return static_cast<T>(result);
  } else {
    if (b == 0) {
      *ok = false;
      return 0;
    }
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) {  // lowest / -1 would trap
      return kOp == kDiv || kOp == kFloorDiv ? static_cast<T>(U{0} - static_cast<U>(a)) : T{0};
    }
    const T quotient = static_cast<T>(a / b);
    const T remainder = static_cast<T>(a % b);
    const bool round_down = remainder != 0 && (remainder < 0) != (b < 0);
    if constexpr (kOp == kDiv) return quotient;
    if constexpr (kOp == kFloorDiv) return static_cast<T>(quotient - round_down);
    if constexpr (kOp == kMod) return remainder;
    if constexpr (kOp == kFloorMod) return static_cast<T>(round_down ? remainder + b : remainder);
  }
}

// With the bits, which are ordered like numbers of equal sign: loops over it are vectorised, unlike those
// over std::nextafter.
template <typename T>
T NextAfter(T from, T to) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  constexpr Bits kSign = Bits{1} << (sizeof(T) * 8 - 1);
  const auto bits = std::bit_cast<Bits>(from);
  const Bits away = bits + 1, nearer = bits - 1;
  const Bits least = (std::bit_cast<Bits>(to) & kSign) | 1;
  const Bits moved = from == 0 ? least : ((from < to) == (from > 0) ? away : nearer);
  const Bits result = from == to ? std::bit_cast<Bits>(to) : moved;
  return ((from != from) | (to != to)) ? from + to : std::bit_cast<T>(result);
}

// Floating and Complex have a line for each op that they compute; for other ops they return nothing, and the
// op has no function of the type here.
template <BinaryOp kOp, typename T>
auto Floating(T a, T b) {
  if constexpr (kOp == kMod) return std::fmod(a, b);
  if constexpr (kOp == kFloorMod) {
    const T remainder = std::fmod(a, b);
    return (a < 0) == (b < 0) ? remainder : std::fmod(remainder + b, b);
  }
  if constexpr (kOp == kPow) return std::pow(a, b);
  if constexpr (kOp == kAtan2) return std::atan2(a, b);
  if constexpr (kOp == kMulNoNan) return b == 0 ? T(0) : a * b;
  if constexpr (kOp == kNextAfter) return NextAfter(a, b);
  if constexpr (kOp == kIgamma) return static_cast<T>(Igamma(a, b));
  if constexpr (kOp == kIgammac) return static_cast<T>(Igammac(a, b));
  if constexpr (kOp == kIgammaGradA) return static_cast<T>(IgammaGradA(a, b));
  if constexpr (kOp == kRandomGammaGrad) return static_cast<T>(GammaSampleGrad(a, b));
  if constexpr (kOp == kPolygamma) return static_cast<T>(Polygamma(a, b));
  if constexpr (kOp == kZeta) return static_cast<T>(Zeta(a, b));
}

template <BinaryOp kOp, typename C>
auto Complex(C a, C b) {
  if constexpr (kOp == kAdd) return a + b;
  if constexpr (kOp == kSub) return a - b;
  if constexpr (kOp == kMul) return a * b;
  if constexpr (kOp == kDiv) return a / b;
  if constexpr (kOp == kDivNoNan) return b == C(0) ? C(0) : a / b;
  if constexpr (kOp == kMulNoNan) return b == C(0) ? C(0) : a * b;
  if constexpr (kOp == kXdivy) return a == C(0) ? C(0) : a / b;
  if constexpr (kOp == kXlogy) return a == C(0) ? C(0) : a * std::log(b);
  if constexpr (kOp == kPow) return std::pow(a, b);
  if constexpr (kOp == kSquaredDifference) {
    const C d = a - b;
    return d * std::conj(d);
  }
  if constexpr (kOp == kEqual) return a == b;
  if constexpr (kOp == kNotEqual) return a != b;
  // The gradients of holomorphic functions use the conjugate of the derivative. The first two leave the
  // conjugation to their callers, the others don't; this is TensorFlow's behaviour.
  if constexpr (kOp == kSigmoidGrad) return b * a * (C(1) - a);
  if constexpr (kOp == kTanhGrad) return b * (C(1) - a * a);
  if constexpr (kOp == kSqrtGrad) return b * typename C::value_type(0.5) / std::conj(a);
  if constexpr (kOp == kRsqrtGrad) return b * typename C::value_type(-0.5) * std::conj(a * a * a);
  if constexpr (kOp == kReciprocalGrad) return -b * std::conj(a * a);
}

template <BinaryOp kOp, typename T>
auto Apply(T a, T b, [[maybe_unused]] bool* ok) {
  if constexpr (kIsComplex<T>) {
    return Complex<kOp>(a, b);
  } else if constexpr (std::is_floating_point_v<T>) {
    return Floating<kOp>(a, b);
  } else {
    return Integer<kOp>(a, b, ok);
  }
}

using RowFn = void (*)(const double* a, const double* b, double* out, int64_t n);
// The row function of a special function, or nullptr. The type determines which: under
// UndefinedBehaviorSanitizer a comparison of a function with null is not a constant expression.
template <BinaryOp kOp, typename T>
constexpr auto RowOf() {
  if constexpr (kOp == kIgamma) {
    return IgammaRow;
  } else if constexpr (kOp == kIgammac) {
    return IgammacRow;
  } else if constexpr (kOp == kIgammaGradA) {
    return IgammaGradARow;
  } else if constexpr (kOp == kZeta && sizeof(T) == sizeof(float)) {
    return ZetaRow;
  } else if constexpr (kOp == kPolygamma && sizeof(T) == sizeof(float)) {
    return PolygammaRow;
  } else {
    return nullptr;
  }
}

// Converts blocks to double; out may be one of the arguments.
template <typename T, bool kLeft, bool kRight>
void RunRows(RowFn row, const T* x, const T* y, T* out, int64_t n) {
  constexpr int64_t kBlock = 256;
  double a[kBlock], b[kBlock], results[kBlock];
  const T x0 = x[0], y0 = y[0];
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t count = std::min(kBlock, n - begin);
    for (int64_t i = 0; i < count; ++i) {
      a[i] = static_cast<double>(kLeft ? x0 : x[begin + i]);
      b[i] = static_cast<double>(kRight ? y0 : y[begin + i]);
    }
    row(a, b, results, count);
    for (int64_t i = 0; i < count; ++i) out[begin + i] = static_cast<T>(results[i]);
  }
}

// In blocks; out may be one of the arguments.
template <bool kLeft, bool kRight>
void RunPow(const float* x, const float* y, float* out, int64_t n) {
  constexpr int64_t kBlock = 256;
  float repeated[kBlock];
  if (kLeft || kRight) std::fill_n(repeated, std::min(n, kBlock), kLeft ? *x : *y);
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    PowRow(kLeft ? repeated : x + begin, kRight ? repeated : y + begin, out + begin,
           std::min(kBlock, n - begin));
  }
}

template <BinaryOp kOp, typename T, bool kLeft, bool kRight>
bool Loop(const void* a, const void* b, void* out, int64_t n) {
  bool ok = true;
  using Out = decltype(Apply<kOp>(T{}, T{}, &ok));
  const auto* x = static_cast<const T*>(a);
  const auto* y = static_cast<const T*>(b);
  auto* z = static_cast<Out*>(out);
  if (n == 0) return true;
  const T x0 = x[0], y0 = y[0];  // z may be one of them
  if constexpr (std::is_floating_point_v<T>) {
    if constexpr (!std::is_null_pointer_v<decltype(RowOf<kOp, T>())>) {
      RunRows<T, kLeft, kRight>(RowOf<kOp, T>(), x, y, z, n);
      return true;
    }
  }
  if constexpr (kOp == kPow && kRight && std::is_floating_point_v<T>) {
    if (y0 == 2) {  // exact: x * x is rounded once
      for (int64_t i = 0; i < n; ++i) z[i] = x[i] * x[i];
      return true;
    }
  }
  if constexpr (kOp == kPow && std::is_same_v<T, float>) {
    RunPow<kLeft, kRight>(x, y, z, n);
    return true;
  }
  for (int64_t i = 0; i < n; ++i) z[i] = Apply<kOp>(kLeft ? x0 : x[i], kRight ? y0 : y[i], &ok);
  return ok;
}

template <BinaryOp kOp, typename T>
constexpr BinaryFns kFns = {Loop<kOp, T, false, false>, Loop<kOp, T, true, false>, Loop<kOp, T, false, true>};

template <typename T, BinaryOp... kOps>
const BinaryFns* Pick(BinaryOp op) {
  const BinaryFns* found = nullptr;
  ((op == kOps ? void(found = &kFns<kOps, T>) : void()), ...);
  return found;
}

template <typename T>
const BinaryFns* FindInteger(BinaryOp op) {
  return Pick<T, kDiv, kFloorDiv, kMod, kFloorMod, kPow>(op);
}

// The functions of T by op; null where Apply returns nothing.
template <BinaryOp kOp, typename T>
constexpr const BinaryFns* FnsOrNull() {
  using Out = decltype(Apply<kOp>(T{}, T{}, nullptr));
  if constexpr (std::is_void_v<Out>) {
    return nullptr;
  } else {
    static_assert(std::is_same_v<Out, T> || std::is_same_v<Out, bool>);
    return &kFns<kOp, T>;
  }
}
using Table = std::array<const BinaryFns*, static_cast<size_t>(BinaryOp::kCount)>;
template <typename T, int... kOps>
constexpr Table TableOf(std::integer_sequence<int, kOps...>) {
  return {FnsOrNull<static_cast<BinaryOp>(kOps), T>()...};
}
template <typename T>
const BinaryFns* Find(BinaryOp op) {
  static constexpr Table kTable =
      TableOf<T>(std::make_integer_sequence<int, static_cast<int>(BinaryOp::kCount)>());
  return kTable[static_cast<size_t>(op)];
}

}  // namespace

const BinaryFns* FindScalarBinary(BinaryOp op, DataType type) {
  switch (type) {
    case DataType::kFloat:
      return Find<float>(op);
    case DataType::kDouble:
      return Find<double>(op);
    case DataType::kComplex64:
      return Find<std::complex<float>>(op);
    case DataType::kComplex128:
      return Find<std::complex<double>>(op);
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
    default:
      return nullptr;
  }
}

}  // namespace millrace::cpu
