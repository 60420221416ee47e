// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Conversions between the types for which C++ has operators, and of half and bfloat16 from and to float, for
// one instruction set. The rules are in cast.h.
#include "kernels/cpu/vector/simd.inc.h"
#include "kernels/cpu/vector/tables.h"

namespace millrace::cpu::MR_ISA {
namespace {

enum class BoolByte : uint8_t {};  // any byte but 0 is true

template <typename To, typename From>
MR_INLINE To FromFloating(From x) {
  if constexpr (sizeof(To) == 8 && (To)-1 > 0) {
    // From 2^63 on, subtract that first.
    const bool high = x >= (From)0x1p63 && x < (From)0x1p64;
    const From y = high ? x - (From)0x1p63 : x;
    const bool fits = y >= (From)-0x1p63 && y < (From)0x1p63;
    const int64_t z = fits ? (int64_t)(fits ? y : 0) : INT64_MIN;
    return (uint64_t)z ^ (high ? (uint64_t)1 << 63 : 0);
  } else if constexpr (sizeof(To) == 8 || (sizeof(To) == 4 && (To)-1 > 0)) {
    const bool fits = x >= (From)-0x1p63 && x < (From)0x1p63;
    return (To)(fits ? (int64_t)(fits ? x : 0) : INT64_MIN);
  } else {
    const bool fits = x > (From)-2147483649.0 && x < (From)0x1p31;
    // In float the bound rounds to -2^31 itself, which gives the same INT32_MIN either way.
    return (To)(fits ? (int32_t)(fits ? x : 0) : INT32_MIN);
  }
}

template <typename T>
inline constexpr bool kIsFloating = false;
template <>
inline constexpr bool kIsFloating<float> = true;
template <>
inline constexpr bool kIsFloating<double> = true;

template <typename To, typename From>
struct Convert {
  MR_INLINE To Call(From x) {
    if constexpr (kIsFloating<From> && !kIsFloating<To>) {
      return FromFloating<To>(x);
    } else {
      return (To)x;
    }
  }
};
template <typename From>
struct Convert<BoolByte, From> {
  MR_INLINE BoolByte Call(From x) { return (BoolByte)(x != (From)0); }
};
template <typename To>
struct Convert<To, BoolByte> {
  MR_INLINE To Call(BoolByte x) { return (To)(x != BoolByte{0}); }
};
template <>
struct Convert<BoolByte, BoolByte> {
  MR_INLINE BoolByte Call(BoolByte x) { return (BoolByte)(x != BoolByte{0}); }
};

template <typename To, typename From>
void Cast(const void* in, void* out, int64_t n) {
  const From* x = (const From*)in;
  To* y = (To*)out;
  MR_VECTORIZE
  for (int64_t i = 0; i < n; ++i) y[i] = Convert<To, From>::Call(x[i]);
}

// Copies the bits: signedness does not matter, and equal sizes are a plain copy.
template <int kSize>
void Copy(const void* in, void* out, int64_t n) {
  if (n > 0) memmove(out, in, (size_t)n * kSize);  // the address may be null if there are no elements
}

template <typename... Ts>
struct List {};
using Plain =
    List<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, BoolByte>;

template <typename From, typename To>
constexpr UnaryFn Choose() {
  if constexpr (kIsFloating<From> || kIsFloating<To>) {
    return Cast<To, From>;
  } else if constexpr (__is_same(From, BoolByte) || __is_same(To, BoolByte)) {
    return Cast<To, From>;
  } else if constexpr (sizeof(From) == sizeof(To)) {
    return Copy<sizeof(To)>;
  } else {
    return Cast<To, From>;
  }
}

template <typename From, typename... To>
constexpr void AddRow(UnaryFn* row, List<To...>) {
  int i = 0;
  ((row[i++] = Choose<From, To>()), ...);
}
template <typename... From>
constexpr void AddRows(CastTable* table, List<From...> types) {
  int i = 0;
  (AddRow<From>(table->plain[i++], types), ...);
}

MR_INLINE uint32_t BitsOf(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof(u));
  return u;
}
MR_INLINE float FloatOf(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof(x));
  return x;
}

// Without branches, so that the loops vectorise. Small halves are integers times 2^-24.
MR_INLINE float HalfToFloat(uint16_t h) {
  const uint32_t magnitude = h & 0x7fffu;
  const uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
  const uint32_t normal = (magnitude << 13) + ((127 - 15) << 23);
  const uint32_t special = (magnitude << 13) | 0x7f800000u | (magnitude > 0x7c00u ? 0x400000u : 0u);
  const uint32_t small = BitsOf((float)(int32_t)magnitude * 0x1p-24f);
  const uint32_t finite = magnitude < 0x0400u ? small : normal;
  return FloatOf((magnitude >= 0x7c00u ? special : finite) | sign);
}
MR_INLINE uint16_t FloatToHalf(float x) {
  const uint32_t u = BitsOf(x);
  const uint32_t magnitude = u & 0x7fffffffu;
  // Normal results: rebias the exponent, round to nearest even by adding; a carry into the exponent is right.
  const uint32_t normal = (magnitude - ((127u - 15u) << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // Results below 2^-14: adding 2^-1 leaves the rounded multiple of 2^-24 in the low bits.
  const uint32_t small = BitsOf(FloatOf(magnitude) + 0.5f) - BitsOf(0.5f);
  const uint32_t finite = magnitude < 0x38800000u ? small : normal;
  const uint32_t huge = magnitude > 0x7f800000u ? 0x7e00u | ((magnitude >> 13) & 0x3ffu) : 0x7c00u;
  return (uint16_t)((magnitude >= 0x477ff000u ? huge : finite) | ((u >> 16) & 0x8000u));
}
MR_INLINE uint16_t FloatToBfloat16(float x) {
  const uint32_t u = BitsOf(x);
  const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
}

void HalfsToFloats(const void* in, void* out, int64_t n) {
  const uint16_t* x = (const uint16_t*)in;
  float* y = (float*)out;
  int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16) {
    _mm512_storeu_ps(y + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)(x + i))));
  }
#endif
  MR_VECTORIZE
  for (; i < n; ++i) y[i] = HalfToFloat(x[i]);
}
void FloatsToHalfs(const void* in, void* out, int64_t n) {
  const float* x = (const float*)in;
  uint16_t* y = (uint16_t*)out;
  int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16) {
    const __m256i halfs =
        _mm512_cvtps_ph(_mm512_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_storeu_si256((__m256i*)(y + i), halfs);
  }
#endif
  MR_VECTORIZE
  for (; i < n; ++i) y[i] = FloatToHalf(x[i]);
}
void Bfloat16sToFloats(const void* in, void* out, int64_t n) {
  const uint16_t* x = (const uint16_t*)in;
  uint32_t* y = (uint32_t*)out;
  MR_VECTORIZE
  for (int64_t i = 0; i < n; ++i) y[i] = (uint32_t)x[i] << 16;
}
void FloatsToBfloat16s(const void* in, void* out, int64_t n) {
  const float* x = (const float*)in;
  uint16_t* y = (uint16_t*)out;
  MR_VECTORIZE
  for (int64_t i = 0; i < n; ++i) y[i] = FloatToBfloat16(x[i]);
}

constexpr CastTable MakeCastTable() {
  CastTable table = {};
  AddRows(&table, Plain());
  table.half_to_float = HalfsToFloats;
  table.float_to_half = FloatsToHalfs;
  table.bfloat16_to_float = Bfloat16sToFloats;
  table.float_to_bfloat16 = FloatsToBfloat16s;
  return table;
}

}  // namespace

constinit const CastTable kCastTable = MakeCastTable();

}  // namespace millrace::cpu::MR_ISA
