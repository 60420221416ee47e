// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Small matrices as registers of one instruction set. Scratch matrices have rows of `stride` numbers, a
// multiple of a register, and begin at the alignment of one; the elements behind the ends of rows are zero
// after loading and has no meaning later.
#pragma once

#include "kernels/cpu/linalg/small.h"
#include "kernels/cpu/vector/simd.inc.h"

// A function of its own, so that the code of its many sizes exists once.
#define MR_OUTLINE static __attribute__((noinline, unused))

namespace millrace::cpu::MR_ISA {

template <typename T>
using VecOf = typename Fp<T>::Vec;
template <typename T>
using IntOf = typename Fp<T>::Int;

template <typename T>
struct Scratch {
  // Not a multiple of pages, so that the same places of two of them do not wait for each other.
  alignas(64) T values[kMostSmall * kMostSmall + 17 * (64 / sizeof(T))];
};

template <typename T>
MR_INLINE int64_t StrideOf(int64_t n) {
  constexpr int64_t kLanes = Fp<T>::kLanes;
  return (n + kLanes - 1) / kLanes * kLanes;
}
MR_INLINE int64_t Smaller(int64_t a, int64_t b) { return a < b ? a : b; }
template <typename T>
MR_INLINE T AbsOf(T x) {
  return x < 0 ? -x : x;
}
template <typename T>
MR_INLINE T RootOf(T x) {
  if constexpr (sizeof(T) == 4) {
    return __builtin_sqrtf(x);
  } else {
    return __builtin_sqrt(x);
  }
}
template <typename T>
constexpr T EpsilonOf() {
  return sizeof(T) == 4 ? static_cast<T>(0x1p-23) : static_cast<T>(0x1p-52);
}

template <typename T>
MR_INLINE IntOf<T> LaneNumbers() {
  IntOf<T> lanes = {};
  for (int l = 0; l < Fp<T>::kLanes; ++l) lanes[l] = l;
  return lanes;
}

// A bit for each lane of a comparison.
MR_INLINE uint64_t Bits(VecI32 mask) {
#if defined(__AVX512F__)
  return _mm512_movepi32_mask((__m512i)mask);
#elif defined(__AVX2__)
  return (uint32_t)_mm256_movemask_ps((__m256)mask);
#elif defined(__x86_64__)
  return (uint32_t)_mm_movemask_ps((__m128)mask);
#else
  uint64_t bits = 0;
  for (int l = 0; l < Fp<float>::kLanes; ++l) bits |= (uint64_t)(mask[l] & 1) << l;
  return bits;
#endif
}
MR_INLINE uint64_t Bits(VecI64 mask) {
#if defined(__AVX512F__)
  return _mm512_movepi64_mask((__m512i)mask);
#elif defined(__AVX2__)
  return (uint32_t)_mm256_movemask_pd((__m256d)mask);
#elif defined(__x86_64__)
  return (uint32_t)_mm_movemask_pd((__m128d)mask);
#else
  uint64_t bits = 0;
  for (int l = 0; l < Fp<double>::kLanes; ++l) bits |= (uint64_t)(mask[l] & 1) << l;
  return bits;
#endif
}

template <typename T>
MR_INLINE IntOf<T> Larger(IntOf<T> a, IntOf<T> b) {
  return a > b ? a : b;
}
// The largest lane, in all lanes.
template <typename T>
MR_INLINE IntOf<T> LargestLane(IntOf<T> v) {
  using Vec = VecOf<T>;
  if constexpr (Fp<T>::kLanes > 8) v = Larger<T>(v, (IntOf<T>)SwapLanes<8>((Vec)v));
  if constexpr (Fp<T>::kLanes > 4) v = Larger<T>(v, (IntOf<T>)SwapLanes<4>((Vec)v));
  if constexpr (Fp<T>::kLanes > 2) v = Larger<T>(v, (IntOf<T>)SwapLanes<2>((Vec)v));
  return Larger<T>(v, (IntOf<T>)SwapLanes<1>((Vec)v));
}
template <typename T>
MR_INLINE T SumOfLanes(VecOf<T> v) {
  return Across(
      v, [](VecOf<T> a, VecOf<T> b) __attribute__((always_inline)) { return a + b; });
}

template <int... kLane>
struct LaneList {};
template <int kLanes>
struct ListOf;
template <>
struct ListOf<2> {
  using Lanes = LaneList<0, 1>;
};
template <>
struct ListOf<4> {
  using Lanes = LaneList<0, 1, 2, 3>;
};
template <>
struct ListOf<8> {
  using Lanes = LaneList<0, 1, 2, 3, 4, 5, 6, 7>;
};
template <>
struct ListOf<16> {
  using Lanes = LaneList<0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15>;
};

// Blocks of kD lanes of both in turns: the first, third, … block of each, or the second, fourth, …
template <int kD, typename V, int... kLane>
MR_INLINE V EvenBlocksOf(V a, V b, LaneList<kLane...>) {
  return __builtin_shufflevector(a, b, ((kLane & kD) != 0 ? FpOf<V>::kLanes + kLane - kD : kLane)...);
}
template <int kD, typename V, int... kLane>
MR_INLINE V OddBlocksOf(V a, V b, LaneList<kLane...>) {
  return __builtin_shufflevector(a, b, ((kLane & kD) != 0 ? FpOf<V>::kLanes + kLane : kLane + kD)...);
}
template <int kD, typename V>
MR_INLINE V EvenBlocks(V a, V b) {
  return EvenBlocksOf<kD>(a, b, typename ListOf<FpOf<V>::kLanes>::Lanes());
}
template <int kD, typename V>
MR_INLINE V OddBlocks(V a, V b) {
  return OddBlocksOf<kD>(a, b, typename ListOf<FpOf<V>::kLanes>::Lanes());
}

// As many registers as one has lanes, transposed.
template <typename T, int kD = Fp<T>::kLanes / 2>
MR_INLINE void TransposeBlock(VecOf<T>* v) {
  for (int i = 0; i < Fp<T>::kLanes; ++i) {
    if ((i & kD) != 0) continue;
    const VecOf<T> a = v[i], b = v[i + kD];
    v[i] = EvenBlocks<kD>(a, b);
    v[i + kD] = OddBlocks<kD>(a, b);
  }
  if constexpr (kD > 1) TransposeBlock<T, kD / 2>(v);
}
// Lane i of the result is the sum of the lanes of v[i], which is overwritten.
template <typename T, int kD = Fp<T>::kLanes / 2>
MR_INLINE VecOf<T> SumsOfRegisters(VecOf<T>* v) {
  for (int i = 0; i < kD; ++i) v[i] = EvenBlocks<kD>(v[i], v[i + kD]) + OddBlocks<kD>(v[i], v[i + kD]);
  if constexpr (kD > 1) {
    return SumsOfRegisters<T, kD / 2>(v);
  } else {
    return v[0];
  }
}

// Columns [begin, begin + kLanes) of a row of n numbers; zeros behind its end.
template <typename T>
MR_INLINE VecOf<T> LoadLanes(const T* row, int64_t begin, int64_t n) {
  if (begin + Fp<T>::kLanes <= n) return Load(row + begin);
  if (begin >= n) return VecOf<T>{};
  return LoadPart(row + begin, n - begin);
}
template <typename T>
MR_INLINE void StoreLanes(T* row, int64_t begin, int64_t n, VecOf<T> v) {
  if (begin + Fp<T>::kLanes <= n) {
    Store(row + begin, v);
  } else if (begin < n) {
    StorePart(row + begin, v, n - begin);
  }
}

// Row-major matrices from and to scratch ones.
template <typename T>
MR_INLINE void LoadMatrix(const T* from, int64_t rows, int64_t columns, T* to, int64_t stride) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < stride; c += Fp<T>::kLanes)
      Store(to + r * stride + c, LoadLanes(from + r * columns, c, columns));
  }
}
template <typename T>
MR_INLINE void StoreMatrix(const T* from, int64_t stride, int64_t rows, int64_t columns, T* to) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; c += Fp<T>::kLanes)
      StoreLanes(to + r * columns, c, columns, Load(from + r * stride + c));
  }
}
// A scratch matrix of `columns` rows, rounded up to lanes. With kLower only the lower half of `from` counts.
template <typename T, bool kLower = false>
MR_OUTLINE void LoadTransposed(const T* from, int64_t row, int64_t rows, int64_t columns, T* to,
                               int64_t stride) {
  constexpr int64_t kLanes = Fp<T>::kLanes;
  for (int64_t c = 0; c < columns; c += kLanes) {
    for (int64_t r = kLower ? c : 0; r < stride; r += kLanes) {
      VecOf<T> block[kLanes];
      if (r + kLanes <= rows && c + kLanes <= columns) {
        for (int64_t i = 0; i < kLanes; ++i) block[i] = Load(from + (r + i) * row + c);
      } else {
        for (int64_t i = 0; i < kLanes; ++i)
          block[i] = r + i < rows ? LoadLanes(from + (r + i) * row, c, columns) : VecOf<T>{};
      }
      TransposeBlock<T>(block);
      for (int64_t i = 0; i < kLanes; ++i) Store(to + (c + i) * stride + r, block[i]);
    }
    if (!kLower) continue;
    for (int64_t i = 0; i < kLanes; ++i) {
      for (int64_t r = 0; r < c; r += kLanes) Store(to + (c + i) * stride + r, VecOf<T>{});
    }
  }
}
// The matrix whose columns are rows of `from`, which has `columns` of them, rounded up to lanes: row r of it
// becomes row place[r], or r where place is null. With kLower only its lower half is not zero.
template <typename T, bool kLower = false>
MR_OUTLINE void StoreTransposed(T* from, int64_t stride, int64_t rows, int64_t columns, const int32_t* place,
                                T* to) {
  constexpr int64_t kLanes = Fp<T>::kLanes;
  for (int64_t r = 0; r < rows; r += kLanes) {
    for (int64_t c = 0; c < columns; c += kLanes) {
      VecOf<T> block[kLanes];
      if (kLower && c > r) {
        for (int64_t i = 0; i < kLanes; ++i) block[i] = VecOf<T>{};
      } else {
        for (int64_t i = 0; i < kLanes; ++i) block[i] = Load(from + (c + i) * stride + r);
        TransposeBlock<T>(block);
      }
      if (r + kLanes <= rows && c + kLanes <= columns) {
        for (int64_t i = 0; i < kLanes; ++i)
          Store(to + (place != nullptr ? place[r + i] : r + i) * columns + c, block[i]);
        continue;
      }
      for (int64_t i = 0; i < kLanes; ++i) {
        if (r + i < rows)
          StoreLanes(to + (place != nullptr ? place[r + i] : r + i) * columns, c, columns, block[i]);
      }
    }
  }
}

// Calls fn.template operator()<kV>(): the registers of n numbers are kV, which is a power of two and more of
// them may be.
template <typename T, int kV = 1, typename Fn>
MR_INLINE auto WithRegisters(int64_t n, const Fn& fn) {
  if constexpr (kV * Fp<T>::kLanes < kMostSmall) {
    if (n > kV * Fp<T>::kLanes) return WithRegisters<T, 2 * kV>(n, fn);
  }
  return fn.template operator()<kV>();
}

}  // namespace millrace::cpu::MR_ISA
