// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// What the resizing kernels and their gradients share: sizes, and which pixels of the input make one of the
// output.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/nn/util.h"

namespace millrace::image {

// How the coordinates of two images relate.
struct Alignment {
  bool corners = false;     // corner pixels lie on each other
  bool half_pixel = false;  // pixels have their centre at .5
};
// Reads align_corners and, where there is one, half_pixel_centers.
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

// Two neighbours and the share of the upper one.
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

// Sizes of a batch of images and of what they are resized to.
struct ResizeSizes {
  int64_t batch, in_h, in_w, channels;
  int64_t out_h, out_w;
  TensorShape OutputShape() const { return TensorShape({batch, out_h, out_w, channels}); }
};
// `size`: the vector of the new height and width.
StatusOr<ResizeSizes> CheckResize(const Tensor& images, const Tensor& size);
StatusOr<ResizeSizes> CheckResize(const TensorShape& images, int64_t out_h, int64_t out_w);

// One row of the output: from the rows of `in`, an image, that `y` names.
template <typename In, typename T>
void BilinearRow(const In* in, const ResizeSizes& s, const LinearTap& y, const std::vector<LinearTap>& xs,
                 T* out) {
  const In* top = in + y.lower * s.in_w * s.channels;
  const In* bottom = in + y.upper * s.in_w * s.channels;
  const auto number = [](In v) { return static_cast<T>(v); };
  for (const LinearTap& x : xs) {
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
