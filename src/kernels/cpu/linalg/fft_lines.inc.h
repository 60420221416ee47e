// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The functions of fft_lines.h, compiled for the instruction set MR_ISA without contracting products and
// sums. Stockham's algorithm: a stage of radix p takes the numbers t + k n / p for t < n / p, and stores
// their transform, turned by factors of t / stride, p numbers `stride` apart. Between the stages all real
// parts lie before all imaginary ones.
#pragma once

#include "kernels/cpu/linalg/fft_lines.h"
#include "kernels/cpu/linalg/small_vectors.inc.h"

namespace millrace::cpu::MR_ISA {

template <typename T>
struct Numbers {
  VecOf<T> re, im;
};

template <typename V, int... kLane>
MR_INLINE V EvenLanesOf(V a, V b, LaneList<kLane...>) {
  return __builtin_shufflevector(a, b, (2 * kLane)...);
}
template <typename V, int... kLane>
MR_INLINE V OddLanesOf(V a, V b, LaneList<kLane...>) {
  return __builtin_shufflevector(a, b, (2 * kLane + 1)...);
}
template <typename V, int... kLane>
MR_INLINE V ReverseOf(V a, LaneList<kLane...>) {
  return __builtin_shufflevector(a, a, (static_cast<int>(sizeof...(kLane)) - 1 - kLane)...);
}
// Blocks of kB lanes of a and b in turns, from lane kFrom of both on.
template <int kB, int kFrom, typename V, int... kLane>
MR_INLINE V ZipOf(V a, V b, LaneList<kLane...>) {
  return __builtin_shufflevector(
      a, b, ((kLane / kB % 2) * FpOf<V>::kLanes + kFrom + kLane / (2 * kB) * kB + kLane % kB)...);
}
template <typename V>
using LanesOf = typename ListOf<FpOf<V>::kLanes>::Lanes;
template <typename V>
MR_INLINE V Reverse(V a) {
  return ReverseOf(a, LanesOf<V>());
}
template <int kB, typename V>
MR_INLINE V ZipLow(V a, V b) {
  return ZipOf<kB, 0>(a, b, LanesOf<V>());
}
template <int kB, typename V>
MR_INLINE V ZipHigh(V a, V b) {
  return ZipOf<kB, FpOf<V>::kLanes / 2>(a, b, LanesOf<V>());
}

template <typename T>
MR_INLINE Numbers<T> Unzip(VecOf<T> a, VecOf<T> b) {
  return {EvenLanesOf(a, b, LanesOf<VecOf<T>>()), OddLanesOf(a, b, LanesOf<VecOf<T>>())};
}

// From number i on: of pairs, or of n real parts before n imaginary ones.
template <bool kPairs, typename T>
MR_INLINE Numbers<T> LoadNumbers(const T* x, int64_t n, int64_t i) {
  if constexpr (kPairs) {
    return Unzip<T>(Load(x + 2 * i), Load(x + 2 * i + Fp<T>::kLanes));
  } else {
    return {Load(x + i), Load(x + n + i)};
  }
}
template <bool kPairs, typename T>
MR_INLINE void StoreNumbers(Numbers<T> a, T* x, int64_t n, int64_t i) {
  if constexpr (kPairs) {
    Store(x + 2 * i, ZipLow<1>(a.re, a.im));
    Store(x + 2 * i + Fp<T>::kLanes, ZipHigh<1>(a.re, a.im));
  } else {
    Store(x + i, a.re);
    Store(x + n + i, a.im);
  }
}

template <typename T>
MR_INLINE Numbers<T> Plus(Numbers<T> a, Numbers<T> b) {
  return {a.re + b.re, a.im + b.im};
}
template <typename T>
MR_INLINE Numbers<T> Minus(Numbers<T> a, Numbers<T> b) {
  return {a.re - b.re, a.im - b.im};
}
// A sum with a negated factor, not a difference: g++ 12 contracts a difference next to a sum.
template <typename T>
MR_INLINE Numbers<T> Times(Numbers<T> a, Numbers<T> w) {
  return {a.re * w.re + a.im * -w.im, a.re * w.im + a.im * w.re};
}
template <typename T>
MR_INLINE Numbers<T> Conjugate(Numbers<T> a, bool wanted) {
  return wanted ? Numbers<T>{a.re, -a.im} : a;
}

// Transforms of four.
template <typename T>
MR_INLINE void Four(Numbers<T>* x) {
  const Numbers<T> even = Plus(x[0], x[2]), odd = Plus(x[1], x[3]), difference = Minus(x[0], x[2]);
  const Numbers<T> last = Minus(x[1], x[3]), turned = {last.im, -last.re};
  x[0] = Plus(even, odd);
  x[1] = Plus(difference, turned);
  x[2] = Minus(even, odd);
  x[3] = Minus(difference, turned);
}

// Four registers at `to`: blocks of kB lanes of a, b, c, d in turns.
template <int kB, typename T>
MR_INLINE void StoreZipped(VecOf<T> a, VecOf<T> b, VecOf<T> c, VecOf<T> d, T* to) {
  constexpr int kLanes = Fp<T>::kLanes;
  const VecOf<T> even = ZipLow<kB>(a, c), odd = ZipLow<kB>(b, d);
  const VecOf<T> next_even = ZipHigh<kB>(a, c), next_odd = ZipHigh<kB>(b, d);
  Store(to, ZipLow<kB>(even, odd));
  Store(to + kLanes, ZipHigh<kB>(even, odd));
  Store(to + 2 * kLanes, ZipLow<kB>(next_even, next_odd));
  Store(to + 3 * kLanes, ZipHigh<kB>(next_even, next_odd));
}

// The stage of a stride below the number of lanes.
template <bool kPairs, int kStride, typename T>
MR_INLINE void FirstStage(const FftLine<T>& line, const T* turns, const T* x, bool conjugate, T* y) {
  const int64_t n = line.n, quarter = n / 4;
  for (int64_t t = 0; t < quarter; t += Fp<T>::kLanes) {
    Numbers<T> v[4];
    for (int64_t k = 0; k < 4; ++k) v[k] = Conjugate(LoadNumbers<kPairs>(x, n, k * quarter + t), conjugate);
    Four(v);
    for (int64_t k = 1; k < 4; ++k) {
      const T* const w = turns + (2 * k - 2) * quarter + t;
      v[k] = Times(v[k], Numbers<T>{Load(w), Load(w + quarter)});
    }
    StoreZipped<kStride, T>(v[0].re, v[1].re, v[2].re, v[3].re, y + 4 * t);
    StoreZipped<kStride, T>(v[0].im, v[1].im, v[2].im, v[3].im, y + n + 4 * t);
  }
}

template <typename T>
MR_INLINE void MiddleStage(const FftLine<T>& line, int64_t stride, const T* x, T* y) {
  const int64_t n = line.n, quarter = n / 4;
  for (int64_t q = 0; q * stride < quarter; ++q) {
    Numbers<T> w[4];
    for (int64_t k = 1; k < 4; ++k) {
      const T* const root = line.roots + 2 * k * q * stride;
      w[k] = {Set(root[0]), Set(root[1])};
    }
    for (int64_t r = 0; r < stride; r += Fp<T>::kLanes) {
      Numbers<T> v[4];
      for (int64_t k = 0; k < 4; ++k) v[k] = LoadNumbers<false>(x, n, k * quarter + q * stride + r);
      Four(v);
      StoreNumbers<false>(v[0], y, n, 4 * q * stride + r);
      for (int64_t k = 1; k < 4; ++k) StoreNumbers<false>(Times(v[k], w[k]), y, n, (4 * q + k) * stride + r);
    }
  }
}

// The last one, of radix 4 or 2, has no factors.
template <bool kPairs, typename T>
MR_INLINE void LastStage(int64_t n, bool four, const T* x, bool conjugate, T scale, T* y) {
  const VecOf<T> factor = Set(scale);
  const auto store = [=](Numbers<T> a, int64_t i) __attribute__((always_inline)) {
    a = Conjugate(a, conjugate);
    if (scale != 1) a = {a.re * factor, a.im * factor};
    StoreNumbers<kPairs>(a, y, n, i);
  };
  if (four) {
    const int64_t quarter = n / 4;
    for (int64_t r = 0; r < quarter; r += Fp<T>::kLanes) {
      Numbers<T> v[4];
      for (int64_t k = 0; k < 4; ++k) v[k] = LoadNumbers<false>(x, n, k * quarter + r);
      Four(v);
      for (int64_t k = 0; k < 4; ++k) store(v[k], k * quarter + r);
    }
  } else {
    const int64_t half = n / 2;
    for (int64_t r = 0; r < half; r += Fp<T>::kLanes) {
      const Numbers<T> a = LoadNumbers<false>(x, n, r), b = LoadNumbers<false>(x, n, half + r);
      store(Plus(a, b), r);
      store(Minus(a, b), half + r);
    }
  }
}

// All stages; `in` may be the second half of scratch, if it is not of pairs.
template <bool kPairsIn, bool kPairsOut, typename T>
MR_INLINE void RunStages(const FftLine<T>& line, const T* in, bool inverse, T scale, T* out, T* scratch) {
  const int64_t n = line.n;
  T *from = scratch, *to = scratch + 2 * n;
  FirstStage<kPairsIn, 1>(line, line.turns, in, inverse, from);
  int64_t stride = 4;
  const auto swap = [&]() __attribute__((always_inline)) {
    T* const held = from;
    from = to;
    to = held;
    stride *= 4;
  };
  if constexpr (Fp<T>::kLanes > 4) {
    FirstStage<false, 4>(line, line.turns + 6 * (n / 4), from, false, to);
    swap();
  }
  for (; 4 * stride < n; swap()) MiddleStage(line, stride, from, to);
  LastStage<kPairsOut>(n, 4 * stride == n, from, inverse, scale, out);
}

template <typename T>
static void RunLineOf(const FftLine<T>& line, const T* in, bool inverse, T scale, T* out, T* scratch) {
  RunStages<true, true>(line, in, inverse, scale, out, scratch);
}

// See BasicRealFft.
template <typename T>
static void ForwardLineOf(const FftLine<T>& line, const T* turns, const T* in, T* out, T* scratch) {
  constexpr int kLanes = Fp<T>::kLanes;
  const int64_t h = line.n;
  // The spectrum of the pairs lies where the last stage does not read.
  int stages = 0;
  for (int64_t rest = h; rest > 1; rest /= 4) ++stages;
  T* const z = scratch + (stages % 2 == 0 ? 2 * h : 0);
  RunStages<true, false>(line, in, false, T{1}, z, scratch);
  const T re = z[0], im = z[h];
  out[0] = re + im;
  out[2 * h] = re - im;
  out[1] = out[2 * h + 1] = 0;
  const VecOf<T> half = Set(T{0.5});
  for (int64_t k = 1; 2 * k <= h; k += kLanes) {
    const int64_t other_k = h - k - kLanes + 1;
    const Numbers<T> a = LoadNumbers<false>(z, h, k), w = LoadNumbers<true>(turns, h, k);
    Numbers<T> b = LoadNumbers<false>(z, h, other_k);
    b = {Reverse(b.re), Reverse(b.im)};
    const VecOf<T> root_re = half * w.re, root_im = half * w.im;
    const VecOf<T> less = a.re - b.re, more = a.im + b.im;
    const VecOf<T> even_re = half * (a.re + b.re), turned_re = more * root_re + less * root_im;
    const VecOf<T> even_im = half * (a.im - b.im), turned_im = more * root_im + less * -root_re;
    const Numbers<T> own = {even_re + turned_re, even_im + turned_im};
    const Numbers<T> other = {Reverse(even_re - turned_re), Reverse(turned_im - even_im)};
    StoreNumbers<true>(own, out, h, k);
    StoreNumbers<true>(other, out, h, other_k);
  }
}

template <typename T>
static void InverseLineOf(const FftLine<T>& line, const T* turns, const T* in, T scale, T* out, T* scratch) {
  constexpr int kLanes = Fp<T>::kLanes;
  const int64_t h = line.n;
  T* const z = scratch + 2 * h;
  const T first = in[0], last = in[2 * h];
  for (int64_t k = 1; 2 * k <= h; k += kLanes) {
    const int64_t other_k = h - k - kLanes + 1;
    const Numbers<T> a = LoadNumbers<true>(in, h, k), w = LoadNumbers<true>(turns, h, k);
    Numbers<T> b = LoadNumbers<true>(in, h, other_k);
    b = {Reverse(b.re), Reverse(b.im)};
    const VecOf<T> less = a.re - b.re, more = a.im + b.im;
    const VecOf<T> sum_re = a.re + b.re, turned_re = more * w.re + less * -w.im;
    const VecOf<T> sum_im = a.im - b.im, turned_im = less * w.re + more * w.im;
    const Numbers<T> own = {sum_re - turned_re, sum_im + turned_im};
    const Numbers<T> other = {Reverse(sum_re + turned_re), Reverse(turned_im - sum_im)};
    StoreNumbers<false>(own, z, h, k);
    StoreNumbers<false>(other, z, h, other_k);
  }
  z[0] = first + last;
  z[h] = first - last;
  RunStages<false, true>(line, z, true, scale, out, scratch);
}

// Lanes [begin, end), cut to those of a register; the others are zero, or not stored.
template <typename T>
MR_INLINE VecOf<T> LoadRange(const T* p, int64_t begin, int64_t end) {
  constexpr int64_t kLanes = Fp<T>::kLanes;
  begin = begin < 0 ? 0 : begin;
  end = end > kLanes ? kLanes : end;
  if (begin >= end) return VecOf<T>{};
  if (end - begin == kLanes) return Load(p);
#if defined(__AVX512F__)
  const uint32_t mask = (1u << end) - (1u << begin);
  if constexpr (sizeof(T) == 4) {
    return (VecOf<T>)_mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), p);
  } else {
    return (VecOf<T>)_mm512_maskz_loadu_pd(static_cast<__mmask8>(mask), p);
  }
#else
  VecOf<T> v = {};
  for (int64_t i = 0; i < kLanes; ++i) {
    if (i >= begin && i < end) v[i] = p[i];
  }
  return v;
#endif
}
template <typename T>
MR_INLINE void StoreRange(T* p, VecOf<T> v, int64_t begin, int64_t end) {
  constexpr int64_t kLanes = Fp<T>::kLanes;
  begin = begin < 0 ? 0 : begin;
  end = end > kLanes ? kLanes : end;
  if (begin >= end) return;
  if (end - begin == kLanes) return Store(p, v);
#if defined(__AVX512F__)
  const uint32_t mask = (1u << end) - (1u << begin);
  if constexpr (sizeof(T) == 4) {
    _mm512_mask_storeu_ps(p, static_cast<__mmask16>(mask), (__m512)v);
  } else {
    _mm512_mask_storeu_pd(p, static_cast<__mmask8>(mask), (__m512d)v);
  }
#else
  for (int64_t i = 0; i < kLanes; ++i) {
    if (i >= begin && i < end) p[i] = v[i];
  }
#endif
}

template <typename T>
static void SpreadOf(const T* from, int64_t length, int64_t step, int64_t first, int64_t count, T* x) {
  constexpr int64_t kLanes = Fp<T>::kLanes, kLines = 64 / sizeof(T);
  for (int64_t lane = 0; lane < kLines; lane += kLanes) {
    const int64_t begin = first - lane, end = begin + count;
    if (begin >= kLanes || end <= 0) continue;
    const T* at = from + 2 * (lane - first);
    T* to = x + lane;
    for (int64_t j = 0; j < length; ++j, at += 2 * step, to += 2 * kLines) {
      const Numbers<T> a = Unzip<T>(LoadRange(at, 2 * begin, 2 * end),
                                    LoadRange(at + kLanes, 2 * begin - kLanes, 2 * end - kLanes));
      StoreRange(to, a.re, begin, end);
      StoreRange(to + kLines, a.im, begin, end);
    }
  }
}

template <typename T>
static void CollectOf(const T* x, int64_t length, int64_t step, int64_t first, int64_t count, T scale,
                      T* to) {
  constexpr int64_t kLanes = Fp<T>::kLanes, kLines = 64 / sizeof(T);
  const VecOf<T> factor = Set(scale);
  for (int64_t lane = 0; lane < kLines; lane += kLanes) {
    const int64_t begin = first - lane, end = begin + count;
    if (begin >= kLanes || end <= 0) continue;
    const T* from = x + lane;
    T* at = to + 2 * (lane - first);
    for (int64_t j = 0; j < length; ++j, at += 2 * step, from += 2 * kLines) {
      VecOf<T> re = Load(from), im = Load(from + kLines);
      if (scale != 1) {
        re *= factor;
        im *= factor;
      }
      StoreRange(at, ZipLow<1>(re, im), 2 * begin, 2 * end);
      StoreRange(at + kLanes, ZipHigh<1>(re, im), 2 * begin - kLanes, 2 * end - kLanes);
    }
  }
}

// Number j of the first `lines` of kLanes adjacent lines, whose numbers are `step` apart.
template <bool kAll, typename T>
MR_INLINE Numbers<T> LoadAdjacent(const T* x, int64_t step, int64_t j, int64_t lines) {
  constexpr int64_t kLanes = Fp<T>::kLanes;
  const T* const at = x + 2 * j * step;
  if constexpr (kAll) {
    return Unzip<T>(Load(at), Load(at + kLanes));
  } else {
    return Unzip<T>(LoadRange(at, 0, 2 * lines), LoadRange(at + kLanes, 0, 2 * lines - kLanes));
  }
}
template <bool kAll, typename T>
MR_INLINE void StoreAdjacent(Numbers<T> a, T* x, int64_t step, int64_t j, int64_t lines) {
  constexpr int64_t kLanes = Fp<T>::kLanes;
  T* const at = x + 2 * j * step;
  const VecOf<T> low = ZipLow<1>(a.re, a.im), high = ZipHigh<1>(a.re, a.im);
  if constexpr (kAll) {
    Store(at, low);
    Store(at + kLanes, high);
  } else {
    StoreRange(at, low, 0, 2 * lines);
    StoreRange(at + kLanes, high, 0, 2 * lines - kLanes);
  }
}
// Between the stages kLanes real parts lie before kLanes imaginary ones.
template <typename T>
MR_INLINE Numbers<T> LoadLines(const T* x, int64_t j) {
  return {Load(x + 2 * Fp<T>::kLanes * j), Load(x + 2 * Fp<T>::kLanes * j + Fp<T>::kLanes)};
}
template <typename T>
MR_INLINE void StoreLines(Numbers<T> a, T* x, int64_t j) {
  Store(x + 2 * Fp<T>::kLanes * j, a.re);
  Store(x + 2 * Fp<T>::kLanes * j + Fp<T>::kLanes, a.im);
}

template <typename T>
MR_INLINE Numbers<T> RootAt(const FftLine<T>& line, int64_t j) {
  return {Set(line.roots[2 * j]), Set(line.roots[2 * j + 1])};
}

template <bool kAll, typename T>
MR_INLINE void RunGroup(const FftLine<T>& line, const T* in, int64_t in_step, bool inverse, T scale, T* out,
                        int64_t out_step, int64_t lines, T* scratch) {
  constexpr int64_t kLanes = Fp<T>::kLanes;
  const int64_t n = line.n, quarter = n / 4;
  T *from = scratch, *to = scratch + 2 * kLanes * n;
  for (int64_t q = 0; q < quarter; ++q) {
    Numbers<T> v[4];
    for (int64_t k = 0; k < 4; ++k)
      v[k] = Conjugate(LoadAdjacent<kAll>(in, in_step, k * quarter + q, lines), inverse);
    Four(v);
    StoreLines(v[0], from, 4 * q);
    for (int64_t k = 1; k < 4; ++k) StoreLines(Times(v[k], RootAt(line, k * q)), from, 4 * q + k);
  }
  int64_t stride = 4;
  for (; 4 * stride < n; stride *= 4) {
    for (int64_t q = 0; q * stride < quarter; ++q) {
      Numbers<T> w[4];
      for (int64_t k = 1; k < 4; ++k) w[k] = RootAt(line, k * q * stride);
      for (int64_t r = 0; r < stride; ++r) {
        Numbers<T> v[4];
        for (int64_t k = 0; k < 4; ++k) v[k] = LoadLines(from, k * quarter + q * stride + r);
        Four(v);
        StoreLines(v[0], to, 4 * q * stride + r);
        for (int64_t k = 1; k < 4; ++k) StoreLines(Times(v[k], w[k]), to, (4 * q + k) * stride + r);
      }
    }
    T* const held = from;
    from = to;
    to = held;
  }
  const VecOf<T> factor = Set(scale);
  const auto store = [=](Numbers<T> a, int64_t j) __attribute__((always_inline)) {
    a = Conjugate(a, inverse);
    if (scale != 1) a = {a.re * factor, a.im * factor};
    StoreAdjacent<kAll>(a, out, out_step, j, lines);
  };
  if (4 * stride == n) {
    for (int64_t r = 0; r < quarter; ++r) {
      Numbers<T> v[4];
      for (int64_t k = 0; k < 4; ++k) v[k] = LoadLines(from, k * quarter + r);
      Four(v);
      for (int64_t k = 0; k < 4; ++k) store(v[k], k * quarter + r);
    }
  } else {
    const int64_t half = n / 2;
    for (int64_t r = 0; r < half; ++r) {
      const Numbers<T> a = LoadLines(from, r), b = LoadLines(from, half + r);
      store(Plus(a, b), r);
      store(Minus(a, b), half + r);
    }
  }
}

template <typename T>
static void RunAdjacent(const FftLine<T>& line, const T* in, int64_t in_step, bool inverse, T scale, T* out,
                        int64_t out_step, int64_t lines, T* scratch) {
  constexpr int64_t kLanes = Fp<T>::kLanes;
  int64_t l = 0;
  for (; l + kLanes <= lines; l += kLanes)
    RunGroup<true>(line, in + 2 * l, in_step, inverse, scale, out + 2 * l, out_step, kLanes, scratch);
  if (l < lines)
    RunGroup<false>(line, in + 2 * l, in_step, inverse, scale, out + 2 * l, out_step, lines - l, scratch);
}

template <typename T>
inline constexpr FftLineTable<T> kFftLineTable = {
    .run = RunLineOf<T>,
    .forward = ForwardLineOf<T>,
    .inverse = InverseLineOf<T>,
    .spread = SpreadOf<T>,
    .collect = CollectOf<T>,
    .adjacent = RunAdjacent<T>,
};

const FftLineTable<float> kFftLineFloat = kFftLineTable<float>;
const FftLineTable<double> kFftLineDouble = kFftLineTable<double>;

}  // namespace millrace::cpu::MR_ISA
