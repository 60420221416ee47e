// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution of float and double for one instruction set. Vectors lie along the channels.
#include "kernels/cpu/vector/depthwise_table.h"
#include "kernels/cpu/vector/simd.inc.h"

namespace millrace::cpu::MR_ISA {
namespace {

template <typename T, typename V>
MR_INLINE V Finished(V sum, V scale, V shift, const DepthwiseFinish<T>& finish) {
  if (finish.scale != nullptr) sum = sum * scale + shift;
  if (finish.relu || finish.relu6) sum = sum < V{} ? V{} : sum;
  const V six = V{} + T{6};
  return finish.relu6 ? (sum > six ? six : sum) : sum;
}

// kPixels pixels and kVecs vectors of channels at a time, so that a weight is loaded once for the pixels.
// kTaps is the number of taps, or 0: any.
template <int kPixels, int kVecs, int kTaps, typename T>
MR_INLINE void GatherBlock(const T* const* x, int64_t x_step, const T* const* w, int64_t taps, int64_t at,
                           T* out, int64_t out_step, const DepthwiseFinish<T>& finish) {
  using V = typename Fp<T>::Vec;
  constexpr int kLanes = Fp<T>::kLanes;
  V sums[kPixels][kVecs] = {};
  const int64_t count = kTaps > 0 ? kTaps : taps;
#pragma GCC unroll 9
  for (int64_t t = 0; t < count; ++t) {
    const T* from = x[t] + at;
    for (int v = 0; v < kVecs; ++v) {
      const V weight = Load(w[t] + at + v * kLanes);
      for (int p = 0; p < kPixels; ++p) sums[p][v] += Load(from + p * x_step + v * kLanes) * weight;
    }
  }
  for (int v = 0; v < kVecs; ++v) {
    V scale = {}, shift = {};
    if (finish.scale != nullptr) {
      scale = Load(finish.scale + at + v * kLanes);
      shift = Load(finish.shift + at + v * kLanes);
    }
    for (int p = 0; p < kPixels; ++p)
      Store(out + p * out_step + at + v * kLanes, Finished<T>(sums[p][v], scale, shift, finish));
  }
}

template <int kPixels, int kTaps, typename T>
MR_INLINE void GatherPixels(const T* const* x, int64_t x_step, const T* const* w, int64_t taps,
                            int64_t channels, T* out, int64_t out_step, const DepthwiseFinish<T>& finish) {
  constexpr int kLanes = Fp<T>::kLanes;
  int64_t c = 0;
  for (; c + 2 * kLanes <= channels; c += 2 * kLanes)
    GatherBlock<kPixels, 2, kTaps>(x, x_step, w, taps, c, out, out_step, finish);
  for (; c + kLanes <= channels; c += kLanes)
    GatherBlock<kPixels, 1, kTaps>(x, x_step, w, taps, c, out, out_step, finish);
  if (c == channels) return;
  for (int p = 0; p < kPixels; ++p) {
    typename Fp<T>::Vec sum = {};
    const int64_t rest = channels - c;
    for (int64_t t = 0; t < taps; ++t)
      sum += LoadPart(x[t] + p * x_step + c, rest) * LoadPart(w[t] + c, rest);
    typename Fp<T>::Vec scale = {}, shift = {};
    if (finish.scale != nullptr) {
      scale = LoadPart(finish.scale + c, rest);
      shift = LoadPart(finish.shift + c, rest);
    }
    StorePart(out + p * out_step + c, Finished<T>(sum, scale, shift, finish), rest);
  }
}

template <typename T>
void Gather(const T* const* x, int64_t x_step, const T* const* w, int64_t taps, int64_t channels,
            int64_t pixels, T* out, int64_t out_step, const DepthwiseFinish<T>& finish) {
  constexpr int64_t kMostTaps = 64;
  const T* moved[kMostTaps];
  if (taps > kMostTaps) {
    // Partial sums over the taps would need the output twice; so large windows go tap by tap.
    for (int64_t p = 0; p < pixels; ++p) {
      for (int64_t c = 0; c < channels; ++c) {
        T sum = 0;
        for (int64_t t = 0; t < taps; ++t) sum += x[t][p * x_step + c] * w[t][c];
        if (finish.scale != nullptr) sum = sum * finish.scale[c] + finish.shift[c];
        if ((finish.relu || finish.relu6) && sum < 0) sum = 0;
        out[p * out_step + c] = finish.relu6 && sum > 6 ? T{6} : sum;
      }
    }
    return;
  }
  int64_t p = 0;
  const auto move = [&] {
    for (int64_t t = 0; t < taps; ++t) moved[t] = x[t] + p * x_step;
  };
  constexpr int kMany = sizeof(typename Fp<T>::Vec) == 64 ? 8 : 4;  // as many sums as registers hold
  if (taps == 9) {
    for (; p + kMany <= pixels; p += kMany) {
      move();
      GatherPixels<kMany, 9>(moved, x_step, w, taps, channels, out + p * out_step, out_step, finish);
    }
  }
  for (; p + 4 <= pixels; p += 4) {
    move();
    GatherPixels<4, 0>(moved, x_step, w, taps, channels, out + p * out_step, out_step, finish);
  }
  for (; p < pixels; ++p) {
    move();
    GatherPixels<1, 0>(moved, x_step, w, taps, channels, out + p * out_step, out_step, finish);
  }
}

template <int kVecs, typename T>
MR_INLINE void CorrelateBlock(const T* x, int64_t x_step, const T* y, int64_t y_step, int64_t pixels,
                              T* sums) {
  using V = typename Fp<T>::Vec;
  constexpr int kLanes = Fp<T>::kLanes;
  V totals[kVecs];
  for (int v = 0; v < kVecs; ++v) totals[v] = Load(sums + v * kLanes);
  for (int64_t p = 0; p < pixels; ++p) {
    for (int v = 0; v < kVecs; ++v)
      totals[v] += Load(x + p * x_step + v * kLanes) * Load(y + p * y_step + v * kLanes);
  }
  for (int v = 0; v < kVecs; ++v) Store(sums + v * kLanes, totals[v]);
}

template <typename T>
void Correlate(const T* x, int64_t x_step, const T* y, int64_t y_step, int64_t channels, int64_t pixels,
               T* sums) {
  constexpr int kLanes = Fp<T>::kLanes;
  int64_t c = 0;
  for (; c + 4 * kLanes <= channels; c += 4 * kLanes)
    CorrelateBlock<4>(x + c, x_step, y + c, y_step, pixels, sums + c);
  for (; c + kLanes <= channels; c += kLanes)
    CorrelateBlock<1>(x + c, x_step, y + c, y_step, pixels, sums + c);
  if (c == channels) return;
  const int64_t rest = channels - c;
  auto total = LoadPart(sums + c, rest);
  for (int64_t p = 0; p < pixels; ++p)
    total += LoadPart(x + p * x_step + c, rest) * LoadPart(y + p * y_step + c, rest);
  StorePart(sums + c, total, rest);
}

}  // namespace

constinit const DepthwiseTable kDepthwiseTable = {
    .f32 = {Gather<float>, Correlate<float>},
    .f64 = {Gather<double>, Correlate<double>},
};

}  // namespace millrace::cpu::MR_ISA
