// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The unary ops, and their functions of float and double for one instruction set.
//
// A line for each op: its name, which is that of the op in graphs and with a k the enumerator; the types of
// its kernel for which there are functions (All, Real, Complex, Inexact, or Fixed for an op without attribute
// T); nanoseconds for a float; and the function of a vector V of elements T, or nullptr for ops whose
// functions are in unary_scalar.cc.
#ifndef MR_UNARY_OPS
#define MR_UNARY_OPS(X)                                                               \
  X(Abs, Real, 0.2, Map<T, Abs<V>>) /* of a complex number: its real magnitude */     \
  X(Neg, All, 0.2, Map<T, Neg<V>>)                                                    \
  X(Sign, All, 0.2, Map<T, Sign<V>>)                                                  \
  X(Square, All, 0.2, Map<T, Square<V>>)                                              \
  X(Sqrt, All, 0.2, Map<T, Sqrt>)                                                     \
  X(Rsqrt, All, 0.2, Map<T, Rsqrt<V>>)                                                \
  X(Reciprocal, All, 0.2, Map<T, Reciprocal<V>>) /* Inv and Reciprocal */             \
  X(Round, Inexact, 0.2, Map<T, Rint>)           /* half to even */                   \
  X(Rint, All, 0.2, Map<T, Rint>)                                                     \
  X(Floor, All, 0.2, Map<T, Floor>)                                                   \
  X(Ceil, All, 0.2, Map<T, Ceil<V>>)                                                  \
  X(Exp, All, 0.6, Map<T, Exp<V>>)                                                    \
  X(Expm1, All, 0.6, Map<T, Expm1<V>>)                                                \
  X(Log, All, 0.6, Map<T, Log<V>>)                                                    \
  X(Log1p, All, 0.6, Map<T, Log1p<V>>)                                                \
  X(Tanh, All, 0.6, Map<T, Tanh<V>>)                                                  \
  X(Sigmoid, All, 0.6, Map<T, Sigmoid<V>>)                                            \
  X(Erf, All, 0.2, nullptr)                                                           \
  X(Erfc, All, 1, nullptr)                                                            \
  X(Lgamma, All, 2, nullptr)                                                          \
  X(Digamma, All, 2, nullptr)                                                         \
  X(Sin, All, 0.2, nullptr)                                                           \
  X(Cos, All, 0.2, nullptr)                                                           \
  X(Tan, All, 0.2, nullptr)                                                           \
  X(Asin, All, 0.2, nullptr)                                                          \
  X(Acos, All, 0.2, nullptr)                                                          \
  X(Atan, All, 0.2, nullptr)                                                          \
  X(Sinh, All, 0.8, Map<T, Sinh<V>>)                                                  \
  X(Cosh, All, 0.8, Map<T, Cosh<V>>)                                                  \
  X(Asinh, All, 0.8, Map<T, Asinh<V>>)                                                \
  X(Acosh, All, 0.8, Map<T, Acosh<V>>)                                                \
  X(Atanh, All, 0.8, Map<T, Atanh<V>>)                                                \
  X(BesselI0e, All, 1, nullptr)                                                       \
  X(BesselI1e, All, 1, nullptr)                                                       \
  X(Relu, Real, 0.2, Map<T, Relu<V>>)                                                 \
  X(Relu6, Real, 0.2, Map<T, Relu6<V>>)                                               \
  X(Elu, All, 0.6, Map<T, Elu<V>>)                                                    \
  X(Selu, All, 0.6, Map<T, Selu<V>>)                                                  \
  X(Softplus, All, 0.6, Map<T, Softplus<V>>)                                          \
  X(Softsign, All, 0.2, Map<T, Softsign<V>>)                                          \
  X(IsNan, All, 0.2, Classify<T, Class::kNan>) /* this and the next two write bool */ \
  X(IsInf, All, 0.2, Classify<T, Class::kInf>)                                        \
  X(IsFinite, All, 0.2, Classify<T, Class::kFinite>)                                  \
  X(LogicalNot, Fixed, 0.2, nullptr)    /* bool only */                               \
  X(Invert, All, 0.2, nullptr)          /* integers only: all bits */                 \
  X(PopulationCount, All, 0.2, nullptr) /* integers only; writes uint8 */             \
  X(Conj, Complex, 0.2, nullptr)        /* complex only */                            \
  X(Real, Complex, 0.2, nullptr)        /* complex only; writes the real type */      \
  X(Imag, Complex, 0.2, nullptr)                                                      \
  X(Angle, Complex, 0.2, nullptr)
#endif

#ifndef MR_ONLY_UNARY_OPS
#include "kernels/cpu/vector/math.inc.h"
#include "kernels/cpu/vector/special.inc.h"
#include "kernels/cpu/vector/tables.h"

// Declared here: <math.h> would bring in inline functions of the standard library.
extern "C" float sinf(float) noexcept;
extern "C" float cosf(float) noexcept;
extern "C" float tanf(float) noexcept;

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
#if defined(__AVX512F__)
  if constexpr (sizeof(x[0]) == sizeof(float)) {
    // One step of Newton's method, which gives NaN for zero and infinity: the first value is kept
    // then.
    const VecF near = (VecF)_mm512_rsqrt14_ps((__m512)x);
    const VecF rest = 1 - x * near * near;
    const __mmask16 has_step = _mm512_cmp_ps_mask((__m512)rest, (__m512)rest, _CMP_ORD_Q);
    return (VecF)_mm512_mask_fmadd_ps((__m512)near, has_step, (__m512)(rest * 0.5f), (__m512)near);
  }
#endif
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
MR_INLINE VecF Tan(VecF x) { return WithLargeArguments<TanReduced, tanf>(x); }

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
#define MR_UNARY_ROW(name, types, ns, ...) table[(int)UnaryOp::k##name] = __VA_ARGS__;
  MR_UNARY_OPS(MR_UNARY_ROW)
#undef MR_UNARY_ROW
}

constexpr UnaryTable MakeUnaryTable() {
  UnaryTable table = {};
  AddCommon<float>(table.f32);
  AddCommon<double>(table.f64);
  table.f32[(int)UnaryOp::kErf] = Map<float, Erf>;
  table.f32[(int)UnaryOp::kSin] = Map<float, Sin>;
  table.f32[(int)UnaryOp::kCos] = Map<float, Cos>;
  table.f32[(int)UnaryOp::kTan] = Map<float, Tan>;
  table.f32[(int)UnaryOp::kAsin] = Map<float, Asin>;
  table.f32[(int)UnaryOp::kAcos] = Map<float, Acos>;
  table.f32[(int)UnaryOp::kAtan] = Map<float, Atan>;
  table.f32[(int)UnaryOp::kErfc] = Map<float, Erfc>;
  table.f32[(int)UnaryOp::kLgamma] = Map<float, Lgamma>;
  table.f32[(int)UnaryOp::kDigamma] = Map<float, Digamma>;
  table.f32[(int)UnaryOp::kBesselI0e] = Map<float, BesselI0e>;
  table.f32[(int)UnaryOp::kBesselI1e] = Map<float, BesselI1e>;
  return table;
}

}  // namespace

constinit const UnaryTable kUnaryTable = MakeUnaryTable();

}  // namespace millrace::cpu::MR_ISA

#endif  // MR_ONLY_UNARY_OPS
