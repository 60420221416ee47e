// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Index arithmetic that the algorithms for convolution share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/cpu/contract/conv.h"

namespace millrace::cpu {

inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t RoundUp(int64_t a, int64_t b) { return CeilDiv(a, b) * b; }

// One spatial dimension. Output o reads input o * stride + k * dilation - pad for each k of the filter.
// In padded pixels u = input + pad, split by stride into u = q * stride + phase, tap k always reads
// phase (k * dilation) % stride, at offset `shift`.
struct ConvAxis {
  int64_t in, out, filter, stride, dilation, pad;

  int64_t phase(int64_t k) const { return k * dilation % stride; }
  int64_t shift(int64_t k) const { return k * dilation / stride; }
  int64_t max_shift() const { return shift(filter - 1); }
};

inline ConvAxis RowAxis(const ConvParams& p) {
  return {p.in_h, p.out_h, p.filter_h, p.stride_h, p.dilation_h, p.pad_top};
}
inline ConvAxis ColumnAxis(const ConvParams& p) {
  return {p.in_w, p.out_w, p.filter_w, p.stride_w, p.dilation_w, p.pad_left};
}

// A phase that is read by some tap, and its taps in ascending order.
struct AxisPhase {
  int64_t phase;
  std::vector<int64_t> taps;
};

inline std::vector<AxisPhase> PhasesOf(const ConvAxis& axis) {
  std::vector<AxisPhase> phases;
  for (int64_t k = 0; k < axis.filter; ++k) {
    const int64_t phase = axis.phase(k);
    auto it =
        std::find_if(phases.begin(), phases.end(), [&](const AxisPhase& x) { return x.phase == phase; });
    if (it == phases.end()) it = phases.insert(it, AxisPhase{phase, {}});
    it->taps.push_back(k);
  }
  return phases;
}

// Whether padded copies have about the size of the images: padding, dilation and stride can be anything, and
// must not determine how much is allocated.
inline bool IsModest(const ConvParams& p) {
  constexpr int64_t kMaxFilterSide = 256;
  if (std::max(p.filter_h, p.filter_w) > kMaxFilterSide) return false;
  const auto extent = [](const ConvAxis& axis) {
    return static_cast<double>(axis.out - 1) * static_cast<double>(axis.stride) +
           static_cast<double>(axis.filter - 1) * static_cast<double>(axis.dilation) +
           static_cast<double>(axis.in);
  };
  const double images = static_cast<double>(p.in_h) * static_cast<double>(p.in_w) +
                        static_cast<double>(p.out_h) * static_cast<double>(p.out_w);
  return extent(RowAxis(p)) * extent(ColumnAxis(p)) <= 16 * images + 4096;
}

// Elements from one image, row, pixel and channel to the next.
struct ImageStrides {
  int64_t image, row, pixel, channel;
};

inline ImageStrides StridesOf(ImageLayout layout, int64_t h, int64_t w, int64_t c) {
  if (layout == ImageLayout::kNhwc) return {h * w * c, w * c, c, 1};
  return {c * h * w, w, 1, h * w};
}
inline ImageStrides InputStrides(const ConvParams& p) { return StridesOf(p.layout, p.in_h, p.in_w, p.in_c); }
inline ImageStrides OutputStrides(const ConvParams& p) {
  return StridesOf(p.layout, p.out_h, p.out_w, p.out_c);
}

// The range of i in [0, count) with 0 <= start + i * step < limit.
struct IndexRange {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

inline IndexRange InsideRange(int64_t start, int64_t step, int64_t limit, int64_t count) {
  const int64_t begin = start >= 0 ? 0 : CeilDiv(-start, step);
  const int64_t end = start >= limit ? 0 : CeilDiv(limit - start, step);
  const int64_t last = std::min(end, count);
  return {std::min(begin, last), last};
}

// Copies `count` elements, so few that a call would cost more than the copy.
template <typename T>
inline void CopyFew(const T* from, int64_t count, T* to) {
  constexpr int64_t kStep = 16 / sizeof(T);
  if (count < kStep) {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i];
    return;
  }
  for (int64_t i = 0; i + kStep < count; i += kStep) std::memcpy(to + i, from + i, kStep * sizeof(T));
  std::memcpy(to + count - kStep, from + count - kStep, kStep * sizeof(T));
}

// Columns at which the panels of a packed matrix begin (simd_gemm.inc.h), followed by the end: the units that
// threads share.
inline std::vector<int64_t> PanelBounds(int64_t columns, int64_t lanes) {
  std::vector<int64_t> bounds{0};
  for (int64_t left = CeilDiv(columns, lanes); left > 0;) {
    const int64_t vectors = left == 4 ? 2 : std::min<int64_t>(left, 3);
    bounds.push_back(std::min(bounds.back() + vectors * lanes, columns));
    left -= vectors;
  }
  return bounds;
}

// Work per nanosecond of one thread, for estimates of cost.
inline constexpr double kMultiplyAddsPerNs = 32;

inline int64_t CostNs(double multiply_adds) {
  return static_cast<int64_t>(std::min(multiply_adds / kMultiplyAddsPerNs, 1e15)) + 1;
}

}  // namespace millrace::cpu
