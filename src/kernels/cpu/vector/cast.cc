// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector/cast.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/cpu/vector/dispatch.h"

namespace millrace::cpu {
namespace {

using enum DataType;

template <int64_t kSize>
void Copy(const void* in, void* out, int64_t n) {
  std::memmove(out, in, static_cast<size_t>(n * kSize));
}

// In two steps, through a block of another type.
template <DataType kFrom, DataType kBetween, DataType kTo>
void Through(const void* in, void* out, int64_t n) {
  const UnaryFn first = FindCast(kFrom, kBetween);
  const UnaryFn second = FindCast(kBetween, kTo);
  alignas(64) std::array<char, kHalfBlock * 8> block;
  for (int64_t i = 0; i < n; i += kHalfBlock) {
    const int64_t size = std::min(kHalfBlock, n - i);
    first(static_cast<const char*>(in) + i * ElementSize(kFrom), block.data(), size);
    second(block.data(), static_cast<char*>(out) + i * ElementSize(kTo), size);
  }
}

// The real parts, or numbers as real parts.
template <typename T>
void RealParts(const void* in, void* out, int64_t n) {
  const auto* x = static_cast<const T*>(in);
  auto* y = static_cast<T*>(out);
  for (int64_t i = 0; i < n; ++i) y[i] = x[2 * i];
}
template <typename T>
void AsRealParts(const void* in, void* out, int64_t n) {
  const auto* x = static_cast<const T*>(in);
  auto* y = static_cast<T*>(out);
  for (int64_t i = 0; i < n; ++i) {
    y[2 * i] = x[i];
    y[2 * i + 1] = 0;
  }
}
template <typename From, typename To>
void ComplexToComplex(const void* in, void* out, int64_t n) {
  const auto* x = static_cast<const From*>(in);
  auto* y = static_cast<To*>(out);
  for (int64_t i = 0; i < 2 * n; ++i) y[i] = static_cast<To>(x[i]);
}

// For each pair of a type that needs an intermediate step and one of the others.
template <DataType kOne, DataType kBetween, DataType... kOthers>
UnaryFn FromThrough(DataType to) {
  UnaryFn found = nullptr;
  ((to == kOthers ? void(found = Through<kOne, kBetween, kOthers>) : void()), ...);
  return found;
}
template <DataType kOne, DataType kBetween, DataType... kOthers>
UnaryFn ToThrough(DataType from) {
  UnaryFn found = nullptr;
  ((from == kOthers ? void(found = Through<kOthers, kBetween, kOne>) : void()), ...);
  return found;
}

template <DataType kOne>
UnaryFn HalfCast(DataType other, bool from_half) {
  return from_half ? FromThrough<kOne, kFloat, kDouble, kInt8, kInt16, kInt32, kInt64, kUint8, kUint16,
                                 kUint32, kUint64, kBool, kHalf, kBfloat16, kComplex64, kComplex128>(other)
                   : ToThrough<kOne, kFloat, kDouble, kInt8, kInt16, kInt32, kInt64, kUint8, kUint16, kUint32,
                               kUint64, kBool, kHalf, kBfloat16, kComplex64, kComplex128>(other);
}
// Uses the conversion of the component's type.
template <DataType kOne, DataType kComponent, DataType kOtherComponent>
UnaryFn ComplexCast(DataType other, bool from_complex) {
  return from_complex ? FromThrough<kOne, kComponent, kOtherComponent, kInt8, kInt16, kInt32, kInt64, kUint8,
                                    kUint16, kUint32, kUint64, kBool>(other)
                      : ToThrough<kOne, kComponent, kOtherComponent, kInt8, kInt16, kInt32, kInt64, kUint8,
                                  kUint16, kUint32, kUint64, kBool>(other);
}

UnaryFn FindHalfCast(DataType from, DataType to) {
  const CastTable& table = ActiveTables().cast;
  if (from == to) return Copy<2>;
  if (to == kFloat) return from == kHalf ? table.half_to_float : table.bfloat16_to_float;
  if (from == kFloat) return to == kHalf ? table.float_to_half : table.float_to_bfloat16;
  if (from == kHalf) return HalfCast<kHalf>(to, true);
  if (from == kBfloat16) return HalfCast<kBfloat16>(to, true);
  return to == kHalf ? HalfCast<kHalf>(from, false) : HalfCast<kBfloat16>(from, false);
}

UnaryFn FindComplexCast(DataType from, DataType to) {
  if (from == kComplex64) {
    if (to == kComplex64) return Copy<8>;
    if (to == kComplex128) return ComplexToComplex<float, double>;
    if (to == kFloat) return RealParts<float>;
    return ComplexCast<kComplex64, kFloat, kDouble>(to, true);
  }
  if (from == kComplex128) {
    if (to == kComplex128) return Copy<16>;
    if (to == kComplex64) return ComplexToComplex<double, float>;
    if (to == kDouble) return RealParts<double>;
    return ComplexCast<kComplex128, kDouble, kFloat>(to, true);
  }
  if (to == kComplex64) {
    if (from == kFloat) return AsRealParts<float>;
    return ComplexCast<kComplex64, kFloat, kDouble>(from, false);
  }
  if (from == kDouble) return AsRealParts<double>;
  return ComplexCast<kComplex128, kDouble, kFloat>(from, false);
}

}  // namespace

UnaryFn FindCast(DataType from, DataType to) {
  if (IsHalfType(from) || IsHalfType(to)) return FindHalfCast(from, to);
  if (IsComplex(from) || IsComplex(to)) return FindComplexCast(from, to);
  const PlainType x = PlainTypeOf(from), y = PlainTypeOf(to);
  if (x == PlainType::kCount || y == PlainType::kCount) return nullptr;
  return ActiveTables().cast.plain[static_cast<int>(x)][static_cast<int>(y)];
}

}  // namespace millrace::cpu
