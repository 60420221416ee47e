// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// ResizeArea, ResizeBicubic, ResizeBilinear and ResizeNearestNeighbor.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/contract/isa.h"
#include "kernels/cpu/image/scaling.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace millrace {
namespace {

using image::Alignment;
using image::CubicTap;
using image::LinearTap;
using image::ResizeSizes;

constexpr int64_t kCostPerSampleNs = 3;

// The methods that output floats. They also compute in floats, whatever the type of the images.
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

  // Calls fn(first pixel of the image, index of the output's row in it, the output's row).
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

#if defined(__x86_64__)
// Two pixels of bytes of three or four channels, as eight floats. The second one is at `second`.
__attribute__((target("avx2"))) inline __m256 LoadTwo(const uint8_t* first, const uint8_t* second) {
  int32_t low, high;
  std::memcpy(&low, first, sizeof(low));
  std::memcpy(&high, second, sizeof(high));
  const __m128i bytes = _mm_insert_epi32(_mm_cvtsi32_si128(low), high, 1);
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
}

// The same as image::BilinearRow for the first `n` pixels of a row, two at a time: an even number of pixels
// that four numbers can be read from and, if `to` is a row, be written to. Products and sums are not
// contracted.
__attribute__((target("avx2"))) void BilinearPairs(const uint8_t* top, const uint8_t* bottom,
                                                   int64_t channels, float y_share, const LinearTap* xs,
                                                   int64_t n, float* to) {
  const __m256 y = _mm256_set1_ps(y_share);
  for (int64_t i = 0; i < n; i += 2, to += 2 * channels) {
    const int64_t lower0 = xs[i].lower * channels, upper0 = xs[i].upper * channels;
    const int64_t lower1 = xs[i + 1].lower * channels, upper1 = xs[i + 1].upper * channels;
    const __m256 x = _mm256_set_m128(_mm_set1_ps(xs[i + 1].share), _mm_set1_ps(xs[i].share));
    const __m256 a = LoadTwo(top + lower0, top + lower1), b = LoadTwo(top + upper0, top + upper1);
    const __m256 c = LoadTwo(bottom + lower0, bottom + lower1), d = LoadTwo(bottom + upper0, bottom + upper1);
    const __m256 above = _mm256_add_ps(a, _mm256_mul_ps(_mm256_sub_ps(b, a), x));
    const __m256 below = _mm256_add_ps(c, _mm256_mul_ps(_mm256_sub_ps(d, c), x));
    const __m256 value = _mm256_add_ps(above, _mm256_mul_ps(_mm256_sub_ps(below, above), y));
    // The next pixel overwrites the fourth number of three channels.
    _mm_storeu_ps(to, _mm256_castps256_ps128(value));
    _mm_storeu_ps(to + channels, _mm256_extractf128_ps(value, 1));
  }
}
#endif

// The number of first pixels that BilinearPairs can compute.
int64_t PixelsInPairs(const ResizeSizes& s, const std::vector<LinearTap>& xs) {
#if defined(__x86_64__)
  if ((s.channels != 3 && s.channels != 4) || cpu::ActiveIsa() == cpu::Isa::kBaseline) return 0;
  const int64_t last = s.in_w - (s.channels == 4 ? 1 : 2);  // the last from which four numbers can be read
  const int64_t end = static_cast<int64_t>(xs.size()) - (s.channels == 4 ? 0 : 1);
  int64_t n = 0;
  while (n < end && xs[static_cast<size_t>(n)].lower <= last && xs[static_cast<size_t>(n)].upper <= last) ++n;
  return n / 2 * 2;
#else
  return 0;
#endif
}

class BilinearKernel final : public FloatResizeKernel {
 public:
  using FloatResizeKernel::FloatResizeKernel;
  // Decoded images are of bytes: few of the pixels of a large image are read, so it is not converted first.
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
    const int64_t in_pairs = std::is_same_v<T, uint8_t> ? PixelsInPairs(s, xs) : 0;
    const std::vector<LinearTap> rest(xs.begin() + in_pairs, xs.end());
    ForRows(context, s, in, out, [&](const T* pixels, int64_t row, float* to) {
      const LinearTap& y = ys[static_cast<size_t>(row)];
#if defined(__x86_64__)
      if constexpr (std::is_same_v<T, uint8_t>) {
        const int64_t in_row = s.in_w * s.channels;
        if (in_pairs > 0) {
          BilinearPairs(pixels + y.lower * in_row, pixels + y.upper * in_row, s.channels, y.share, xs.data(),
                        in_pairs, to);
        }
      }
#endif
      image::BilinearRow(pixels, s, y, rest, to + in_pairs * s.channels);
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
      // First blends four rows to one row, then four columns of that row to each pixel.
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

// The input pixels that an output pixel covers, and their weights.
struct AreaTap {
  int64_t begin, end;
  float first, last, whole;  // weights of the first, the last and the others
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
