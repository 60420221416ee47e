// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// ResizeBicubicGrad, ResizeBilinearGrad and ResizeNearestNeighborGrad.
#include <algorithm>

#include "kernels/cpu/image/scaling.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/loop.h"

namespace millrace {
namespace {

using image::Alignment;
using image::ResizeSizes;

constexpr int64_t kCostPerSampleNs = 4;

// Runs add(sums) on zeros and converts the sums to output 0. Sums of the small types are floats.
template <typename Fn>
Status Accumulate(KernelContext& context, const TensorShape& shape, Fn add) {
  MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
  const DataType type = out->dtype();
  if (type == DataType::kDouble || type == DataType::kFloat) {
    if (type == DataType::kDouble) {
      std::fill_n(out->data<double>(), shape.num_elements(), 0.0);
      add(out->data<double>());
    } else {
      std::fill_n(out->data<float>(), shape.num_elements(), 0.0f);
      add(out->data<float>());
    }
    return Status();
  }
  MR_ASSIGN_OR_RETURN(Tensor sums, context.AllocateTemp(DataType::kFloat, shape));
  std::fill_n(sums.data<float>(), shape.num_elements(), 0.0f);
  add(sums.data<float>());
  FromFloat(context, sums, out);
  return Status();
}

// One thread works on each image of the batch.
template <typename Fn>
void ForImages(const KernelContext& context, const ResizeSizes& s, Fn fn) {
  const int64_t samples = s.out_h * s.out_w * s.channels;
  context.ParallelFor(s.batch, samples * kCostPerSampleNs, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      RunLoop([&fn, from = b * samples, to = b * s.in_h * s.in_w * s.channels]()
                  MR_INLINE_LAMBDA { fn(from, to); });
    }
  });
}

template <typename T>
void AddScaled(const float* __restrict from, int64_t n, float a, float b, T* __restrict to) {
  for (int64_t i = 0; i < n; ++i) to[i] += static_cast<T>(from[i]) * static_cast<T>(a) * static_cast<T>(b);
}

// The gradients of an image of another size, summed by `Method`.
template <typename Method>
class FloatGradientKernel final : public OpKernel {
 public:
  explicit FloatGradientKernel(KernelConstruction& c) : OpKernel(c), alignment_(image::ReadAlignment(c)) {}
  Status Compute(KernelContext& context) override {
    const Tensor& grads = context.input(0);
    const Tensor& original = context.input(1);
    if (grads.rank() != 4) return errors::InvalidArgument("input_grad must be 4-dimensional", grads.shape());
    if (original.rank() != 4)
      return errors::InvalidArgument("original_image must be 4-dimensional", original.shape());
    if (grads.dim(0) != original.dim(0) || grads.dim(3) != original.dim(3)) {
      return errors::InvalidArgument("grads and original_image must have the same batch and channels: ",
                                     grads.shape(), " vs. ", original.shape());
    }
    MR_ASSIGN_OR_RETURN(const ResizeSizes s,
                        image::CheckResize(original.shape(), grads.dim(1), grads.dim(2)));
    return Accumulate(context, original.shape(),
                      [&](auto* sums) { Method::Add(context, s, alignment_, grads.data<float>(), sums); });
  }

 private:
  const Alignment alignment_;
};

struct Bilinear {
  template <typename T>
  static void Add(const KernelContext& context, const ResizeSizes& s, Alignment alignment, const float* grads,
                  T* sums) {
    const auto ys = image::LinearTaps(s.in_h, s.out_h, alignment);
    const auto xs = image::LinearTaps(s.in_w, s.out_w, alignment);
    ForImages(context, s, [&](int64_t from, int64_t to) MR_INLINE_LAMBDA {
      const float* dy = grads + from;
      for (const auto& y : ys) {
        T* top = sums + to + y.lower * s.in_w * s.channels;
        T* bottom = sums + to + y.upper * s.in_w * s.channels;
        for (const auto& x : xs) {
          const int64_t left = x.lower * s.channels, right = x.upper * s.channels;
          // Corner by corner, some of which may be the same pixel.
          AddScaled(dy, s.channels, 1 - y.share, 1 - x.share, top + left);
          AddScaled(dy, s.channels, 1 - y.share, x.share, top + right);
          AddScaled(dy, s.channels, y.share, 1 - x.share, bottom + left);
          AddScaled(dy, s.channels, y.share, x.share, bottom + right);
          dy += s.channels;
        }
      }
    });
  }
};

struct Bicubic {
  template <typename T>
  static void Add(const KernelContext& context, const ResizeSizes& s, Alignment alignment, const float* grads,
                  T* sums) {
    const auto ys = image::CubicTaps(s.in_h, s.out_h, alignment);
    const auto xs = image::CubicTaps(s.in_w, s.out_w, alignment);
    ForImages(context, s, [&](int64_t from, int64_t to) MR_INLINE_LAMBDA {
      const float* dy = grads + from;
      for (const auto& y : ys) {
        T* rows[4];
        for (int i = 0; i < 4; ++i) rows[i] = sums + to + y.index[i] * s.in_w * s.channels;
        for (const auto& x : xs) {
          int64_t c = 0;
          for (; c + 16 <= s.channels; c += 16) AddTaps<16>(dy + c, y.weight, x, s.channels, rows, c);
          for (; c + 4 <= s.channels; c += 4) AddTaps<4>(dy + c, y.weight, x, s.channels, rows, c);
          for (; c < s.channels; ++c) AddTaps<1>(dy + c, y.weight, x, s.channels, rows, c);
          dy += s.channels;
        }
      }
    });
  }

 private:
  // Adds kLanes channels of one pixel to 16 pixels.
  template <int kLanes, typename T>
  static void AddTaps(const float* dy, const float (&down)[4], const image::CubicTap& x, int64_t channels,
                      T* const (&rows)[4], int64_t c) {
    const float across[4] = {x.weight[0], x.weight[1], x.weight[2], x.weight[3]};
    const int64_t at[4] = {x.index[0] * channels + c, x.index[1] * channels + c, x.index[2] * channels + c,
                           x.index[3] * channels + c};
    for (int i = 0; i < 4; ++i) {
      T part[kLanes];
      ForLanes<kLanes>([&](int l)
                           MR_INLINE_LAMBDA { part[l] = static_cast<T>(dy[l]) * static_cast<T>(down[i]); });
      for (int j = 0; j < 4; ++j) {
        T* const to = rows[i] + at[j];
        T sum[kLanes];
        ForLanes<kLanes>([&](int l)
                             MR_INLINE_LAMBDA { sum[l] = to[l] + part[l] * static_cast<T>(across[j]); });
        ForLanes<kLanes>([&](int l) MR_INLINE_LAMBDA { to[l] = sum[l]; });
      }
    }
  }
};

class NearestGradientKernel final : public OpKernel {
 public:
  explicit NearestGradientKernel(KernelConstruction& c) : OpKernel(c), alignment_(image::ReadAlignment(c)) {}
  Status Compute(KernelContext& context) override {
    const Tensor& grads = context.input(0);
    // Here `out` is the original image, which gets sums, and `in` the gradients.
    MR_ASSIGN_OR_RETURN(const ResizeSizes s, image::CheckResize(grads, context.input(1)));
    if (s.batch == 0) return context.AllocateOutput(0, s.OutputShape()).status();
    return VisitReal(grads.dtype(), NoSuchType(context, grads.dtype()), [&]<typename T>() -> Status {
      if constexpr (std::is_floating_point_v<T>) {
        return Accumulate(context, s.OutputShape(),
                          [&](auto* sums) { Add(context, s, grads.data<T>(), sums); });
      } else if constexpr (kIsSmallFloat<T>) {
        MR_ASSIGN_OR_RETURN(const Tensor floats, ToFloat(context, grads));
        return Accumulate(context, s.OutputShape(),
                          [&](auto* sums) { Add(context, s, floats.data<float>(), sums); });
      } else {
        MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, s.OutputShape()));
        std::fill_n(out->data<T>(), out->num_elements(), T(0));
        Add(context, s, grads.data<T>(), out->data<T>());
        return Status();
      }
    });
  }

 private:
  template <typename T, typename S>
  void Add(const KernelContext& context, const ResizeSizes& s, const T* grads, S* sums) const {
    const image::Scaler rows(s.out_h, s.in_h, alignment_), columns(s.out_w, s.in_w, alignment_);
    std::vector<int64_t> offsets(static_cast<size_t>(s.in_w));
    for (int64_t x = 0; x < s.in_w; ++x) offsets[static_cast<size_t>(x)] = columns.Nearest(x) * s.channels;
    const int64_t samples = s.in_h * s.in_w * s.channels;
    context.ParallelFor(s.batch, samples * kCostPerSampleNs, [&](int64_t begin, int64_t end) {
      const T* dy = grads + begin * samples;
      for (int64_t r = begin * s.in_h; r < end * s.in_h; ++r) {
        S* row = sums + (r / s.in_h * s.out_h + rows.Nearest(r % s.in_h)) * s.out_w * s.channels;
        for (const int64_t offset : offsets) {
          for (int64_t c = 0; c < s.channels; ++c, ++dy)
            row[offset + c] = Plus(row[offset + c], static_cast<S>(*dy));
        }
      }
    });
  }

  const Alignment alignment_;
};

}  // namespace

void RegisterResizeGradientKernels(KernelRegistry& registry) {
  registry.Register<FloatGradientKernel<Bicubic>>(KernelDef("ResizeBicubicGrad"));
  registry.Register<FloatGradientKernel<Bilinear>>(KernelDef("ResizeBilinearGrad"));
  registry.Register<NearestGradientKernel>(KernelDef("ResizeNearestNeighborGrad"));
}

}  // namespace millrace
