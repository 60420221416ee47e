// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Compiled for AVX512-BF16 and AMX (the build gives this file its options) and called only if the processor
// supports them. It uses no std code, so that nothing compiled for them can leak to other units.
#include "kernels/cpu/contract/bf16_simd.h"

#if defined(__AVX512BF16__) && (defined(__AMX_BF16__) || defined(__AMXBF16__))
#include <immintrin.h>

namespace millrace::cpu {
namespace {

__mmask16 Mask16(int64_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xffff : count <= 0 ? 0 : (1u << count) - 1);
}
__mmask32 Mask32(int64_t count) {
  return static_cast<__mmask32>(count >= 32 ? 0xffffffffu : count <= 0 ? 0 : (1u << count) - 1);
}

__m512i Rounded(__m512 low, __m512 high) { return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)); }

// `count` contiguous values, padded with zeros to 32.
__m512i LoadRow(const float* p, int64_t count) {
  return Rounded(_mm512_maskz_loadu_ps(Mask16(count), p),
                 count > 16 ? _mm512_maskz_loadu_ps(Mask16(count - 16), p + 16) : _mm512_setzero_ps());
}
__m512i LoadRow(const uint16_t* p, int64_t count) { return _mm512_maskz_loadu_epi16(Mask32(count), p); }

// The values of 16 columns in two rows, interleaved. `second` may be null.
__m512i LoadPair(const float* first, const float* second, int64_t columns) {
  const __mmask16 mask = Mask16(columns);
  const __m512i turns = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7,
                                         22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(
      turns, Rounded(_mm512_maskz_loadu_ps(mask, first),
                     second == nullptr ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(mask, second)));
}
__m512i LoadPair(const uint16_t* first, const uint16_t* second, int64_t columns) {
  const __mmask16 mask = Mask16(columns);
  const __m512i low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, first));
  if (second == nullptr) return low;
  const __m512i high = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, second));
  return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}

// 16 x 16 units of 32 bits.
void Transpose(__m512i (&r)[16]) {
  __m512i t[16];
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
  for (int i = 0; i < 4; ++i) {
    r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
  // Now r[4i + j] has column j of each quarter, of rows 4i to 4i + 3.
  for (int j = 0; j < 4; ++j) {
    const __m512i low0 = _mm512_shuffle_i32x4(r[j], r[4 + j], 0x88);
    const __m512i low1 = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0x88);
    const __m512i high0 = _mm512_shuffle_i32x4(r[j], r[4 + j], 0xdd);
    const __m512i high1 = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0xdd);
    t[j] = _mm512_shuffle_i32x4(low0, low1, 0x88);
    t[8 + j] = _mm512_shuffle_i32x4(low0, low1, 0xdd);
    t[4 + j] = _mm512_shuffle_i32x4(high0, high1, 0x88);
    t[12 + j] = _mm512_shuffle_i32x4(high0, high1, 0xdd);
  }
  for (int i = 0; i < 16; ++i) r[i] = t[i];
}

// One tile: up to 16 rows or columns, up to 32 values of k.
template <typename T>
void PackTile(const Bf16Pack& p, const T* source, int64_t count, int64_t k, uint16_t* tile) {
  __m512i r[16];
  if (p.along_k) {
    for (int i = 0; i < 16; ++i) r[i] = i < count ? LoadRow(source + i * p.ld, k) : _mm512_setzero_si512();
  } else {
    for (int i = 0; i < 16; ++i) {
      const T* const first = source + 2 * i * p.ld;
      r[i] = 2 * i >= k ? _mm512_setzero_si512()
                        : LoadPair(first, 2 * i + 1 < k ? first + p.ld : nullptr, count);
    }
  }
  if (p.along_k != p.as_rows) Transpose(r);
  for (int i = 0; i < 16; ++i) _mm512_store_si512(tile + i * 32, r[i]);
}

template <typename T>
void PackAs(const Bf16Pack& p) {
  const auto* const source = static_cast<const T*>(p.source);
  for (int64_t at = 0; at < p.k; at += kBf16Step) {
    uint16_t* const tiles = p.tiles + at / kBf16Step * kBf16StepElements;
    const int64_t k = p.k - at < kBf16Step ? p.k - at : kBf16Step;
    for (int64_t i = 0; i < p.count; i += 16) {
      const T* const from = p.along_k ? source + i * p.ld + at : source + at * p.ld + i;
      PackTile(p, from, p.count - i < 16 ? p.count - i : 16, k, tiles + i / 16 * kBf16Tile);
    }
  }
}

void Pack(const Bf16Pack& p) {
  if (p.is_float) {
    PackAs<float>(p);
  } else {
    PackAs<uint16_t>(p);
  }
}

void Round(const float* in, int64_t count, uint16_t* out) {
  for (int64_t i = 0; i < count; i += 32)
    _mm512_mask_storeu_epi16(out + i, Mask32(count - i), LoadRow(in + i, count - i));
}

void Join(const Bf16Run* runs, int64_t count, uint16_t* out) {
  for (int64_t r = 0; r < count; ++r) {
    const uint16_t* const data = runs[r].data;
    const int64_t length = runs[r].length;
    for (int64_t i = 0; i < length; i += 32) {
      const __mmask32 mask = Mask32(length - i);
      _mm512_mask_storeu_epi16(
          out + i, mask, data == nullptr ? _mm512_setzero_si512() : _mm512_maskz_loadu_epi16(mask, data + i));
    }
    out += length;
  }
}

void Gather(const Bf16Gather& g) {
  uint16_t* to = g.tiles + g.row / 16 * kBf16Tile + g.row % 16 * 32;
  if (!g.aligned) {
    Join(g.runs, g.count, g.line);
    int64_t length = 0;
    for (int64_t r = 0; r < g.count; ++r) length += g.runs[r].length;
    for (int64_t i = 0; i < length; i += 32, to += kBf16StepElements)
      _mm512_store_si512(to, LoadRow(g.line + i, length - i));
    return;
  }
  for (int64_t r = 0; r < g.count; ++r) {
    const uint16_t* const data = g.runs[r].data;
    const int64_t length = g.runs[r].length;
    for (int64_t i = 0; i < length; i += 32, to += kBf16StepElements)
      _mm512_store_si512(to, data == nullptr ? _mm512_setzero_si512() : LoadRow(data + i, length - i));
  }
}

void Finish(const Bf16Finish& f) {
  for (int64_t j = 0; j < f.cols; j += 16) {
    const __mmask16 mask = Mask16(f.cols - j);
    const __m512 scale = f.scale == nullptr ? _mm512_set1_ps(1) : _mm512_maskz_loadu_ps(mask, f.scale + j);
    const __m512 bias = f.bias == nullptr ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(mask, f.bias + j);
    for (int64_t i = 0; i < f.rows; ++i) {
      __m512 x = _mm512_load_ps(f.sums + i * kBf16Group + j);
      if (f.scale != nullptr) x = _mm512_mul_ps(x, scale);
      if (f.bias != nullptr) x = _mm512_add_ps(x, bias);
      const int64_t at = f.offsets[i] + j;
      if (f.residual != nullptr) x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(mask, f.residual + at));
      // The second operand is returned if one is NaN.
      if (f.rectify != Rectify::kNone) x = _mm512_max_ps(_mm512_setzero_ps(), x);
      if (f.rectify == Rectify::kRelu6) x = _mm512_min_ps(_mm512_set1_ps(6), x);
      if (f.to_float) {
        _mm512_mask_storeu_ps(static_cast<float*>(f.out) + at, mask, x);
      } else {
        _mm256_mask_storeu_epi16(static_cast<uint16_t*>(f.out) + at, mask,
                                 reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x)));
      }
    }
  }
}

// With AMX: four tiles of sums.

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// Tiles 0 to 3 are sums, 4 and 5 rows, 6 and 7 columns.
void BeginAmx(int64_t rows) {
  TileConfig config;
  const auto height = static_cast<uint8_t>(rows < 16 ? rows : 16);
  for (int i = 0; i < 8; ++i) {
    config.row_bytes[i] = 64;
    config.rows[i] = i < 6 ? height : 16;
  }
  // The intrinsic of gcc 12 declares that it reads only eight bytes.
  __asm__ volatile("" : "+m"(config));
  _tile_loadconfig(&config);
}

void EndAmx() { _tile_release(); }

constexpr int64_t kSumsStride = kBf16Group * 4;

template <bool kTwoRows, bool kTwoColumns>
void MultiplyAmx(const Bf16Block& g) {
  float* const low = g.sums;
  float* const below = g.sums + 16 * kBf16Group;
  if (g.accumulate) {
    _tile_loadd(0, low, kSumsStride);
    if (kTwoColumns) _tile_loadd(1, low + 16, kSumsStride);
    if (kTwoRows) _tile_loadd(2, below, kSumsStride);
    if (kTwoRows && kTwoColumns) _tile_loadd(3, below + 16, kSumsStride);
  } else {
    _tile_zero(0);
    if (kTwoColumns) _tile_zero(1);
    if (kTwoRows) _tile_zero(2);
    if (kTwoRows && kTwoColumns) _tile_zero(3);
  }
  const uint16_t* a = g.a;
  const uint16_t* b = g.b;
  for (int64_t i = 0; i < g.steps; ++i, a += kBf16StepElements, b += kBf16StepElements) {
    _tile_loadd(6, b, 64);
    _tile_loadd(4, a, 64);
    _tile_dpbf16ps(0, 4, 6);
    if (kTwoRows) {
      _tile_loadd(5, a + kBf16Tile, 64);
      _tile_dpbf16ps(2, 5, 6);
    }
    if (kTwoColumns) {
      _tile_loadd(7, b + kBf16Tile, 64);
      _tile_dpbf16ps(1, 4, 7);
    }
    if (kTwoRows && kTwoColumns) _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, low, kSumsStride);
  if (kTwoColumns) _tile_stored(1, low + 16, kSumsStride);
  if (kTwoRows) _tile_stored(2, below, kSumsStride);
  if (kTwoRows && kTwoColumns) _tile_stored(3, below + 16, kSumsStride);
}

void MultiplyByAmx(const Bf16Block& g) {
  if (g.rows > 16) {
    g.cols > 16 ? MultiplyAmx<true, true>(g) : MultiplyAmx<true, false>(g);
  } else {
    g.cols > 16 ? MultiplyAmx<false, true>(g) : MultiplyAmx<false, false>(g);
  }
}

// With AVX512-BF16: eight rows of two vectors of sums.

template <int kRows>
void MultiplyRows(const Bf16Block& g, const uint16_t* a, float* sums) {
  __m512 s[kRows][2];
  for (int r = 0; r < kRows; ++r) {
    for (int j = 0; j < 2; ++j)
      s[r][j] = g.accumulate ? _mm512_load_ps(sums + r * kBf16Group + 16 * j) : _mm512_setzero_ps();
  }
  const uint16_t* b = g.b;
  for (int64_t i = 0; i < g.steps; ++i, a += kBf16StepElements, b += kBf16StepElements) {
    for (int k = 0; k < 16; ++k) {
      const auto b0 = reinterpret_cast<__m512bh>(_mm512_load_si512(b + k * 32));
      const auto b1 = reinterpret_cast<__m512bh>(_mm512_load_si512(b + kBf16Tile + k * 32));
      for (int r = 0; r < kRows; ++r) {
        int pair;
        __builtin_memcpy(&pair, a + r * 32 + 2 * k, 4);
        const auto x = reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
        s[r][0] = _mm512_dpbf16_ps(s[r][0], x, b0);
        s[r][1] = _mm512_dpbf16_ps(s[r][1], x, b1);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int j = 0; j < 2; ++j) _mm512_store_ps(sums + r * kBf16Group + 16 * j, s[r][j]);
  }
}

void MultiplyByVectors(const Bf16Block& g) {
  for (int64_t row = 0; row < g.rows;) {
    const uint16_t* const a = g.a + row / 16 * kBf16Tile + row % 16 * 32;
    float* const sums = g.sums + row * kBf16Group;
    if (g.rows - row >= 8) {
      MultiplyRows<8>(g, a, sums);
      row += 8;
    } else if (g.rows - row >= 4) {
      MultiplyRows<4>(g, a, sums);
      row += 4;
    } else {
      MultiplyRows<1>(g, a, sums);
      ++row;
    }
  }
}

void BeginVectors(int64_t /*rows*/) {}
void EndVectors() {}

constexpr Bf16Kernels kAmx{Round, Pack, Gather, Join, BeginAmx, MultiplyByAmx, EndAmx, Finish};
constexpr Bf16Kernels kVectors{Round,      Pack,  Gather, Join, BeginVectors, MultiplyByVectors,
                               EndVectors, Finish};

}  // namespace

const Bf16Kernels* AmxKernels() { return &kAmx; }
const Bf16Kernels* VectorBf16Kernels() { return &kVectors; }

}  // namespace millrace::cpu

#else

namespace millrace::cpu {

const Bf16Kernels* AmxKernels() { return nullptr; }
const Bf16Kernels* VectorBf16Kernels() { return nullptr; }

}  // namespace millrace::cpu

#endif
