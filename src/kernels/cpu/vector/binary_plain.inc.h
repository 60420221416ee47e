// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Comparisons of all real types and the cheap functions of integers for one instruction set: plain loops that
// the compiler vectorises.
#include "kernels/cpu/vector/simd.inc.h"
#include "kernels/cpu/vector/tables.h"

// Declared here: <math.h> would bring in inline functions of the standard library.
extern "C" float fmodf(float, float) noexcept;

namespace millrace::cpu::MR_ISA {
namespace {

template <BinaryOp kOp, typename T>
MR_INLINE auto Apply(T a, T b) {
  if constexpr (kOp == BinaryOp::kEqual) return (uint8_t)(a == b);
  if constexpr (kOp == BinaryOp::kNotEqual) return (uint8_t)(a != b);
  if constexpr (kOp == BinaryOp::kLess) return (uint8_t)(a < b);
  if constexpr (kOp == BinaryOp::kLessEqual) return (uint8_t)(a <= b);
  if constexpr (kOp == BinaryOp::kGreater) return (uint8_t)(a > b);
  if constexpr (kOp == BinaryOp::kGreaterEqual) return (uint8_t)(a >= b);
  if constexpr (kOp == BinaryOp::kLogicalAnd) return (uint8_t)((a != 0) & (b != 0));
  if constexpr (kOp == BinaryOp::kLogicalOr) return (uint8_t)((a | b) != 0);
  if constexpr (kOp == BinaryOp::kAdd) return (T)(a + b);
  if constexpr (kOp == BinaryOp::kSub) return (T)(a - b);
  // In at least 32 bits: the product of two uint16_t would be of type int, and could overflow.
  if constexpr (kOp == BinaryOp::kMul) return (T)((a | uint32_t{0}) * b);
  if constexpr (kOp == BinaryOp::kSquaredDifference) {
    const T d = (T)(a - b);
    return (T)((d | uint32_t{0}) * d);
  }
  if constexpr (kOp == BinaryOp::kBitwiseAnd) return (T)(a & b);
  if constexpr (kOp == BinaryOp::kBitwiseOr) return (T)(a | b);
  if constexpr (kOp == BinaryOp::kBitwiseXor) return (T)(a ^ b);
  if constexpr (kOp == BinaryOp::kLeftShift || kOp == BinaryOp::kRightShift) {
    constexpr T kMost = (T)(sizeof(T) * 8 - 1);
    const T distance = b < 0 ? T{0} : (b > kMost ? kMost : b);
    if constexpr (kOp == BinaryOp::kLeftShift) return (T)((uint64_t)a << distance);
    return (T)(a >> distance);
  }
  if constexpr (kOp == BinaryOp::kMaximum) return a < b ? b : a;
  if constexpr (kOp == BinaryOp::kMinimum) return b < a ? b : a;
  if constexpr (kOp == BinaryOp::kReluGrad) return b > 0 ? a : T{0};
  if constexpr (kOp == BinaryOp::kRelu6Grad) return b > 0 && b < 6 ? a : T{0};
}

template <BinaryOp kOp, typename T>
using ResultOf = decltype(Apply<kOp, T>(T{}, T{}));

template <BinaryOp kOp, typename T>
bool LoopSame(const void* a, const void* b, void* out, int64_t n) {
  const T* x = (const T*)a;
  const T* y = (const T*)b;
  auto* z = (ResultOf<kOp, T>*)out;
  MR_VECTORIZE
  for (int64_t i = 0; i < n; ++i) z[i] = Apply<kOp, T>(x[i], y[i]);
  return true;
}
template <BinaryOp kOp, typename T>
bool LoopLeft(const void* a, const void* b, void* out, int64_t n) {
  if (n == 0) return true;
  const T x = *(const T*)a;
  const T* y = (const T*)b;
  auto* z = (ResultOf<kOp, T>*)out;
  MR_VECTORIZE
  for (int64_t i = 0; i < n; ++i) z[i] = Apply<kOp, T>(x, y[i]);
  return true;
}
template <BinaryOp kOp, typename T>
bool LoopRight(const void* a, const void* b, void* out, int64_t n) {
  if (n == 0) return true;
  const T* x = (const T*)a;
  const T y = *(const T*)b;
  auto* z = (ResultOf<kOp, T>*)out;
  MR_VECTORIZE
  for (int64_t i = 0; i < n; ++i) z[i] = Apply<kOp, T>(x[i], y);
  return true;
}

// Quotients and remainders of integers of at most 32 bits, computed in doubles, whose whole part is exact:
// there is a vector instruction for their division, but none for that of integers.
template <BinaryOp kOp, typename T>
MR_INLINE T Divide(T a, T b, uint8_t* fine) {
  constexpr bool kSigned = (T)-1 < (T)0;
  *fine &= b != 0;
  const bool negate = kSigned && b == (T)-1;  // the lowest integer wraps
  const int32_t divisor = ((b == 0) | negate) ? 1 : (int32_t)b;
  const int32_t quotient = (int32_t)((double)(int32_t)a / (double)divisor);
  const int32_t remainder = (int32_t)a - quotient * divisor;
  const bool round_down = (remainder != 0) & ((remainder < 0) != (divisor < 0));
  const auto negative = (int32_t)(0u - (uint32_t)(int32_t)a);
  int32_t result = 0;
  if constexpr (kOp == BinaryOp::kDiv) result = negate ? negative : quotient;
  if constexpr (kOp == BinaryOp::kFloorDiv) result = negate ? negative : quotient - (round_down ? 1 : 0);
  if constexpr (kOp == BinaryOp::kMod) result = remainder;
  if constexpr (kOp == BinaryOp::kFloorMod) result = remainder + (round_down ? divisor : 0);
  return (T)(b == 0 ? 0 : result);
}

template <BinaryOp kOp, typename T, bool kLeft, bool kRight>
bool DivisionLoop(const void* a, const void* b, void* out, int64_t n) {
  if (n == 0) return true;
  const T* x = (const T*)a;
  const T* y = (const T*)b;
  T* z = (T*)out;
  const T x0 = x[0], y0 = y[0];  // z may be one of them
  uint8_t fine = 1;
  MR_VECTORIZE
  for (int64_t i = 0; i < n; ++i) z[i] = Divide<kOp, T>(kLeft ? x0 : x[i], kRight ? y0 : y[i], &fine);
  return fine != 0;
}

// Remainders of floats. For quotients of up to 29 bits doubles give them exactly, except that the quotient
// may have been rounded up to an integer; the others use the library's function.
constexpr double kMostQuotient = 0x1p29;
template <BinaryOp kOp>
MR_INLINE float FloorModOf(float remainder, float a, float b) {
  if constexpr (kOp == BinaryOp::kMod) return remainder;
  const float moved = remainder + b;  // as large as b after rounding, if at all
  const float inside =
      __builtin_fabsf(moved) >= __builtin_fabsf(b) ? __builtin_copysignf(0.0f, moved) : moved;
  return (a < 0) == (b < 0) ? remainder : inside;
}
template <BinaryOp kOp, bool kLeft, bool kRight>
bool RemainderLoop(const void* a, const void* b, void* out, int64_t n) {
  constexpr int64_t kBlock = 256;
  if (n == 0) return true;
  const float* x = (const float*)a;
  const float* y = (const float*)b;
  float* z = (float*)out;
  const float x0 = x[0], y0 = y[0];  // z may be one of them
  float block[kBlock];
  for (int64_t first = 0; first < n; first += kBlock) {
    const int64_t count = n - first < kBlock ? n - first : kBlock;
    int32_t large = 0;
    MR_VECTORIZE
    for (int64_t i = 0; i < count; ++i) {
      const float u = kLeft ? x0 : x[first + i], v = kRight ? y0 : y[first + i];
      const double quotient = (double)u / (double)v, size = __builtin_fabs(quotient);
      const bool fits = (size < kMostQuotient) & (__builtin_fabsf(v) < __builtin_inff());  // false for NaN
      large |= fits ? 0 : 1;
      const double whole = (double)(int32_t)(fits ? size : 0.0);
      const double au = __builtin_fabs((double)u), av = __builtin_fabs((double)v);
      const double rest = au - whole * av;
      const float magnitude = (float)(rest < 0 ? rest + av : rest);
      block[i] = FloorModOf<kOp>(__builtin_copysignf(magnitude, u), u, v);
    }
    for (int64_t i = 0; large != 0 && i < count; ++i) {
      const float u = kLeft ? x0 : x[first + i], v = kRight ? y0 : y[first + i];
      if (!(__builtin_fabs((double)u / (double)v) < kMostQuotient && __builtin_fabsf(v) < __builtin_inff())) {
        const float remainder = fmodf(u, v);
        block[i] = kOp == BinaryOp::kMod || (u < 0) == (v < 0) ? remainder : fmodf(remainder + v, v);
      }
    }
    memcpy(z + first, block, (size_t)count * sizeof(float));
  }
  return true;
}

template <typename T, BinaryOp... kOps>
constexpr void AddDivisions(BinaryFns* table) {
  ((table[(int)kOps] = {DivisionLoop<kOps, T, false, false>, DivisionLoop<kOps, T, true, false>,
                        DivisionLoop<kOps, T, false, true>}),
   ...);
}

template <typename T, BinaryOp... kOps>
constexpr void AddOps(BinaryFns* table) {
  ((table[(int)kOps] = {LoopSame<kOps, T>, LoopLeft<kOps, T>, LoopRight<kOps, T>}), ...);
}

template <BinaryOp kOp>
constexpr void AddRemainder(BinaryFns* table) {
  table[(int)kOp] = {RemainderLoop<kOp, false, false>, RemainderLoop<kOp, true, false>,
                     RemainderLoop<kOp, false, true>};
}
template <typename T>
constexpr void AddEqual(BinaryFns* table) {
  AddOps<T, BinaryOp::kEqual, BinaryOp::kNotEqual>(table);
}
template <typename T>
constexpr void AddOrder(BinaryFns* table) {
  AddOps<T, BinaryOp::kLess, BinaryOp::kLessEqual, BinaryOp::kGreater, BinaryOp::kGreaterEqual>(table);
}
// The functions that are equal for signed and unsigned integers, on the unsigned type, so that they wrap.
template <typename Unsigned>
constexpr void AddWrapping(BinaryFns* table) {
  AddOps<Unsigned, BinaryOp::kAdd, BinaryOp::kSub, BinaryOp::kMul, BinaryOp::kSquaredDifference,
         BinaryOp::kBitwiseAnd, BinaryOp::kBitwiseOr, BinaryOp::kBitwiseXor>(table);
  AddEqual<Unsigned>(table);
}
template <typename T, typename Unsigned>
constexpr void AddInteger(BinaryFns* table) {
  AddWrapping<Unsigned>(table);
  AddOrder<T>(table);
  AddOps<T, BinaryOp::kMaximum, BinaryOp::kMinimum, BinaryOp::kLeftShift, BinaryOp::kRightShift,
         BinaryOp::kReluGrad, BinaryOp::kRelu6Grad>(table);
  if constexpr (sizeof(T) < 4 || ((T)-1 < (T)0 && sizeof(T) == 4)) {
    AddDivisions<T, BinaryOp::kDiv, BinaryOp::kFloorDiv, BinaryOp::kMod, BinaryOp::kFloorMod>(table);
  }
}

constexpr BinaryPlainTable MakeBinaryPlainTable() {
  BinaryPlainTable table = {};
  AddEqual<float>(table.of[(int)PlainType::kFloat]);
  AddOrder<float>(table.of[(int)PlainType::kFloat]);
  AddRemainder<BinaryOp::kMod>(table.of[(int)PlainType::kFloat]);
  AddRemainder<BinaryOp::kFloorMod>(table.of[(int)PlainType::kFloat]);
  AddEqual<double>(table.of[(int)PlainType::kDouble]);
  AddOrder<double>(table.of[(int)PlainType::kDouble]);
  AddInteger<int8_t, uint8_t>(table.of[(int)PlainType::kInt8]);
  AddInteger<int16_t, uint16_t>(table.of[(int)PlainType::kInt16]);
  AddInteger<int32_t, uint32_t>(table.of[(int)PlainType::kInt32]);
  AddInteger<int64_t, uint64_t>(table.of[(int)PlainType::kInt64]);
  AddInteger<uint8_t, uint8_t>(table.of[(int)PlainType::kUint8]);
  AddInteger<uint16_t, uint16_t>(table.of[(int)PlainType::kUint16]);
  AddInteger<uint32_t, uint32_t>(table.of[(int)PlainType::kUint32]);
  AddInteger<uint64_t, uint64_t>(table.of[(int)PlainType::kUint64]);
  AddEqual<uint8_t>(table.of[(int)PlainType::kBool]);
  AddOps<uint8_t, BinaryOp::kLogicalAnd, BinaryOp::kLogicalOr>(table.of[(int)PlainType::kBool]);
  return table;
}

}  // namespace

constinit const BinaryPlainTable kBinaryPlainTable = MakeBinaryPlainTable();

}  // namespace millrace::cpu::MR_ISA
