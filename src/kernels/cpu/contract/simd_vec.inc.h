// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Vectors of the width that the including unit names (MR_SIMD_BYTES). Included by simd_*.cc only, inside
// their own namespace. No code from std: the linker might keep the copy of an inline function that is
// compiled here for AVX-512 for the whole program.

template <typename T>
struct VecOf;
template <>
struct VecOf<float> {
  typedef float Aligned __attribute__((vector_size(MR_SIMD_BYTES), may_alias));
  typedef float Loose __attribute__((vector_size(MR_SIMD_BYTES), aligned(4), may_alias));
};
template <>
struct VecOf<double> {
  typedef double Aligned __attribute__((vector_size(MR_SIMD_BYTES), may_alias));
  typedef double Loose __attribute__((vector_size(MR_SIMD_BYTES), aligned(8), may_alias));
};

template <typename T>
using Vec = typename VecOf<T>::Aligned;
template <typename T>
constexpr int kLanes = MR_SIMD_BYTES / static_cast<int>(sizeof(T));
constexpr int kRegisters = MR_SIMD_BYTES == 64 ? 32 : 16;
constexpr bool kFused = MR_SIMD_BYTES >= 32;  // multiply-add needs no register for the product

#define MR_INLINE inline __attribute__((always_inline))

// Before a loop whose pointers don't overlap.
#if defined(__clang__)
#define MR_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define MR_INDEPENDENT _Pragma("GCC ivdep")
#endif

template <typename T>
MR_INLINE Vec<T> Load(const T* p) {
  return *reinterpret_cast<const typename VecOf<T>::Loose*>(p);
}
template <typename T>
MR_INLINE void Store(T* p, Vec<T> v) {
  *reinterpret_cast<typename VecOf<T>::Loose*>(p) = v;
}
template <typename T>
MR_INLINE Vec<T> Broadcast(T x) {
  return x - Vec<T>{};
}

// The first n < kLanes elements only.
template <typename T>
MR_INLINE Vec<T> LoadPart(const T* p, int n) {
#if MR_SIMD_BYTES == 64
  if constexpr (sizeof(T) == 4) {
    return (Vec<T>)_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p);
  } else {
    return (Vec<T>)_mm512_maskz_loadu_pd(static_cast<__mmask8>((1u << n) - 1), p);
  }
#else
  Vec<T> v{};
  for (int i = 0; i < n; ++i) v[i] = p[i];
  return v;
#endif
}
template <typename T>
MR_INLINE void StorePart(T* p, Vec<T> v, int n) {
#if MR_SIMD_BYTES == 64
  if constexpr (sizeof(T) == 4) {
    _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), (__m512)v);
  } else {
    _mm512_mask_storeu_pd(p, static_cast<__mmask8>((1u << n) - 1), (__m512d)v);
  }
#else
  for (int i = 0; i < n; ++i) p[i] = v[i];
#endif
}

// x where it is larger than `best` or NaN, `best` elsewhere; so NaN stays. Max instructions return their
// second operand if either is NaN.
MR_INLINE Vec<float> LargerOrNan(Vec<float> best, Vec<float> x) {
#if MR_SIMD_BYTES == 64
  const __mmask16 is_number = _mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_ORD_Q);
  return (Vec<float>)_mm512_mask_max_ps((__m512)x, is_number, (__m512)x, (__m512)best);
#elif MR_SIMD_BYTES == 32
  const auto larger = (Vec<float>)_mm256_max_ps((__m256)x, (__m256)best);
  return x != x ? x : larger;
#else
  const auto larger = (Vec<float>)_mm_max_ps((__m128)x, (__m128)best);
  return x != x ? x : larger;
#endif
}
MR_INLINE Vec<double> LargerOrNan(Vec<double> best, Vec<double> x) {
#if MR_SIMD_BYTES == 64
  const __mmask8 is_number = _mm512_cmp_pd_mask((__m512d)x, (__m512d)x, _CMP_ORD_Q);
  return (Vec<double>)_mm512_mask_max_pd((__m512d)x, is_number, (__m512d)x, (__m512d)best);
#else
  return ((x > best) | (x != x)) ? x : best;
#endif
}

template <typename T>
MR_INLINE bool HasNan(Vec<T> v) {
#if MR_SIMD_BYTES == 64
  if constexpr (sizeof(T) == 4) {
    return _mm512_cmp_ps_mask((__m512)v, (__m512)v, _CMP_UNORD_Q) != 0;
  } else {
    return _mm512_cmp_pd_mask((__m512d)v, (__m512d)v, _CMP_UNORD_Q) != 0;
  }
#elif MR_SIMD_BYTES == 32
  return _mm256_movemask_ps((__m256)(v != v)) != 0;
#else
  return _mm_movemask_ps((__m128)(v != v)) != 0;
#endif
}

template <typename T>
MR_INLINE Vec<T> Rectified(Vec<T> v, Rectify rectify) {
  if (rectify == Rectify::kNone) return v;
  v = v < Vec<T>{} ? Vec<T>{} : v;
  return rectify == Rectify::kRelu6 ? (v > Broadcast(T(6)) ? Broadcast(T(6)) : v) : v;
}

// Four (float) or two (double) rows by as many columns: dst[j][i] = src[i][j].
MR_INLINE void TransposeSquare(const float* src, int64_t src_row, float* dst, int64_t dst_row) {
  const __m128 r0 = _mm_loadu_ps(src), r1 = _mm_loadu_ps(src + src_row);
  const __m128 r2 = _mm_loadu_ps(src + 2 * src_row), r3 = _mm_loadu_ps(src + 3 * src_row);
  const __m128 t0 = _mm_unpacklo_ps(r0, r1), t1 = _mm_unpacklo_ps(r2, r3);
  const __m128 t2 = _mm_unpackhi_ps(r0, r1), t3 = _mm_unpackhi_ps(r2, r3);
  _mm_storeu_ps(dst, _mm_movelh_ps(t0, t1));
  _mm_storeu_ps(dst + dst_row, _mm_movehl_ps(t1, t0));
  _mm_storeu_ps(dst + 2 * dst_row, _mm_movelh_ps(t2, t3));
  _mm_storeu_ps(dst + 3 * dst_row, _mm_movehl_ps(t3, t2));
}
MR_INLINE void TransposeSquare(const double* src, int64_t src_row, double* dst, int64_t dst_row) {
  const __m128d r0 = _mm_loadu_pd(src), r1 = _mm_loadu_pd(src + src_row);
  _mm_storeu_pd(dst, _mm_unpacklo_pd(r0, r1));
  _mm_storeu_pd(dst + dst_row, _mm_unpackhi_pd(r0, r1));
}

// By squares; the last ones overlap the ones before and write the shared elements again.
template <typename T>
void Transpose(const T* src, int64_t src_row, int64_t rows, int64_t cols, T* dst, int64_t dst_row) {
  constexpr int64_t kSide = 16 / sizeof(T);
  if (rows < kSide || cols < kSide) {
    for (int64_t j = 0; j < cols; ++j) {
      for (int64_t i = 0; i < rows; ++i) dst[j * dst_row + i] = src[i * src_row + j];
    }
    return;
  }
  for (int64_t i = 0;; i = i + kSide < rows - kSide ? i + kSide : rows - kSide) {
    for (int64_t j = 0;; j = j + kSide < cols - kSide ? j + kSide : cols - kSide) {
      TransposeSquare(src + i * src_row + j, src_row, dst + j * dst_row + i, dst_row);
      if (j == cols - kSide) break;
    }
    if (i == rows - kSide) break;
  }
}

// Adds the lanes of v down to 16 bytes, in a fixed order.
MR_INLINE __m128 FoldTo16(Vec<float> v) {
#if MR_SIMD_BYTES == 64
  const auto half = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
                    __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
#else
  const auto half = v;
#endif
#if MR_SIMD_BYTES >= 32
  return (__m128)(__builtin_shufflevector(half, half, 0, 1, 2, 3) +
                  __builtin_shufflevector(half, half, 4, 5, 6, 7));
#else
  return (__m128)half;
#endif
}

template <typename T>
void FoldLanes(const T* sums, int64_t count, T* out) {
  int64_t i = 0;
  if constexpr (sizeof(T) == 4) {
    for (; i + 4 <= count; i += 4, sums += 4 * kLanes<T>) {
      __m128 r0 = FoldTo16(Load(sums)), r1 = FoldTo16(Load(sums + kLanes<T>));
      __m128 r2 = FoldTo16(Load(sums + 2 * kLanes<T>)), r3 = FoldTo16(Load(sums + 3 * kLanes<T>));
      _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
      _mm_storeu_ps(out + i, _mm_add_ps(_mm_add_ps(r0, r1), _mm_add_ps(r2, r3)));
    }
  }
  for (; i < count; ++i, sums += kLanes<T>) {
    T sum = T(0);
    for (int l = 0; l < kLanes<T>; ++l) sum += sums[l];
    out[i] = sum;
  }
}

template <typename T>
void AddRows(const T* rows, int64_t row_count, int64_t stride, int64_t count, T* out) {
  for (int64_t i = 0; i < count; i += kLanes<T>) {
    const int n = count - i < kLanes<T> ? static_cast<int>(count - i) : kLanes<T>;
    Vec<T> sum{};
    for (int64_t r = 0; r < row_count; ++r) {
      const T* const at = rows + r * stride + i;
      sum += n == kLanes<T> ? Load(at) : LoadPart(at, n);
    }
    if (n == kLanes<T>) {
      Store(out + i, sum);
    } else {
      StorePart(out + i, sum, n);
    }
  }
}
