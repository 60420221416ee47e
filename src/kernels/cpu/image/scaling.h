// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Code that the resizing kernels and their gradients share: sizes, and the input pixels of each output
// pixel.
#pragma once

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "kernels/cpu/nn/util.h"

namespace millrace::image {

// How the coordinates of two images relate.
struct Alignment {
  bool corners = false;     // corner pixels coincide
  bool half_pixel = false;  // pixels have their centre at .5
};
// Reads align_corners and, if the op has it, half_pixel_centers.
Alignment ReadAlignment(KernelConstruction& c);

// From a position in an output of `out` pixels to one in an input of `in` pixels.
class Scaler {
 public:
  Scaler(int64_t in, int64_t out, Alignment alignment);
  float scale() const { return scale_; }
  float operator()(int64_t i) const {
    const auto x = static_cast<float>(i);
    return half_pixel_ ? (x + 0.5f) * scale_ - 0.5f : x * scale_;
  }
  // The nearest pixel of the input.
  int64_t Nearest(int64_t i) const;

 private:
  const int64_t in_;
  const bool corners_, half_pixel_;
  float scale_;
};

// Two neighbours and the weight of the upper one.
struct LinearTap {
  int64_t lower, upper;
  float share;
};
std::vector<LinearTap> LinearTaps(int64_t in, int64_t out, Alignment alignment);

// Four neighbours and their weights.
struct CubicTap {
  int64_t index[4];
  float weight[4];
};
std::vector<CubicTap> CubicTaps(int64_t in, int64_t out, Alignment alignment);

// Sizes of a batch of images and of the resized images.
struct ResizeSizes {
  int64_t batch, in_h, in_w, channels;
  int64_t out_h, out_w;
  TensorShape OutputShape() const { return TensorShape({batch, out_h, out_w, channels}); }
};
// `size`: the vector of the new height and width.
StatusOr<ResizeSizes> CheckResize(const Tensor& images, const Tensor& size);
StatusOr<ResizeSizes> CheckResize(const TensorShape& images, int64_t out_h, int64_t out_w);

// Four adjacent numbers as floats.
using FourFloats = float __attribute__((vector_size(16)));
inline FourFloats LoadFour(const float* p) {
  FourFloats v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}
inline FourFloats LoadFour(const uint8_t* p) {
#if defined(__SSE2__)
  int32_t bytes = 0;
  std::memcpy(&bytes, p, sizeof(bytes));
  const __m128i zero = _mm_setzero_si128();
  const __m128i words = _mm_unpacklo_epi8(_mm_cvtsi32_si128(bytes), zero);
  return _mm_cvtepi32_ps(_mm_unpacklo_epi16(words, zero));
#else
  FourFloats v;
  for (int i = 0; i < 4; ++i) v[i] = static_cast<float>(p[i]);
  return v;
#endif
}

// The first part of BilinearRow for pixels of three or four channels: as many pixels as can be read and
// written four numbers at a time. The next pixel overwrites the fourth number of three channels. Returns the
// number of pixels.
template <int kChannels, typename In>
size_t BilinearPixels(const In* top, const In* bottom, int64_t in_w, float y_share,
                      const std::vector<LinearTap>& xs, float* out) {
  const int64_t last = in_w - (kChannels == 4 ? 1 : 2);  // the last from which four numbers can be read
  const size_t end = xs.empty() || kChannels == 4 ? xs.size() : xs.size() - 1;
  size_t i = 0;
  for (; i < end && xs[i].lower <= last && xs[i].upper <= last; ++i) {
    const int64_t lower = xs[i].lower * kChannels, upper = xs[i].upper * kChannels;
    const FourFloats a = LoadFour(top + lower), c = LoadFour(bottom + lower);
    const FourFloats above = a + (LoadFour(top + upper) - a) * xs[i].share;
    const FourFloats below = c + (LoadFour(bottom + upper) - c) * xs[i].share;
    const FourFloats value = above + (below - above) * y_share;
    std::memcpy(out + static_cast<int64_t>(i) * kChannels, &value, sizeof(value));
  }
  return i;
}

// One row of the output, from the rows `y` of the image `in`.
template <typename In, typename T>
void BilinearRow(const In* in, const ResizeSizes& s, const LinearTap& y, const std::vector<LinearTap>& xs,
                 T* out) {
  const In* top = in + y.lower * s.in_w * s.channels;
  const In* bottom = in + y.upper * s.in_w * s.channels;
  const auto number = [](In v) { return static_cast<T>(v); };
  size_t done = 0;
  if constexpr (std::is_same_v<T, float> && (std::is_same_v<In, float> || std::is_same_v<In, uint8_t>)) {
    if (s.channels == 3) done = BilinearPixels<3>(top, bottom, s.in_w, y.share, xs, out);
    if (s.channels == 4) done = BilinearPixels<4>(top, bottom, s.in_w, y.share, xs, out);
    out += static_cast<int64_t>(done) * s.channels;
  }
  for (const LinearTap& x : std::span(xs).subspan(done)) {
    const In *a = top + x.lower * s.channels, *b = top + x.upper * s.channels;
    const In *c = bottom + x.lower * s.channels, *d = bottom + x.upper * s.channels;
    for (int64_t k = 0; k < s.channels; ++k) {
      const T above = number(a[k]) + (number(b[k]) - number(a[k])) * x.share;
      const T below = number(c[k]) + (number(d[k]) - number(c[k])) * x.share;
      *out++ = above + (below - above) * y.share;
    }
  }
}

}  // namespace millrace::image
