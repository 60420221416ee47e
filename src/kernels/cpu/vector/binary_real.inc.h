// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The binary ops, and their functions of float and double for one instruction set.
//
// A line for each op: its name, which is that of the op in graphs and with a k the enumerator; the types of
// its kernel for which there are functions (Types in kernels/cpu/math/binary.cc); nanoseconds for a float;
// and the functions of a vector V of elements T, or {} for ops whose functions are in binary_plain.inc.h or
// binary_scalar.cc, as are those of other types.
#ifndef MR_BINARY_OPS
#define MR_BINARY_OPS(X)                                                                                \
  X(Add, Numbers, 0.2, All<T, Add<V>>()) /* integers wrap on overflow, here and below */                \
  X(Sub, Numbers, 0.2, All<T, Sub<V>>())                                                                \
  X(Mul, Numbers, 0.2, All<T, Mul<V>>())                                                                \
  /* Div, RealDiv and TruncateDiv; integers truncate; lowest / -1 wraps to lowest */                    \
  X(Div, Numbers, 0.3, All<T, Div<V>>())                                                                \
  X(FloorDiv, Reals, 0.3, All<T, FloorDiv<V>>())                                                        \
  /* Mod and TruncateMod: the sign of the dividend */                                                   \
  X(Mod, Reals, 10, {})                                                                                 \
  X(FloorMod, Reals, 10, {})                                                                            \
  X(Pow, Numbers, 2, {}) /* integers: false where an exponent is negative */                            \
  /* a < b ? b : a, so that a NaN in a is kept and one in b is ignored */                               \
  X(Maximum, Reals, 0.2, All<T, Maximum<V>>())                                                          \
  X(Minimum, Reals, 0.2, All<T, Minimum<V>>()) /* b < a ? b : a */                                      \
  X(SquaredDifference, Numbers, 0.2, All<T, SquaredDifference<V>>())                                    \
  X(Atan2, Floats, 10, {})                                                                              \
  X(DivNoNan, Inexact, 0.2, All<T, DivNoNan<V>>()) /* 0 where b is 0 */                                 \
  X(Xdivy, Inexact, 0.2, All<T, Xdivy<V>>())       /* 0 where a is 0 */                                 \
  X(Xlogy, Inexact, 1, All<T, Xlogy<V>>())         /* 0 where a is 0 */                                 \
  X(MulNoNan, Inexact, 0.2, {})                    /* 0 where b is 0 */                                 \
  X(NextAfter, PlainFloats, 10, {})                                                                     \
  X(Igamma, PlainFloats, 300, {}) /* this and the next five: special.h */                               \
  X(Igammac, PlainFloats, 300, {})                                                                      \
  X(IgammaGradA, PlainFloats, 300, {})                                                                  \
  X(RandomGammaGrad, PlainFloats, 300, {})                                                              \
  X(Polygamma, PlainFloats, 300, {})                                                                    \
  X(Zeta, PlainFloats, 300, {})                                                                         \
  X(BitwiseAnd, Integers, 0.2, {}) /* integers only, as are the next four */                            \
  X(BitwiseOr, Integers, 0.2, {})                                                                       \
  X(BitwiseXor, Integers, 0.2, {})                                                                      \
  X(LeftShift, Integers, 0.2, {})  /* the distance is clamped to [0, bits - 1] */                       \
  X(RightShift, Integers, 0.2, {}) /* arithmetic: keeps the sign */                                     \
  X(Equal, Comparable, 0.2, {})    /* this and the next five write bool */                              \
  X(NotEqual, Comparable, 0.2, {})                                                                      \
  X(Less, Reals, 0.2, {})                                                                               \
  X(LessEqual, Reals, 0.2, {})                                                                          \
  X(Greater, Reals, 0.2, {})                                                                            \
  X(GreaterEqual, Reals, 0.2, {})                                                                       \
  X(LogicalAnd, Fixed, 0.2, {}) /* bool only */                                                         \
  X(LogicalOr, Fixed, 0.2, {})                                                                          \
  /* Gradients, to the end of the list: equal shapes only. Inputs are (y, dy) for the first five and */ \
  /* (gradients, features or outputs) for the others. Of complex numbers SqrtGrad, RsqrtGrad and */     \
  /* ReciprocalGrad conjugate y first. */                                                               \
  X(SigmoidGrad, Inexact, 0.2, Same<T, SigmoidGrad<V>>())       /* dy * y * (1 - y) */                  \
  X(TanhGrad, Inexact, 0.2, Same<T, TanhGrad<V>>())             /* dy * (1 - y * y) */                  \
  X(SqrtGrad, Inexact, 0.2, Same<T, SqrtGrad<V>>())             /* dy * 0.5 / y */                      \
  X(RsqrtGrad, Inexact, 0.2, Same<T, RsqrtGrad<V>>())           /* dy * -0.5 * y^3 */                   \
  X(ReciprocalGrad, Inexact, 0.2, Same<T, ReciprocalGrad<V>>()) /* -dy * y * y */                       \
  X(ReluGrad, Reals, 0.2, Same<T, ReluGrad<V>>())               /* g where f > 0, else 0 */             \
  X(Relu6Grad, Reals, 0.2, Same<T, Relu6Grad<V>>())             /* g where 0 < f < 6, else 0 */         \
  X(EluGrad, Floats, 0.2, Same<T, EluGrad<V>>()) /* by outputs: out < 0 ? (out + 1) * g : g */          \
  /* by outputs: out < 0 ? (out + scale * alpha) * g : scale * g */                                     \
  X(SeluGrad, Floats, 0.2, Same<T, SeluGrad<V>>())                                                      \
  X(SoftplusGrad, Floats, 1, Same<T, SoftplusGrad<V>>())   /* g / (exp(-f) + 1) */                      \
  X(SoftsignGrad, Floats, 0.2, Same<T, SoftsignGrad<V>>()) /* g / (1 + |f|)^2 */
#endif

#ifndef MR_ONLY_BINARY_OPS
#include "kernels/cpu/vector/math.inc.h"
#include "kernels/cpu/vector/tables.h"

namespace millrace::cpu::MR_ISA {
namespace {

template <typename V>
MR_INLINE V Add(V a, V b) {
  return a + b;
}
template <typename V>
MR_INLINE V Sub(V a, V b) {
  return a - b;
}
template <typename V>
MR_INLINE V Mul(V a, V b) {
  return a * b;
}
template <typename V>
MR_INLINE V Div(V a, V b) {
  return a / b;
}
template <typename V>
MR_INLINE V FloorDiv(V a, V b) {
  return Floor(a / b);
}
template <typename V>
MR_INLINE V Maximum(V a, V b) {
  return Max(b, a);
}
template <typename V>
MR_INLINE V Minimum(V a, V b) {
  return Min(b, a);
}
template <typename V>
MR_INLINE V SquaredDifference(V a, V b) {
  const V d = a - b;
  return d * d;
}
template <typename V>
MR_INLINE V DivNoNan(V a, V b) {
  return b == 0 ? V{} : a / b;
}
template <typename V>
MR_INLINE V Xdivy(V a, V b) {
  return a == 0 ? V{} : a / b;
}
template <typename V>
MR_INLINE V Xlogy(V a, V b) {
  return a == 0 ? V{} : a * Log(b);
}
template <typename V>
MR_INLINE V SigmoidGrad(V y, V dy) {
  return dy * (y * (1 - y));
}
template <typename V>
MR_INLINE V TanhGrad(V y, V dy) {
  return dy * (1 - y * y);
}
template <typename V>
MR_INLINE V SqrtGrad(V y, V dy) {
  return dy * (typename ElementOf<V>::T)0.5 / y;
}
template <typename V>
MR_INLINE V RsqrtGrad(V y, V dy) {
  return dy * ((typename ElementOf<V>::T) - 0.5 * y) * (y * y);
}
template <typename V>
MR_INLINE V ReciprocalGrad(V y, V dy) {
  return dy == 0 ? V{} : -dy * (y * y);  // also where y is infinite or NaN
}
template <typename V>
MR_INLINE V ReluGrad(V g, V f) {
  return f > 0 ? g : g - g;  // NaN where the gradient is infinite or NaN: as 0 * g
}
template <typename V>
MR_INLINE V Relu6Grad(V g, V f) {
  const V zero = g - g;
  const V below = f < 6 ? g : zero;
  return f > 0 ? below : zero;
}
template <typename V>
MR_INLINE V EluGrad(V g, V out) {
  return out < 0 ? (out + 1) * g : g;
}
template <typename V>
MR_INLINE V SeluGrad(V g, V out) {
  using T = typename ElementOf<V>::T;
  return out < 0 ? (out + (T)kSeluScaleAlpha) * g : (T)kSeluScale * g;
}
template <typename V>
MR_INLINE V SoftplusGrad(V g, V f) {
  return g / (Exp(-f) + 1);
}
template <typename V>
MR_INLINE V SoftsignGrad(V g, V f) {
  const V d = 1 + Abs(f);
  return g / (d * d);
}

template <typename T, typename Fp<T>::Vec (*kFunction)(typename Fp<T>::Vec, typename Fp<T>::Vec)>
bool MapSame(const void* a, const void* b, void* out, int64_t n) {
  constexpr int kLanes = Fp<T>::kLanes;
  const T* x = (const T*)a;
  const T* y = (const T*)b;
  T* z = (T*)out;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Store(z + i, kFunction(Load(x + i), Load(y + i)));
  if (i < n) StorePart(z + i, kFunction(LoadPart(x + i, n - i), LoadPart(y + i, n - i)), n - i);
  return true;
}
template <typename T, typename Fp<T>::Vec (*kFunction)(typename Fp<T>::Vec, typename Fp<T>::Vec)>
bool MapLeft(const void* a, const void* b, void* out, int64_t n) {
  if (n == 0) return true;
  const auto x = Set(*(const T*)a);
  MapLoop((const T*)b, (T*)out, n, [x](typename Fp<T>::Vec y) { return kFunction(x, y); });
  return true;
}
template <typename T, typename Fp<T>::Vec (*kFunction)(typename Fp<T>::Vec, typename Fp<T>::Vec)>
bool MapRight(const void* a, const void* b, void* out, int64_t n) {
  if (n == 0) return true;
  const auto y = Set(*(const T*)b);
  MapLoop((const T*)a, (T*)out, n, [y](typename Fp<T>::Vec x) { return kFunction(x, y); });
  return true;
}

template <typename T, typename Fp<T>::Vec (*kFunction)(typename Fp<T>::Vec, typename Fp<T>::Vec)>
constexpr BinaryFns All() {
  return {MapSame<T, kFunction>, MapLeft<T, kFunction>, MapRight<T, kFunction>};
}
template <typename T, typename Fp<T>::Vec (*kFunction)(typename Fp<T>::Vec, typename Fp<T>::Vec)>
constexpr BinaryFns Same() {
  return {MapSame<T, kFunction>, nullptr, nullptr};
}

template <typename T>
constexpr void AddOps(BinaryFns* table) {
  using V = typename Fp<T>::Vec;
#define MR_BINARY_ROW(name, types, ns, ...) table[(int)BinaryOp::k##name] = __VA_ARGS__;
  MR_BINARY_OPS(MR_BINARY_ROW)
#undef MR_BINARY_ROW
}

constexpr BinaryRealTable MakeBinaryRealTable() {
  BinaryRealTable table = {};
  AddOps<float>(table.f32);
  table.f32[(int)BinaryOp::kAtan2] = All<float, Atan2>();
  AddOps<double>(table.f64);
  return table;
}

}  // namespace

constinit const BinaryRealTable kBinaryRealTable = MakeBinaryRealTable();

}  // namespace millrace::cpu::MR_ISA

#endif  // MR_ONLY_BINARY_OPS
