// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Transposition of a plane of elements, and blocks of random floats, for one instruction set.
#include "kernels/cpu/vector/simd.inc.h"
#include "kernels/cpu/vector/tables.h"

namespace millrace::cpu::MR_ISA {
namespace {

// Exchanges lane l + d of register i with lane l of register i + d, for all l and i without bit d. Doing that
// for each bit of the index transposes a square tile.
template <int d, int l, int n>
inline constexpr int kLow = (l & d) == 0 ? l : n + l - d;
template <int d, int l, int n>
inline constexpr int kHigh = (l & d) == 0 ? l + d : n + l;

#define MR_LANES_4(table, d, n, l) table<d, l, n>, table<d, l + 1, n>, table<d, l + 2, n>, table<d, l + 3, n>
#define MR_LANES_16(table, d, n)                                                      \
  MR_LANES_4(table, d, n, 0), MR_LANES_4(table, d, n, 4), MR_LANES_4(table, d, n, 8), \
      MR_LANES_4(table, d, n, 12)

template <int n, int d, typename V>
MR_INLINE void Exchange(V* a, V* b) {
  const V x = *a, y = *b;
  if constexpr (n == 2) {
    *a = __builtin_shufflevector(x, y, kLow<d, 0, n>, kLow<d, 1, n>);
    *b = __builtin_shufflevector(x, y, kHigh<d, 0, n>, kHigh<d, 1, n>);
  } else if constexpr (n == 4) {
    *a = __builtin_shufflevector(x, y, MR_LANES_4(kLow, d, n, 0));
    *b = __builtin_shufflevector(x, y, MR_LANES_4(kHigh, d, n, 0));
  } else if constexpr (n == 8) {
    *a = __builtin_shufflevector(x, y, MR_LANES_4(kLow, d, n, 0), MR_LANES_4(kLow, d, n, 4));
    *b = __builtin_shufflevector(x, y, MR_LANES_4(kHigh, d, n, 0), MR_LANES_4(kHigh, d, n, 4));
  } else {
    *a = __builtin_shufflevector(x, y, MR_LANES_16(kLow, d, n));
    *b = __builtin_shufflevector(x, y, MR_LANES_16(kHigh, d, n));
  }
}

template <int n, int d, typename V>
MR_INLINE void ExchangeAll(V* tile) {
  if constexpr (d > 0) {
    for (int i = 0; i < n; ++i) {
      if ((i & d) == 0) Exchange<n, d>(&tile[i], &tile[i + d]);
    }
    ExchangeAll<n, d / 2>(tile);
  }
}

// A register of kLanes integers for moving elements of that size.
template <typename T, int kLanes>
struct Tile {
  typedef T Vec __attribute__((vector_size(kLanes * sizeof(T))));
};

template <typename T, int kLanes>
MR_INLINE void TransposeTile(const char* in, int64_t in_stride, char* out, int64_t out_stride) {
  typename Tile<T, kLanes>::Vec tile[kLanes];
  for (int i = 0; i < kLanes; ++i) memcpy(&tile[i], in + i * in_stride, sizeof(tile[i]));
  ExchangeAll<kLanes, kLanes / 2>(tile);
  for (int i = 0; i < kLanes; ++i) memcpy(out + i * out_stride, &tile[i], sizeof(tile[i]));
}

template <typename T>
MR_INLINE void TransposeElements(const char* in, int64_t in_stride, char* out, int64_t out_stride,
                                 int64_t rows, int64_t columns) {
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t r = 0; r < rows; ++r) {
      memcpy(out + c * out_stride + r * (int64_t)sizeof(T), in + r * in_stride + c * (int64_t)sizeof(T),
             sizeof(T));
    }
  }
}

// By panels that are a cache line of the input wide: each line is then read once and completely, and the rows
// of the output are written from left to right.
template <typename T, int kLanes>
void Transpose(const char* in, int64_t in_stride, char* out, int64_t out_stride, int64_t rows,
               int64_t columns) {
  constexpr int64_t kSize = sizeof(T);
  constexpr int64_t kPanel = kLanes * kSize < 64 ? 64 / kSize : kLanes;
  for (int64_t begin = 0; begin < columns; begin += kPanel) {
    const int64_t end = columns - begin < kPanel ? columns : begin + kPanel;
    int64_t r = 0;
    for (; r + kLanes <= rows; r += kLanes) {
      const char* from = in + r * in_stride;
      char* to = out + r * kSize;
      int64_t c = begin;
      for (; c + kLanes <= end; c += kLanes) {
        TransposeTile<T, kLanes>(from + c * kSize, in_stride, to + c * out_stride, out_stride);
      }
      TransposeElements<T>(from + c * kSize, in_stride, to + c * out_stride, out_stride, kLanes, end - c);
    }
    TransposeElements<T>(in + r * in_stride + begin * kSize, in_stride, out + begin * out_stride + r * kSize,
                         out_stride, rows - r, end - begin);
  }
}

struct Bytes16 {
  uint64_t half[2];
};
void Transpose16(const char* in, int64_t in_stride, char* out, int64_t out_stride, int64_t rows,
                 int64_t columns) {
  constexpr int64_t kBlock = 8;
  for (int64_t r = 0; r < rows; r += kBlock) {
    const int64_t height = rows - r < kBlock ? rows - r : kBlock;
    TransposeElements<Bytes16>(in + r * in_stride, in_stride, out + r * 16, out_stride, height, columns);
  }
}

// The products of the low halves of the lanes.
#if defined(__AVX512F__)
MR_INLINE VecU64 MulLow(VecU64 a, VecU64 b) { return (VecU64)_mm512_mul_epu32((__m512i)a, (__m512i)b); }
#elif defined(__AVX2__)
MR_INLINE VecU64 MulLow(VecU64 a, VecU64 b) { return (VecU64)_mm256_mul_epu32((__m256i)a, (__m256i)b); }
#elif defined(__x86_64__)
MR_INLINE VecU64 MulLow(VecU64 a, VecU64 b) { return (VecU64)_mm_mul_epu32((__m128i)a, (__m128i)b); }
#else
MR_INLINE VecU64 MulLow(VecU64 a, VecU64 b) { return (a & 0xffffffffu) * (b & 0xffffffffu); }
#endif

inline constexpr int kBlocks = Fp<double>::kLanes;

// Philox 4x32-10 on kBlocks consecutive counters at once, one to a 64-bit lane; base/random/philox.h has the
// plain form. Words are in the low halves of the lanes; the high halves are ignored.
MR_INLINE void PhiloxBlocks(uint64_t counter_lo, uint64_t counter_hi, uint64_t key, VecU64* first,
                            VecU64* second) {
  VecU64 c0 = {}, c2 = {};
  for (int i = 0; i < kBlocks; ++i) {
    c0[i] = counter_lo + (uint64_t)i;
    c2[i] = counter_hi + (c0[i] < counter_lo ? 1 : 0);
  }
  VecU64 c1 = c0 >> 32, c3 = c2 >> 32;
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const VecU64 p0 = MulLow(c0, VecU64{} + 0xD2511F53u);
    const VecU64 p1 = MulLow(c2, VecU64{} + 0xCD9E8D57u);
    c0 = (p1 >> 32) ^ c1 ^ k0;
    c1 = p1;
    c2 = (p0 >> 32) ^ c3 ^ k1;
    c3 = p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  *first = (c0 & 0xffffffffu) | (c1 << 32);
  *second = (c2 & 0xffffffffu) | (c3 << 32);
}

// The low (high) halves of the lanes of a and b, interleaved.
template <bool kHighHalf, typename V>
MR_INLINE V Zip(V a, V b) {
  constexpr int kLanes = sizeof(V) / 8;
  if constexpr (kLanes == 2) {
    return kHighHalf ? __builtin_shufflevector(a, b, 1, 3) : __builtin_shufflevector(a, b, 0, 2);
  } else if constexpr (kLanes == 4) {
    return kHighHalf ? __builtin_shufflevector(a, b, 2, 6, 3, 7) : __builtin_shufflevector(a, b, 0, 4, 1, 5);
  } else {
    return kHighHalf ? __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
                     : __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
  }
}

// 23 random bits as the fraction of a number in [1, 2), minus 1.
MR_INLINE VecF UnitFloats(VecU64 words) { return (VecF)(((VecU32)words & 0x7fffffu) | 0x3f800000u) - 1.0f; }

void UniformFloats(uint64_t counter_lo, uint64_t counter_hi, uint64_t key, float* out, int64_t blocks) {
  for (int64_t done = 0; done < blocks; done += kBlocks, out += 4 * kBlocks) {
    VecU64 first, second;
    PhiloxBlocks(counter_lo, counter_hi, key, &first, &second);
    counter_lo += kBlocks;
    counter_hi += counter_lo < kBlocks ? 1 : 0;
    const VecF values[2] = {UnitFloats(Zip<false>(first, second)), UnitFloats(Zip<true>(first, second))};
    if (blocks - done >= kBlocks) {
      memcpy(out, values, sizeof(values));
    } else {
      memcpy(out, values, (size_t)(blocks - done) * 4 * sizeof(float));
    }
  }
}

}  // namespace

constinit const MoveTable kMoveTable = {
    .transpose = {Transpose<uint8_t, 16>, Transpose<uint16_t, 8>, Transpose<uint32_t, kVectorBytes / 4>,
                  Transpose<uint64_t, kVectorBytes / 8>, Transpose16},
    .uniform_f32 = UniformFloats,
};

}  // namespace millrace::cpu::MR_ISA
