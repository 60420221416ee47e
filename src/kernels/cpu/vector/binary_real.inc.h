// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The binary functions of float and double for one instruction set.
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
  table[(int)BinaryOp::kAdd] = All<T, Add<V>>();
  table[(int)BinaryOp::kSub] = All<T, Sub<V>>();
  table[(int)BinaryOp::kMul] = All<T, Mul<V>>();
  table[(int)BinaryOp::kDiv] = All<T, Div<V>>();
  table[(int)BinaryOp::kFloorDiv] = All<T, FloorDiv<V>>();
  table[(int)BinaryOp::kMaximum] = All<T, Maximum<V>>();
  table[(int)BinaryOp::kMinimum] = All<T, Minimum<V>>();
  table[(int)BinaryOp::kSquaredDifference] = All<T, SquaredDifference<V>>();
  table[(int)BinaryOp::kDivNoNan] = All<T, DivNoNan<V>>();
  table[(int)BinaryOp::kXdivy] = All<T, Xdivy<V>>();
  table[(int)BinaryOp::kXlogy] = All<T, Xlogy<V>>();
  table[(int)BinaryOp::kSigmoidGrad] = Same<T, SigmoidGrad<V>>();
  table[(int)BinaryOp::kTanhGrad] = Same<T, TanhGrad<V>>();
  table[(int)BinaryOp::kSqrtGrad] = Same<T, SqrtGrad<V>>();
  table[(int)BinaryOp::kRsqrtGrad] = Same<T, RsqrtGrad<V>>();
  table[(int)BinaryOp::kReciprocalGrad] = Same<T, ReciprocalGrad<V>>();
  table[(int)BinaryOp::kReluGrad] = Same<T, ReluGrad<V>>();
  table[(int)BinaryOp::kRelu6Grad] = Same<T, Relu6Grad<V>>();
  table[(int)BinaryOp::kEluGrad] = Same<T, EluGrad<V>>();
  table[(int)BinaryOp::kSeluGrad] = Same<T, SeluGrad<V>>();
  table[(int)BinaryOp::kSoftplusGrad] = Same<T, SoftplusGrad<V>>();
  table[(int)BinaryOp::kSoftsignGrad] = Same<T, SoftsignGrad<V>>();
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
