// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Pooling of volumes and its gradients. A window counts what it covers inside the volume.
#include <algorithm>
#include <limits>

#include "kernels/cpu/loop.h"
#include "kernels/cpu/nn/volume.h"

namespace millrace {
namespace {

template <typename T>
T LowestOf() {
  if constexpr (std::is_same_v<T, half>)
    return static_cast<T>(-65504.0f);
  else if constexpr (std::is_same_v<T, bfloat16>)
    return static_cast<T>(-0x1.FEp127f);
  else
    return std::numeric_limits<T>::lowest();
}

// Whether `a` replaces `b` as the largest; NaN is larger than any number.
template <typename T>
bool Exceeds(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return a > b;
  } else {
    const ComputeType<T> x = static_cast<ComputeType<T>>(a), y = static_cast<ComputeType<T>>(b);
    return x > y || (x != x && y == y);
  }
}

// The larger of the two, NaN where there is one. Without a branch, so that loops over it are vectorised.
template <typename T>
T Larger(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return a > b ? a : b;
  } else {
    const ComputeType<T> x = static_cast<ComputeType<T>>(a), y = static_cast<ComputeType<T>>(b);
    return (x > y) | (x != x) ? a : b;
  }
}

class VolumePoolKernel : public OpKernel {
 public:
  explicit VolumePoolKernel(KernelConstruction& c)
      : OpKernel(c),
        channels_first_(ReadChannelsFirst(c)),
        window_(ReadSides(c, "ksize", channels_first_)),
        strides_(ReadSides(c, "strides", channels_first_)),
        padding_(ReadVolumePadding(c)) {}

 protected:
  StatusOr<VolumeWindows> Windows(const TensorShape& volume) const {
    if (volume.rank() != 5) return errors::InvalidArgument("tensor_in must be 5-dimensional");
    return MakeVolumeWindows(volume, channels_first_, window_, strides_, {1, 1, 1}, padding_,
                             volume.dim(channels_first_ ? 1 : 4));
  }
  Status CheckShape(const char* what, const TensorShape& got, const TensorShape& ndhwc) const {
    const TensorShape want = InLayout(ndhwc, channels_first_);
    if (got == want) return Status();
    return errors::InvalidArgument("Expected ", what, " shape to be ", want, ", but got ", got);
  }

  // Runs fn on the output as NDHWC.
  template <typename Fn>
  Status Produce(KernelContext& context, const TensorShape& shape, Fn fn) const {
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, InLayout(shape, channels_first_)));
    if (out->num_elements() == 0) return Status();
    if (!channels_first_) return fn(out);
    MR_ASSIGN_OR_RETURN(Tensor last, context.AllocateTemp(out->dtype(), shape));
    MR_RETURN_IF_ERROR(fn(&last));
    FromChannelsLast(context, last, out);
    return Status();
  }

  const bool channels_first_;

 private:
  const Sides window_, strides_;
  const Padding padding_;
};

// The cost of a row of pixels of the output.
int64_t RowCost(const VolumeWindows& w) {
  double places = static_cast<double>(w.out[2]) * static_cast<double>(w.channels);
  for (size_t i = 0; i < 3; ++i) places *= static_cast<double>(std::min(w.window[i], w.in[i]));
  return static_cast<int64_t>(std::min(places, 1e9)) + 1;
}

// Calls fn(index of the output's pixel, {volume, depth, row, column}) for all pixels, rows in parallel,
// unless the step is cancelled: each pixel may take as long as its window is large.
template <typename Fn>
Status ForPixels(const KernelContext& context, const VolumeWindows& w, const Sides& sides, int64_t cost,
                 Fn fn) {
  const CancellationManager& step = context.cancellation();
  context.ParallelFor(w.batch * sides[0] * sides[1], cost, [&](int64_t begin, int64_t end) {
    const auto rows = [&]() MR_INLINE_LAMBDA {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t y = r % sides[1], z = r / sides[1] % sides[0], n = r / sides[1] / sides[0];
        for (int64_t x = 0; x < sides[2] && !step.IsCancelled(); ++x) fn(r * sides[2] + x, n, z, y, x);
      }
    };
    // Fewer channels than the widest vector has lanes would go one by one.
    if (w.channels < 16) return rows();
    RunLoop(rows);
  });
  return step.IsCancelled() ? errors::Cancelled("The step was cancelled while volumes were pooled")
                            : Status();
}

// Calls fn(index of the input's pixel) for what the window of an output covers.
template <typename Fn>
void ForCovered(const VolumeWindows& w, int64_t n, int64_t z, int64_t y, int64_t x, Fn fn) {
  for (int64_t d = w.First(0, z); d < w.End(0, z); ++d) {
    for (int64_t h = w.First(1, y); h < w.End(1, y); ++h) {
      for (int64_t v = w.First(2, x); v < w.End(2, x); ++v)
        fn(((n * w.in[0] + d) * w.in[1] + h) * w.in[2] + v);
    }
  }
}

// Calls fn(index of the output's pixel, depth, row, column) for the windows that cover a pixel of the input.
template <typename Fn>
void ForCovering(const VolumeWindows& w, int64_t n, const Sides& at, Fn fn) {
  Sides first, end;
  for (size_t i = 0; i < 3; ++i) {
    const int64_t padded = at[i] + w.pad[i];
    first[i] = padded < w.window[i] ? 0 : (padded - w.window[i]) / w.stride[i] + 1;
    end[i] = std::min(padded / w.stride[i] + 1, w.out[i]);
  }
  for (int64_t z = first[0]; z < end[0]; ++z) {
    for (int64_t y = first[1]; y < end[1]; ++y) {
      for (int64_t x = first[2]; x < end[2]; ++x)
        fn(((n * w.out[0] + z) * w.out[1] + y) * w.out[2] + x, z, y, x);
    }
  }
}

class MaxPool3DKernel final : public VolumePoolKernel {
 public:
  using VolumePoolKernel::VolumePoolKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const VolumeWindows w, Windows(context.input(0).shape()));
    MR_ASSIGN_OR_RETURN(const Tensor in, ToChannelsLast(context, context.input(0), channels_first_));
    return Produce(context, w.OutShape(), [&](Tensor* out) {
      return VisitReal(in.dtype(), NoSuchType(context, in.dtype()), [&]<typename T>() {
        return ForPixels(context, w, w.out, RowCost(w),
                         [&](int64_t pixel, int64_t n, int64_t z, int64_t y, int64_t x) {
                           T* to = out->data<T>() + pixel * w.channels;
                           std::fill_n(to, w.channels, LowestOf<T>());
                           ForCovered(w, n, z, y, x, [&](int64_t covered) {
                             const T* from = in.data<T>() + covered * w.channels;
                             for (int64_t c = 0; c < w.channels; ++c) to[c] = Larger(from[c], to[c]);
                           });
                         });
      });
    });
  }
};

// Pixels of the input that hold the first maximum of each window, per channel; -1 where there is none.
StatusOr<Tensor> FindMaxima(KernelContext& context, const VolumeWindows& w, const Tensor& in) {
  MR_ASSIGN_OR_RETURN(Tensor maxima, context.AllocateTemp(DataType::kInt64, w.OutShape()));
  MR_RETURN_IF_ERROR(VisitReal(in.dtype(), NoSuchType(context, in.dtype()), [&]<typename T>() {
    return ForPixels(context, w, w.out, 2 * RowCost(w),
                     [&](int64_t pixel, int64_t n, int64_t z, int64_t y, int64_t x) {
                       int64_t* best = maxima.data<int64_t>() + pixel * w.channels;
                       std::fill_n(best, w.channels, int64_t{-1});
                       ForCovered(w, n, z, y, x, [&](int64_t covered) {
                         const T* from = in.data<T>();
                         for (int64_t c = 0; c < w.channels; ++c) {
                           const T value = from[covered * w.channels + c];
                           if (best[c] < 0 || Exceeds(value, from[best[c] * w.channels + c]))
                             best[c] = covered;
                         }
                       });
                     });
  }));
  return maxima;
}

// Inputs: the forward input, its output, and what is pooled or spread.
template <bool kSecond>
class MaxPool3DGradKernel final : public VolumePoolKernel {
 public:
  using VolumePoolKernel::VolumePoolKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const VolumeWindows w, Windows(context.input(0).shape()));
    MR_RETURN_IF_ERROR(CheckShape("orig_output", context.input(1).shape(), w.OutShape()));
    MR_RETURN_IF_ERROR(CheckShape("grad", context.input(2).shape(), kSecond ? w.InShape() : w.OutShape()));
    MR_ASSIGN_OR_RETURN(const Tensor in, ToChannelsLast(context, context.input(0), channels_first_));
    MR_ASSIGN_OR_RETURN(const Tensor grad, ToChannelsLast(context, context.input(2), channels_first_));
    return Produce(context, kSecond ? w.OutShape() : w.InShape(), [&](Tensor* out) -> Status {
      MR_ASSIGN_OR_RETURN(const Tensor maxima, FindMaxima(context, w, in));
      return VisitReal(grad.dtype(), NoSuchType(context, grad.dtype()), [&]<typename T>() {
        if constexpr (kSecond) {
          Take<T>(context, w, maxima, grad, out);
          return Status();
        } else {
          return Spread<T>(context, w, maxima, grad, out);
        }
      });
    });
  }

 private:
  template <typename T>
  static void Take(KernelContext& context, const VolumeWindows& w, const Tensor& maxima, const Tensor& grad,
                   Tensor* out) {
    const int64_t* best = maxima.data<int64_t>();
    context.ParallelFor(out->num_elements(), 4, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        out->data<T>()[i] = best[i] < 0 ? T(0) : grad.data<T>()[best[i] * w.channels + i % w.channels];
      }
    });
  }

  template <typename T>
  static Status Spread(KernelContext& context, const VolumeWindows& w, const Tensor& maxima,
                       const Tensor& grad, Tensor* out) {
    return ForPixels(context, w, w.in, RowCost(w),
                     [&](int64_t pixel, int64_t n, int64_t z, int64_t y, int64_t x) {
                       T* to = out->data<T>() + pixel * w.channels;
                       std::fill_n(to, w.channels, T(0));
                       ForCovering(w, n, {z, y, x}, [&](int64_t window, int64_t, int64_t, int64_t) {
                         const int64_t* best = maxima.data<int64_t>() + window * w.channels;
                         const T* from = grad.data<T>() + window * w.channels;
                         for (int64_t c = 0; c < w.channels; ++c) {
                           if (best[c] == pixel) to[c] = Plus(to[c], from[c]);
                         }
                       });
                     });
  }
};

int64_t Covered(const VolumeWindows& w, int64_t z, int64_t y, int64_t x) {
  int64_t count = 1;
  const Sides at{z, y, x};
  for (int i = 0; i < 3; ++i) {
    const int64_t o = at[static_cast<size_t>(i)];
    count *= std::max<int64_t>(w.End(i, o) - w.First(i, o), 0);
  }
  return count;
}

class AvgPool3DKernel final : public VolumePoolKernel {
 public:
  using VolumePoolKernel::VolumePoolKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const VolumeWindows w, Windows(context.input(0).shape()));
    MR_ASSIGN_OR_RETURN(const Tensor in, ToChannelsLast(context, context.input(0), channels_first_));
    return Produce(context, w.OutShape(), [&](Tensor* out) {
      return VisitReal(in.dtype(), NoSuchType(context, in.dtype()), [&]<typename T>() {
        using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;
        return ForPixels(context, w, w.out, RowCost(w),
                         [&](int64_t pixel, int64_t n, int64_t z, int64_t y, int64_t x) {
                           static thread_local std::vector<Sum> sums;
                           sums.assign(static_cast<size_t>(w.channels), Sum(0));
                           ForCovered(w, n, z, y, x, [&](int64_t covered) {
                             const T* from = in.data<T>() + covered * w.channels;
                             for (int64_t c = 0; c < w.channels; ++c)
                               sums[static_cast<size_t>(c)] += static_cast<Sum>(from[c]);
                           });
                           const auto count = static_cast<Sum>(std::max<int64_t>(Covered(w, z, y, x), 1));
                           T* to = out->data<T>() + pixel * w.channels;
                           for (int64_t c = 0; c < w.channels; ++c)
                             to[c] = static_cast<T>(sums[static_cast<size_t>(c)] / count);
                         });
      });
    });
  }
};

class AvgPool3DGradKernel final : public VolumePoolKernel {
 public:
  using VolumePoolKernel::VolumePoolKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& sizes = context.input(0);
    if (sizes.rank() != 1 || sizes.num_elements() != 5) {
      return errors::InvalidArgument("orig_input_shape must be 1-dimensional and 5 elements, got shape ",
                                     sizes.shape());
    }
    MR_ASSIGN_OR_RETURN(const TensorShape volume, ShapeFromTensor(sizes, "orig_input_shape"));
    MR_ASSIGN_OR_RETURN(const VolumeWindows w, Windows(volume));
    MR_RETURN_IF_ERROR(CheckShape("grad", context.input(1).shape(), w.OutShape()));
    MR_ASSIGN_OR_RETURN(const Tensor grad, ToChannelsLast(context, context.input(1), channels_first_));
    return Produce(context, w.InShape(), [&](Tensor* out) {
      return VisitReal(grad.dtype(), NoSuchType(context, grad.dtype()), [&]<typename T>() {
        using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;
        return ForPixels(context, w, w.in, RowCost(w),
                         [&](int64_t pixel, int64_t n, int64_t z, int64_t y, int64_t x) {
                           static thread_local std::vector<Sum> sums;
                           sums.assign(static_cast<size_t>(w.channels), Sum(0));
                           ForCovering(w, n, {z, y, x}, [&](int64_t window, int64_t d, int64_t h, int64_t v) {
                             const auto count = static_cast<Sum>(Covered(w, d, h, v));
                             const T* from = grad.data<T>() + window * w.channels;
                             for (int64_t c = 0; c < w.channels; ++c)
                               sums[static_cast<size_t>(c)] += static_cast<Sum>(from[c]) / count;
                           });
                           T* to = out->data<T>() + pixel * w.channels;
                           for (int64_t c = 0; c < w.channels; ++c)
                             to[c] = static_cast<T>(sums[static_cast<size_t>(c)]);
                         });
      });
    });
  }
};

}  // namespace

void RegisterVolumePoolKernels(KernelRegistry& registry) {
  const TypeList max = {DataType::kHalf, DataType::kBfloat16, DataType::kFloat};
  registry.Register<AvgPool3DKernel>(KernelDef("AvgPool3D").Types("T", FloatTypes()));
  registry.Register<AvgPool3DGradKernel>(KernelDef("AvgPool3DGrad").Types("T", FloatTypes()));
  registry.Register<MaxPool3DKernel>(KernelDef("MaxPool3D").Types("T", max));
  registry.Register<MaxPool3DGradKernel<false>>(
      KernelDef("MaxPool3DGrad").Types("T", max).Types("TInput", max));
  registry.Register<MaxPool3DGradKernel<true>>(KernelDef("MaxPool3DGradGrad").Types("T", RealTypes()));
}

}  // namespace millrace
