// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// One register of floats or doubles of the instruction set that the including unit is compiled for. The unit
// defines MR_ISA, the namespace of that set. Arithmetic uses the compilers' vector extension; this file adds
// what the extension lacks. It must not bring in inline functions of the standard library: the linker might
// keep the copy that uses instructions which the processor lacks.
#pragma once

#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define MR_INLINE static inline __attribute__((always_inline, unused))
#if defined(__clang__)
#define MR_VECTORIZE _Pragma("clang loop vectorize(assume_safety)")
#else
#define MR_VECTORIZE _Pragma("GCC ivdep")
#endif

namespace millrace::cpu::MR_ISA {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif

typedef float VecF __attribute__((vector_size(kVectorBytes)));
typedef double VecD __attribute__((vector_size(kVectorBytes)));
typedef int32_t VecI32 __attribute__((vector_size(kVectorBytes)));
typedef int64_t VecI64 __attribute__((vector_size(kVectorBytes)));
typedef uint32_t VecU32 __attribute__((vector_size(kVectorBytes)));
typedef uint64_t VecU64 __attribute__((vector_size(kVectorBytes)));

// Constants of the element type. Adding kShifter to a float rounds it to an integer held in the low bits.
template <typename T>
struct Fp;
template <>
struct Fp<float> {
  using Vec = VecF;
  using Int = VecI32;
  using Uint = VecU32;
  using Bits = uint32_t;
  static constexpr int kLanes = kVectorBytes / 4;
  static constexpr int kMantissa = 23;
  static constexpr int kBias = 127;
  static constexpr uint32_t kSign = 0x80000000u;
  static constexpr float kShifter = 0x1.8p23f;
  static constexpr float kInteger = 0x1p23f;  // from here on every float is an integer
  static constexpr float kInf = __builtin_inff();
  static constexpr float kNan = __builtin_nanf("");
};
template <>
struct Fp<double> {
  using Vec = VecD;
  using Int = VecI64;
  using Uint = VecU64;
  using Bits = uint64_t;
  static constexpr int kLanes = kVectorBytes / 8;
  static constexpr int kMantissa = 52;
  static constexpr int kBias = 1023;
  static constexpr uint64_t kSign = 0x8000000000000000u;
  static constexpr double kShifter = 0x1.8p52;
  static constexpr double kInteger = 0x1p52;
  static constexpr double kInf = __builtin_inf();
  static constexpr double kNan = __builtin_nan("");
};
template <typename V>
struct ElementOf;
template <>
struct ElementOf<VecF> {
  using T = float;
};
template <>
struct ElementOf<VecD> {
  using T = double;
};
template <typename V>
using FpOf = Fp<typename ElementOf<V>::T>;

template <typename T>
MR_INLINE typename Fp<T>::Vec Set(T x) {
  return x - typename Fp<T>::Vec{};
}

template <typename T>
MR_INLINE typename Fp<T>::Vec Load(const T* p) {
  typename Fp<T>::Vec v;
  memcpy(&v, p, sizeof(v));
  return v;
}
template <typename T>
MR_INLINE void Store(T* p, typename Fp<T>::Vec v) {
  memcpy(p, &v, sizeof(v));
}

// The first n lanes, 0 < n < kLanes; the others are 0 after a load and not written by a store.
#if defined(__AVX512F__)
MR_INLINE VecF LoadPart(const float* p, int64_t n) {
  return (VecF)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
}
MR_INLINE VecD LoadPart(const double* p, int64_t n) {
  return (VecD)_mm512_maskz_loadu_pd((__mmask8)((1u << n) - 1), p);
}
MR_INLINE void StorePart(float* p, VecF v, int64_t n) {
  _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
}
MR_INLINE void StorePart(double* p, VecD v, int64_t n) {
  _mm512_mask_storeu_pd(p, (__mmask8)((1u << n) - 1), (__m512d)v);
}
#elif defined(__AVX2__)
MR_INLINE __m256i PartMask32(int64_t n) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lanes);
}
MR_INLINE __m256i PartMask64(int64_t n) {
  const __m256i lanes = _mm256_setr_epi64x(0, 1, 2, 3);
  return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), lanes);
}
MR_INLINE VecF LoadPart(const float* p, int64_t n) { return (VecF)_mm256_maskload_ps(p, PartMask32(n)); }
MR_INLINE VecD LoadPart(const double* p, int64_t n) { return (VecD)_mm256_maskload_pd(p, PartMask64(n)); }
MR_INLINE void StorePart(float* p, VecF v, int64_t n) { _mm256_maskstore_ps(p, PartMask32(n), (__m256)v); }
MR_INLINE void StorePart(double* p, VecD v, int64_t n) { _mm256_maskstore_pd(p, PartMask64(n), (__m256d)v); }
#else
template <typename T>
MR_INLINE typename Fp<T>::Vec LoadPart(const T* p, int64_t n) {
  typename Fp<T>::Vec v = {};
  for (int i = 0; i < Fp<T>::kLanes - 1; ++i) {
    if (i < n) v[i] = p[i];
  }
  return v;
}
template <typename T>
MR_INLINE void StorePart(T* p, typename Fp<T>::Vec v, int64_t n) {
  for (int i = 0; i < Fp<T>::kLanes - 1; ++i) {
    if (i < n) p[i] = v[i];
  }
}
#endif

template <typename V>
MR_INLINE V Abs(V x) {
  using F = FpOf<V>;
  return (V)((typename F::Uint)x & ~F::kSign);
}
template <typename V>
MR_INLINE V CopySign(V magnitude, V sign) {
  using F = FpOf<V>;
  return (V)(((typename F::Uint)magnitude & ~F::kSign) | ((typename F::Uint)sign & F::kSign));
}

// std::max and std::min with the arguments swapped: b if either is NaN, which is the result of one
// instruction.
#if defined(__AVX512F__)
MR_INLINE VecF Max(VecF a, VecF b) { return (VecF)_mm512_max_ps((__m512)a, (__m512)b); }
MR_INLINE VecD Max(VecD a, VecD b) { return (VecD)_mm512_max_pd((__m512d)a, (__m512d)b); }
MR_INLINE VecF Min(VecF a, VecF b) { return (VecF)_mm512_min_ps((__m512)a, (__m512)b); }
MR_INLINE VecD Min(VecD a, VecD b) { return (VecD)_mm512_min_pd((__m512d)a, (__m512d)b); }
MR_INLINE VecF Sqrt(VecF x) { return (VecF)_mm512_sqrt_ps((__m512)x); }
MR_INLINE VecD Sqrt(VecD x) { return (VecD)_mm512_sqrt_pd((__m512d)x); }
#elif defined(__AVX2__)
MR_INLINE VecF Max(VecF a, VecF b) { return (VecF)_mm256_max_ps((__m256)a, (__m256)b); }
MR_INLINE VecD Max(VecD a, VecD b) { return (VecD)_mm256_max_pd((__m256d)a, (__m256d)b); }
MR_INLINE VecF Min(VecF a, VecF b) { return (VecF)_mm256_min_ps((__m256)a, (__m256)b); }
MR_INLINE VecD Min(VecD a, VecD b) { return (VecD)_mm256_min_pd((__m256d)a, (__m256d)b); }
MR_INLINE VecF Sqrt(VecF x) { return (VecF)_mm256_sqrt_ps((__m256)x); }
MR_INLINE VecD Sqrt(VecD x) { return (VecD)_mm256_sqrt_pd((__m256d)x); }
#elif defined(__x86_64__)
MR_INLINE VecF Max(VecF a, VecF b) { return (VecF)_mm_max_ps((__m128)a, (__m128)b); }
MR_INLINE VecD Max(VecD a, VecD b) { return (VecD)_mm_max_pd((__m128d)a, (__m128d)b); }
MR_INLINE VecF Min(VecF a, VecF b) { return (VecF)_mm_min_ps((__m128)a, (__m128)b); }
MR_INLINE VecD Min(VecD a, VecD b) { return (VecD)_mm_min_pd((__m128d)a, (__m128d)b); }
MR_INLINE VecF Sqrt(VecF x) { return (VecF)_mm_sqrt_ps((__m128)x); }
MR_INLINE VecD Sqrt(VecD x) { return (VecD)_mm_sqrt_pd((__m128d)x); }
#else
template <typename V>
MR_INLINE V Max(V a, V b) {
  return a > b ? a : b;
}
template <typename V>
MR_INLINE V Min(V a, V b) {
  return a < b ? a : b;
}
template <typename V>
MR_INLINE V Sqrt(V x) {
  for (int i = 0; i < FpOf<V>::kLanes; ++i) {
    x[i] = sizeof(x[0]) == 4 ? (decltype(+x[0]))__builtin_sqrtf((float)x[i]) : __builtin_sqrt(x[i]);
  }
  return x;
}
#endif

// The nearest integer, ties to even, for |x| < 2^(kMantissa - 1).
template <typename V>
MR_INLINE V RoundSmall(V x) {
  constexpr auto kShifter = FpOf<V>::kShifter;
  return (x + kShifter) - kShifter;
}

#if defined(__AVX512F__)
MR_INLINE VecF Rint(VecF x) {
  return (VecF)_mm512_roundscale_ps((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
MR_INLINE VecD Rint(VecD x) {
  return (VecD)_mm512_roundscale_pd((__m512d)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
MR_INLINE VecF Floor(VecF x) {
  return (VecF)_mm512_roundscale_ps((__m512)x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}
MR_INLINE VecD Floor(VecD x) {
  return (VecD)_mm512_roundscale_pd((__m512d)x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}
#elif defined(__AVX2__)
MR_INLINE VecF Rint(VecF x) {
  return (VecF)_mm256_round_ps((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
MR_INLINE VecD Rint(VecD x) {
  return (VecD)_mm256_round_pd((__m256d)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
MR_INLINE VecF Floor(VecF x) { return (VecF)_mm256_floor_ps((__m256)x); }
MR_INLINE VecD Floor(VecD x) { return (VecD)_mm256_floor_pd((__m256d)x); }
#else
template <typename V>
MR_INLINE V Rint(V x) {
  constexpr auto kInteger = FpOf<V>::kInteger;
  const V a = Abs(x);
  return a < kInteger ? CopySign((a + kInteger) - kInteger, x) : x;
}
template <typename V>
MR_INLINE V Floor(V x) {
  const V r = Rint(x);
  return CopySign(r > x ? r - 1 : r, x);  // the sign of zero
}
#endif
template <typename V>
MR_INLINE V Ceil(V x) {
  return -Floor(-x);
}

// x * 2^n for integers n within twice the exponents' range; one rounding, gradual underflow.
#if defined(__AVX512F__)
MR_INLINE VecF Scale(VecF x, VecF n) { return (VecF)_mm512_scalef_ps((__m512)x, (__m512)n); }
MR_INLINE VecD Scale(VecD x, VecD n) { return (VecD)_mm512_scalef_pd((__m512d)x, (__m512d)n); }
#endif
// 2^n for integers n of normal exponents.
template <typename V>
MR_INLINE V PowerOfTwo(V n) {
  using F = FpOf<V>;
  return (V)((typename F::Uint)(n + (F::kShifter + F::kBias)) << F::kMantissa);
}
#if !defined(__AVX512F__)
template <typename V>
MR_INLINE V Scale(V x, V n) {
  const V half = RoundSmall(n * (decltype(+n[0]))0.5);
  return x * PowerOfTwo(half) * PowerOfTwo(n - half);
}
#endif

// Exchanges lanes i and i ^ kDistance.
template <int kDistance, typename V>
MR_INLINE V SwapLanes(V v) {
  constexpr int d = kDistance;
  if constexpr (FpOf<V>::kLanes == 2) {
    return __builtin_shufflevector(v, v, 0 ^ d, 1 ^ d);
  } else if constexpr (FpOf<V>::kLanes == 4) {
    return __builtin_shufflevector(v, v, 0 ^ d, 1 ^ d, 2 ^ d, 3 ^ d);
  } else if constexpr (FpOf<V>::kLanes == 8) {
    return __builtin_shufflevector(v, v, 0 ^ d, 1 ^ d, 2 ^ d, 3 ^ d, 4 ^ d, 5 ^ d, 6 ^ d, 7 ^ d);
  } else {
    return __builtin_shufflevector(v, v, 0 ^ d, 1 ^ d, 2 ^ d, 3 ^ d, 4 ^ d, 5 ^ d, 6 ^ d, 7 ^ d, 8 ^ d, 9 ^ d,
                                   10 ^ d, 11 ^ d, 12 ^ d, 13 ^ d, 14 ^ d, 15 ^ d);
  }
}

// Combines all lanes by a commutative function of two registers.
template <typename V, typename F>
MR_INLINE typename ElementOf<V>::T Across(V v, F f) {
  if constexpr (FpOf<V>::kLanes > 8) v = f(v, SwapLanes<8>(v));
  if constexpr (FpOf<V>::kLanes > 4) v = f(v, SwapLanes<4>(v));
  if constexpr (FpOf<V>::kLanes > 2) v = f(v, SwapLanes<2>(v));
  return f(v, SwapLanes<1>(v))[0];
}

// Whether lane k of both is equal, as bit k.
#if defined(__AVX512F__)
MR_INLINE uint32_t EqualLanes(VecF a, VecF b) { return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_EQ_OQ); }
MR_INLINE uint32_t EqualLanes(VecD a, VecD b) {
  return _mm512_cmp_pd_mask((__m512d)a, (__m512d)b, _CMP_EQ_OQ);
}
#elif defined(__AVX2__)
MR_INLINE uint32_t EqualLanes(VecF a, VecF b) { return (uint32_t)_mm256_movemask_ps((__m256)(a == b)); }
MR_INLINE uint32_t EqualLanes(VecD a, VecD b) { return (uint32_t)_mm256_movemask_pd((__m256d)(a == b)); }
#elif defined(__x86_64__)
MR_INLINE uint32_t EqualLanes(VecF a, VecF b) { return (uint32_t)_mm_movemask_ps((__m128)(a == b)); }
MR_INLINE uint32_t EqualLanes(VecD a, VecD b) { return (uint32_t)_mm_movemask_pd((__m128d)(a == b)); }
#else
template <typename V>
MR_INLINE uint32_t EqualLanes(V a, V b) {
  uint32_t bits = 0;
  for (int i = 0; i < FpOf<V>::kLanes; ++i) bits |= (a[i] == b[i] ? 1u : 0u) << i;
  return bits;
}
#endif

// The first n lanes of v, the others of rest.
template <typename V>
MR_INLINE V FirstLanes(V v, V rest, int64_t n) {
  using F = FpOf<V>;
  using Int = typename F::Int;
  Int lane = {};
  for (int i = 0; i < F::kLanes; ++i) lane[i] = i;
  return lane < Int{} + (decltype(+lane[0]))n ? v : rest;
}

// Lane i gets f(in lane i). A partial register is computed as a whole one, so that the bits of an element
// don't depend on its position.
template <typename T, typename F>
MR_INLINE void MapLoop(const T* in, T* out, int64_t n, F f) {
  constexpr int kLanes = Fp<T>::kLanes;
  constexpr int64_t kAhead = 512 / sizeof(T);  // memory beyond the first cache is prefetched
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    __builtin_prefetch(in + i + kAhead);
    Store(out + i, f(Load(in + i)));
  }
  if (i < n) StorePart(out + i, f(LoadPart(in + i, n - i)), n - i);
}

}  // namespace millrace::cpu::MR_ISA
