// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// ResizeArea, ResizeBicubic, ResizeBilinear and ResizeNearestNeighbor.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/image/scaling.h"

namespace millrace {
namespace {

using image::Alignment;
using image::CubicTap;
using image::ResizeSizes;

constexpr int64_t kCostPerSampleNs = 3;

// Those that give floats. They work on floats, too, whatever the images are.
class FloatResizeKernel : public OpKernel {
 public:
  explicit FloatResizeKernel(KernelConstruction& c) : OpKernel(c), alignment_(image::ReadAlignment(c)) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const ResizeSizes s, image::CheckResize(context.input(0), context.input(1)));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, s.OutputShape()));
    if (out->num_elements() == 0) return Status();
    MR_ASSIGN_OR_RETURN(const Tensor in, ToFloat(context, context.input(0)));
    Resize(context, s, in.data<float>(), out->data<float>());
    return Status();
  }

 protected:
  virtual void Resize(const KernelContext& context, const ResizeSizes& s, const float* in,
                      float* out) const = 0;

  // Calls fn(first pixel of the image, number of the output's row in it, the output's row).
  template <typename T, typename Fn>
  static void ForRows(const KernelContext& context, const ResizeSizes& s, const T* in, float* out, Fn fn) {
    const int64_t row = s.out_w * s.channels;
    context.ParallelFor(s.batch * s.out_h, row * kCostPerSampleNs, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        fn(in + r / s.out_h * s.in_h * s.in_w * s.channels, r % s.out_h, out + r * row);
    });
  }

  const Alignment alignment_;
};

class BilinearKernel final : public FloatResizeKernel {
 public:
  using FloatResizeKernel::FloatResizeKernel;
  // What is decoded has bytes: of a large image few of them are looked at, so it is not made floats before.
  Status Compute(KernelContext& context) override {
    if (context.input(0).dtype() != DataType::kUint8) return FloatResizeKernel::Compute(context);
    MR_ASSIGN_OR_RETURN(const ResizeSizes s, image::CheckResize(context.input(0), context.input(1)));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, s.OutputShape()));
    if (out->num_elements() > 0) ResizeAny(context, s, context.input(0).data<uint8_t>(), out->data<float>());
    return Status();
  }

 private:
  void Resize(const KernelContext& context, const ResizeSizes& s, const float* in,
              float* out) const override {
    ResizeAny(context, s, in, out);
  }
  template <typename T>
  void ResizeAny(const KernelContext& context, const ResizeSizes& s, const T* in, float* out) const {
    const auto ys = image::LinearTaps(s.in_h, s.out_h, alignment_);
    const auto xs = image::LinearTaps(s.in_w, s.out_w, alignment_);
    ForRows(context, s, in, out, [&](const T* pixels, int64_t y, float* to) {
      image::BilinearRow(pixels, s, ys[static_cast<size_t>(y)], xs, to);
    });
  }
};

class BicubicKernel final : public FloatResizeKernel {
 public:
  using FloatResizeKernel::FloatResizeKernel;

 private:
  void Resize(const KernelContext& context, const ResizeSizes& s, const float* in,
              float* out) const override {
    const auto ys = image::CubicTaps(s.in_h, s.out_h, alignment_);
    const auto xs = image::CubicTaps(s.in_w, s.out_w, alignment_);
    const int64_t in_row = s.in_w * s.channels;
    ForRows(context, s, in, out, [&](const float* image, int64_t y, float* to) {
      const CubicTap& tap = ys[static_cast<size_t>(y)];
      // First all columns of four rows into one row, then four columns of it into each pixel.
      thread_local std::vector<float> blended;
      blended.resize(static_cast<size_t>(in_row));
      float* const row = blended.data();
      const float* const rows[] = {image + tap.index[0] * in_row, image + tap.index[1] * in_row,
                                   image + tap.index[2] * in_row, image + tap.index[3] * in_row};
      for (int64_t k = 0; k < in_row; ++k) {
        row[k] = rows[0][k] * tap.weight[0] + rows[1][k] * tap.weight[1] + rows[2][k] * tap.weight[2] +
                 rows[3][k] * tap.weight[3];
      }
      for (const CubicTap& x : xs) {
        const float* const columns[] = {row + x.index[0] * s.channels, row + x.index[1] * s.channels,
                                        row + x.index[2] * s.channels, row + x.index[3] * s.channels};
        for (int64_t c = 0; c < s.channels; ++c) {
          to[c] = columns[0][c] * x.weight[0] + columns[1][c] * x.weight[1] + columns[2][c] * x.weight[2] +
                  columns[3][c] * x.weight[3];
        }
        to += s.channels;
      }
    });
  }
};

// The input pixels that an output pixel lies over, and how much of each.
struct AreaTap {
  int64_t begin, end;
  float first, last, whole;  // shares of the first, the last and those between
  float share(int64_t i) const { return i == begin ? first : i == end - 1 ? last : whole; }
};

std::vector<AreaTap> AreaTaps(int64_t in, int64_t out, Alignment alignment) {
  const float scale = image::Scaler(in, out, alignment).scale();
  std::vector<AreaTap> taps(static_cast<size_t>(out));
  for (int64_t i = 0; i < out; ++i) {
    const float from = static_cast<float>(i) * scale, to = static_cast<float>(i + 1) * scale;
    AreaTap& tap = taps[static_cast<size_t>(i)];
    tap.begin = static_cast<int64_t>(std::floor(from));
    tap.end = static_cast<int64_t>(std::ceil(to));
    const auto share = [&](int64_t k) {
      const auto low = static_cast<float>(k), high = static_cast<float>(k + 1);
      if (low < from) return high > to ? scale : high - from;
      return high > to ? to - low : 1.0f;
    };
    tap.first = share(tap.begin);
    tap.last = share(tap.end - 1);
    tap.whole = 1.0f;
  }
  return taps;
}

class AreaKernel final : public FloatResizeKernel {
 public:
  using FloatResizeKernel::FloatResizeKernel;

 private:
  void Resize(const KernelContext& context, const ResizeSizes& s, const float* in,
              float* out) const override {
    const auto ys = AreaTaps(s.in_h, s.out_h, alignment_), xs = AreaTaps(s.in_w, s.out_w, alignment_);
    const float scale = 1.0f / (image::Scaler(s.in_h, s.out_h, alignment_).scale() *
                                image::Scaler(s.in_w, s.out_w, alignment_).scale());
    ForRows(context, s, in, out, [&](const float* image, int64_t y, float* to) {
      const AreaTap& rows = ys[static_cast<size_t>(y)];
      for (const AreaTap& columns : xs) {
        for (int64_t c = 0; c < s.channels; ++c) to[c] = 0;
        for (int64_t i = rows.begin; i < rows.end; ++i) {
          // Pixels beyond the image equal those of its border.
          const float* row = image + std::min(i, s.in_h - 1) * s.in_w * s.channels;
          for (int64_t j = columns.begin; j < columns.end; ++j) {
            const float share = rows.share(i) * columns.share(j) * scale;
            const float* pixel = row + std::min(j, s.in_w - 1) * s.channels;
            for (int64_t c = 0; c < s.channels; ++c) to[c] += pixel[c] * share;
          }
        }
        to += s.channels;
      }
    });
  }
};

class NearestKernel final : public OpKernel {
 public:
  explicit NearestKernel(KernelConstruction& c) : OpKernel(c), alignment_(image::ReadAlignment(c)) {}
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    MR_ASSIGN_OR_RETURN(const ResizeSizes s, image::CheckResize(in, context.input(1)));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, s.OutputShape()));
    if (out->num_elements() == 0) return Status();
    const image::Scaler rows(s.in_h, s.out_h, alignment_), columns(s.in_w, s.out_w, alignment_);
    const auto pixel = static_cast<int64_t>(ElementSize(in.dtype())) * s.channels;
    std::vector<int64_t> offsets(static_cast<size_t>(s.out_w));
    for (int64_t x = 0; x < s.out_w; ++x) offsets[static_cast<size_t>(x)] = columns.Nearest(x) * pixel;
    const auto* from = static_cast<const char*>(in.raw_data());
    auto* to = static_cast<char*>(out->raw_data());
    context.ParallelFor(s.batch * s.out_h, s.out_w * 2, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const char* row = from + (r / s.out_h * s.in_h + rows.Nearest(r % s.out_h)) * s.in_w * pixel;
        char* target = to + r * s.out_w * pixel;
        for (int64_t x = 0; x < s.out_w; ++x, target += pixel)
          std::memcpy(target, row + offsets[static_cast<size_t>(x)], static_cast<size_t>(pixel));
      }
    });
    return Status();
  }

 private:
  const Alignment alignment_;
};

}  // namespace

void RegisterResizeKernels(KernelRegistry& registry) {
  registry.Register<AreaKernel>(KernelDef("ResizeArea"));
  registry.Register<BicubicKernel>(KernelDef("ResizeBicubic"));
  registry.Register<BilinearKernel>(KernelDef("ResizeBilinear"));
  registry.Register<NearestKernel>(KernelDef("ResizeNearestNeighbor"));
}

}  // namespace millrace
