// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/image/scaling.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace millrace::image {
namespace {

// Weights of bicubic interpolation for fractions of a pixel in steps of 1/1024, as in TensorFlow's tables:
// Keys, "Cubic convolution interpolation for digital image processing", with the parameter `a`.
constexpr int kSteps = 1 << 10;
using CubicTable = std::array<float, (kSteps + 1) * 2>;

CubicTable MakeTable(double a) {
  CubicTable table;
  for (int i = 0; i <= kSteps; ++i) {
    auto x = static_cast<float>(i * 1.0 / kSteps);
    table[static_cast<size_t>(2 * i)] = static_cast<float>(((a + 2) * x - (a + 3)) * x * x + 1);
    x += 1.0f;
    table[static_cast<size_t>(2 * i + 1)] = static_cast<float>(((a * x - 5 * a) * x + 8 * a) * x - 4 * a);
  }
  return table;
}

const CubicTable& TableFor(bool half_pixel) {
  static const CubicTable sharp = MakeTable(-0.75), smooth = MakeTable(-0.5);
  return half_pixel ? smooth : sharp;
}

int64_t Within(int64_t i, int64_t size) { return std::clamp<int64_t>(i, 0, size - 1); }

}  // namespace

Alignment ReadAlignment(KernelConstruction& c) {
  Alignment a{.corners = c.Attr<bool>("align_corners"),
              .half_pixel = c.HasAttr("half_pixel_centers") && c.Attr<bool>("half_pixel_centers")};
  if (a.corners && a.half_pixel)
    c.SetError(errors::InvalidArgument("If half_pixel_centers is True, align_corners must be False."));
  return a;
}

Scaler::Scaler(int64_t in, int64_t out, Alignment alignment)
    : in_(in), corners_(alignment.corners), half_pixel_(alignment.half_pixel) {
  const bool between = corners_ && out > 1;
  scale_ = between ? static_cast<float>(in - 1) / static_cast<float>(out - 1)
                   : static_cast<float>(in) / static_cast<float>(out);
}

int64_t Scaler::Nearest(int64_t i) const {
  const auto x = static_cast<float>(i);
  const float at = half_pixel_ ? (x + 0.5f) * scale_ : x * scale_;
  return Within(static_cast<int64_t>(corners_ ? std::round(at) : std::floor(at)), in_);
}

std::vector<LinearTap> LinearTaps(int64_t in, int64_t out, Alignment alignment) {
  const Scaler scaler(in, out, alignment);
  std::vector<LinearTap> taps(static_cast<size_t>(out));
  for (int64_t i = 0; i < out; ++i) {
    const float at = scaler(i), floor = std::floor(at);
    taps[static_cast<size_t>(i)] = {Within(static_cast<int64_t>(floor), in),
                                    Within(static_cast<int64_t>(std::ceil(at)), in), at - floor};
  }
  return taps;
}

std::vector<CubicTap> CubicTaps(int64_t in, int64_t out, Alignment alignment) {
  const Scaler scaler(in, out, alignment);
  const CubicTable& table = TableFor(alignment.half_pixel);
  std::vector<CubicTap> taps(static_cast<size_t>(out));
  for (int64_t i = 0; i < out; ++i) {
    CubicTap& tap = taps[static_cast<size_t>(i)];
    const float at = scaler(i);
    const auto floor = static_cast<int64_t>(std::floor(at));
    const auto step = std::clamp<long>(std::lrint((at - static_cast<float>(floor)) * kSteps), 0, kSteps);
    const auto near = static_cast<size_t>(2 * step), far = static_cast<size_t>(2 * (kSteps - step));
    const float weights[] = {table[near + 1], table[near], table[far], table[far + 1]};
    float sum = 0;
    for (int k = 0; k < 4; ++k) {
      tap.index[k] = Within(floor - 1 + k, in);
      // With centres at .5, pixels outside have weight 0; otherwise the border is repeated.
      tap.weight[k] = !alignment.half_pixel || tap.index[k] == floor - 1 + k ? weights[k] : 0.0f;
      sum += tap.weight[k];
    }
    if (!alignment.half_pixel || std::abs(sum) < 1000.0f * std::numeric_limits<float>::min()) continue;
    for (float& weight : tap.weight) weight *= 1.0f / sum;
  }
  return taps;
}

StatusOr<ResizeSizes> CheckResize(const TensorShape& images, int64_t out_h, int64_t out_w) {
  if (images.rank() != 4) return errors::InvalidArgument("input must be 4-dimensional", images);
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const ResizeSizes s{images.dim(0), images.dim(1), images.dim(2), images.dim(3), out_h, out_w};
  if (s.in_h > kMost || s.in_w > kMost)
    return errors::InvalidArgument("input sizes must be between 0 and max int32");
  if (out_h <= 0 || out_w <= 0) return errors::InvalidArgument("output dimensions must be positive");
  // Tables have an entry for each row and column.
  constexpr int64_t kMostOut = int64_t{1} << 24;
  if (out_h > kMostOut || out_w > kMostOut)
    return errors::InvalidArgument("output dimensions must not be over ", kMostOut);
  if (s.channels <= 0) return errors::InvalidArgument("image must have at least one channel");
  if (s.in_h <= 0 || s.in_w <= 0) return errors::InvalidArgument("input image must be of non-zero size");
  MR_RETURN_IF_ERROR(CheckImageSize("The resized image", s.batch, out_h, out_w, s.channels));
  return s;
}

StatusOr<ResizeSizes> CheckResize(const Tensor& images, const Tensor& size) {
  if (images.rank() != 4) return errors::InvalidArgument("input must be 4-dimensional", images.shape());
  if (!size.shape().IsVector()) return errors::InvalidArgument("shape_t must be 1-dimensional", size.shape());
  if (size.num_elements() != 2)
    return errors::InvalidArgument("shape_t must have two elements", size.shape());
  return CheckResize(images.shape(), IntValue(size, 0), IntValue(size, 1));
}

}  // namespace millrace::image
