// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Comparisons of all real types and the cheap functions of integers for one instruction set: plain loops that
// the compiler vectorises.
#include "kernels/cpu/vector/simd.inc.h"
#include "kernels/cpu/vector/tables.h"

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
  // Through 32 bits at least: the product of two uint16_t would be of type int, and could overflow.
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

template <typename T, BinaryOp... kOps>
constexpr void AddOps(BinaryFns* table) {
  ((table[(int)kOps] = {LoopSame<kOps, T>, LoopLeft<kOps, T>, LoopRight<kOps, T>}), ...);
}

template <typename T>
constexpr void AddEqual(BinaryFns* table) {
  AddOps<T, BinaryOp::kEqual, BinaryOp::kNotEqual>(table);
}
template <typename T>
constexpr void AddOrder(BinaryFns* table) {
  AddOps<T, BinaryOp::kLess, BinaryOp::kLessEqual, BinaryOp::kGreater, BinaryOp::kGreaterEqual>(table);
}
// The functions that are the same for signed and unsigned integers, on the unsigned type: they wrap.
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
}

constexpr BinaryPlainTable MakeBinaryPlainTable() {
  BinaryPlainTable table = {};
  AddEqual<float>(table.of[(int)PlainType::kFloat]);
  AddOrder<float>(table.of[(int)PlainType::kFloat]);
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
