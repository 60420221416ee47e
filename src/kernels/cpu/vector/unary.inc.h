// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The unary functions of float and double for one instruction set.
#include "kernels/cpu/vector/math.inc.h"
#include "kernels/cpu/vector/tables.h"

// Declared by hand: <math.h> would bring in inline functions of the standard library.
extern "C" float sinf(float) noexcept;
extern "C" float cosf(float) noexcept;

namespace millrace::cpu::MR_ISA {
namespace {

template <typename V>
MR_INLINE V One() {
  return Set((typename ElementOf<V>::T)1);
}

template <typename V>
MR_INLINE V Neg(V x) {
  return -x;
}
template <typename V>
MR_INLINE V Sign(V x) {
  return x > 0 ? One<V>() : (x < 0 ? -One<V>() : V{});
}
template <typename V>
MR_INLINE V Square(V x) {
  return x * x;
}
template <typename V>
MR_INLINE V Rsqrt(V x) {
  return 1 / Sqrt(x);
}
template <typename V>
MR_INLINE V Reciprocal(V x) {
  return 1 / x;
}
template <typename V>
MR_INLINE V Relu(V x) {
  return Max(V{}, x);  // NaN stays
}
template <typename V>
MR_INLINE V Relu6(V x) {
  return Min(6 * One<V>(), Relu(x));
}
template <typename V>
MR_INLINE V Elu(V x) {
  return x < 0 ? Expm1(x) : x;
}
template <typename V>
MR_INLINE V Selu(V x) {
  using T = typename ElementOf<V>::T;
  return x < 0 ? (T)kSeluScaleAlpha * Expm1(x) : (T)kSeluScale * x;
}
template <typename V>
MR_INLINE V Softplus(V x) {
  // log(1 + e^x) without overflow.
  return Max(V{}, x) + Log1p(Exp(-Abs(x)));
}
template <typename V>
MR_INLINE V Softsign(V x) {
  return x / (1 + Abs(x));
}

template <VecF (*kFast)(VecF), float (*kExact)(float)>
MR_INLINE VecF WithLargeArguments(VecF x) {
  VecF y = kFast(x);
  for (int i = 0; i < Fp<float>::kLanes; ++i) {
    if (__builtin_expect(__builtin_fabsf(x[i]) > kSinMax, 0)) y[i] = kExact(x[i]);
  }
  return y;
}
MR_INLINE VecF Sin(VecF x) { return WithLargeArguments<SinQuadrant<0>, sinf>(x); }
MR_INLINE VecF Cos(VecF x) { return WithLargeArguments<SinQuadrant<1>, cosf>(x); }

template <typename T, typename Fp<T>::Vec (*kFunction)(typename Fp<T>::Vec)>
void Map(const void* in, void* out, int64_t n) {
  MapLoop((const T*)in, (T*)out, n, [](typename Fp<T>::Vec x) { return kFunction(x); });
}

enum class Class { kNan, kInf, kFinite };
template <typename T, Class kClass>
void Classify(const void* in, void* out, int64_t n) {
  const T* x = (const T*)in;
  uint8_t* y = (uint8_t*)out;
  MR_VECTORIZE
  for (int64_t i = 0; i < n; ++i) {
    const T difference = x[i] - x[i];  // 0 for finite x, else NaN
    if constexpr (kClass == Class::kNan) y[i] = x[i] != x[i];
    if constexpr (kClass == Class::kInf) y[i] = (x[i] == x[i]) & (difference != difference);
    if constexpr (kClass == Class::kFinite) y[i] = difference == difference;
  }
}

template <typename T>
constexpr void AddCommon(UnaryFn* table) {
  using V = typename Fp<T>::Vec;
  table[(int)UnaryOp::kAbs] = Map<T, Abs<V>>;
  table[(int)UnaryOp::kNeg] = Map<T, Neg<V>>;
  table[(int)UnaryOp::kSign] = Map<T, Sign<V>>;
  table[(int)UnaryOp::kSquare] = Map<T, Square<V>>;
  table[(int)UnaryOp::kSqrt] = Map<T, Sqrt>;
  table[(int)UnaryOp::kRsqrt] = Map<T, Rsqrt<V>>;
  table[(int)UnaryOp::kReciprocal] = Map<T, Reciprocal<V>>;
  table[(int)UnaryOp::kRound] = table[(int)UnaryOp::kRint] = Map<T, Rint>;
  table[(int)UnaryOp::kFloor] = Map<T, Floor>;
  table[(int)UnaryOp::kCeil] = Map<T, Ceil<V>>;
  table[(int)UnaryOp::kExp] = Map<T, Exp<V>>;
  table[(int)UnaryOp::kExpm1] = Map<T, Expm1<V>>;
  table[(int)UnaryOp::kLog] = Map<T, Log<V>>;
  table[(int)UnaryOp::kLog1p] = Map<T, Log1p<V>>;
  table[(int)UnaryOp::kTanh] = Map<T, Tanh<V>>;
  table[(int)UnaryOp::kSigmoid] = Map<T, Sigmoid<V>>;
  table[(int)UnaryOp::kRelu] = Map<T, Relu<V>>;
  table[(int)UnaryOp::kRelu6] = Map<T, Relu6<V>>;
  table[(int)UnaryOp::kElu] = Map<T, Elu<V>>;
  table[(int)UnaryOp::kSelu] = Map<T, Selu<V>>;
  table[(int)UnaryOp::kSoftplus] = Map<T, Softplus<V>>;
  table[(int)UnaryOp::kSoftsign] = Map<T, Softsign<V>>;
  table[(int)UnaryOp::kIsNan] = Classify<T, Class::kNan>;
  table[(int)UnaryOp::kIsInf] = Classify<T, Class::kInf>;
  table[(int)UnaryOp::kIsFinite] = Classify<T, Class::kFinite>;
}

constexpr UnaryTable MakeUnaryTable() {
  UnaryTable table = {};
  AddCommon<float>(table.f32);
  AddCommon<double>(table.f64);
  table.f32[(int)UnaryOp::kErf] = Map<float, Erf>;
  table.f32[(int)UnaryOp::kSin] = Map<float, Sin>;
  table.f32[(int)UnaryOp::kCos] = Map<float, Cos>;
  return table;
}

}  // namespace

constinit const UnaryTable kUnaryTable = MakeUnaryTable();

}  // namespace millrace::cpu::MR_ISA
