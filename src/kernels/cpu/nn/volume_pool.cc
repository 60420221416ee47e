// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Pooling of volumes and its gradients. A window counts what it covers inside the volume.
#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "kernels/cpu/lanes.h"
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

// Whether `a` replaces `b` as the largest; NaN is larger than any number. Without a branch, so that loops
// over it are vectorised.
template <typename T>
bool Exceeds(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return a > b;
  } else {
    const ComputeType<T> x = static_cast<ComputeType<T>>(a), y = static_cast<ComputeType<T>>(b);
    return (x > y) | ((x != x) & (y == y));
  }
}

// The larger of the two, NaN where there is one; also without a branch.
template <typename T>
T Larger(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return a > b ? a : b;
  } else {
    const ComputeType<T> x = static_cast<ComputeType<T>>(a), y = static_cast<ComputeType<T>>(b);
    return ((x > y) | (x != x)) ? a : b;
  }
}

// As VisitReal, among the types of floating-point numbers.
template <typename Fn>
Status VisitFloats(DataType t, const KernelContext& context, Fn&& fn) {
  return VisitReal(t, NoSuchType(context, t), [&]<typename T>() -> Status {
    if constexpr (!std::is_integral_v<T>) return fn.template operator()<T>();
    return NoSuchType(context, t);
  });
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

// Of the input or of the output.
struct Pixel {
  int64_t number, n, z, y, x;
};

// Calls fn(lanes, pixel, first channel) for all pixels and blocks of `lanes` channels, which are a constant
// so that arrays of so many become registers; more sizes of blocks for floats than for other types T, since
// each costs time to compile. Rows run in parallel, unless the step is cancelled: each pixel may take as long
// as its window is large.
template <typename T, typename Fn>
Status ForPixels(const KernelContext& context, const VolumeWindows& w, const Sides& sides, int64_t cost,
                 Fn fn) {
  const CancellationManager& step = context.cancellation();
  context.ParallelFor(w.batch * sides[0] * sides[1], cost, [&](int64_t begin, int64_t end) {
    RunLoop([&]() MR_INLINE_LAMBDA {
      for (int64_t r = begin; r < end; ++r) {
        Pixel p{r * sides[2], r / sides[1] / sides[0], r / sides[1] % sides[0], r % sides[1], 0};
        for (; p.x < sides[2] && !step.IsCancelled(); ++p.x, ++p.number) {
          int64_t c = 0;
          if constexpr (std::is_same_v<T, float>) {
            for (; c + 16 <= w.channels; c += 16) fn(std::integral_constant<int, 16>(), p, c);
          }
          for (; c + 8 <= w.channels; c += 8) fn(std::integral_constant<int, 8>(), p, c);
          if constexpr (std::is_same_v<T, float>) {
            for (; c + 4 <= w.channels; c += 4) fn(std::integral_constant<int, 4>(), p, c);
          }
          for (; c < w.channels; ++c) fn(std::integral_constant<int, 1>(), p, c);
        }
      }
    });
  });
  return step.IsCancelled() ? errors::Cancelled("The step was cancelled while volumes were pooled")
                            : Status();
}

// Calls fn(index of the input's pixel) for what the window of an output covers.
template <typename Fn>
void ForCovered(const VolumeWindows& w, const Pixel& p, Fn fn) {
  const int64_t ends[] = {w.End(0, p.z), w.End(1, p.y), w.End(2, p.x)}, first = w.First(2, p.x);
  for (int64_t d = w.First(0, p.z); d < ends[0]; ++d) {
    for (int64_t h = w.First(1, p.y); h < ends[1]; ++h) {
      const int64_t row = ((p.n * w.in[0] + d) * w.in[1] + h) * w.in[2];
      for (int64_t v = first; v < ends[2]; ++v) fn(row + v);
    }
  }
}

// Along each side: the outputs whose windows cover a place of the input, and how many places an output
// covers.
struct CoveringTables {
  struct Outputs {
    int64_t first, end;
  };
  std::array<std::vector<Outputs>, 3> outputs;
  std::array<std::vector<int64_t>, 3> covered;

  explicit CoveringTables(const VolumeWindows& w) {
    for (size_t side = 0; side < 3; ++side) {
      const int64_t window = w.window[side], stride = w.stride[side];
      for (int64_t place = 0; place < w.in[side]; ++place) {
        const int64_t padded = place + w.pad[side];
        outputs[side].push_back({padded < window ? 0 : (padded - window) / stride + 1,
                                 std::min(padded / stride + 1, w.out[side])});
      }
      const int i = static_cast<int>(side);
      for (int64_t o = 0; o < w.out[side]; ++o)
        covered[side].push_back(std::max<int64_t>(w.End(i, o) - w.First(i, o), 0));
    }
  }
};

// Calls fn(index of the output's pixel, depth, row, column) for the windows that cover a pixel of the input.
template <typename Fn>
void ForCovering(const VolumeWindows& w, const CoveringTables& tables, const Pixel& p, Fn fn) {
  const CoveringTables::Outputs zs = tables.outputs[0][static_cast<size_t>(p.z)],
                                ys = tables.outputs[1][static_cast<size_t>(p.y)],
                                xs = tables.outputs[2][static_cast<size_t>(p.x)];
  for (int64_t z = zs.first; z < zs.end; ++z) {
    for (int64_t y = ys.first; y < ys.end; ++y) {
      for (int64_t x = xs.first; x < xs.end; ++x)
        fn(((p.n * w.out[0] + z) * w.out[1] + y) * w.out[2] + x, z, y, x);
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
      return VisitFloats(in.dtype(), context, [&]<typename T>() {
        const T* const from = in.data<T>();
        T* const to = out->data<T>();
        return ForPixels<T>(
            context, w, w.out, RowCost(w), [=, &w](auto lanes, const Pixel& p, int64_t channel) {
              T largest[lanes()];
              ForLanes<lanes()>([&](int c) MR_INLINE_LAMBDA { largest[c] = LowestOf<T>(); });
              ForCovered(w, p, [&](int64_t covered) {
                const T* const x = from + covered * w.channels + channel;
                ForLanes<lanes()>([&](int c) MR_INLINE_LAMBDA { largest[c] = Larger(x[c], largest[c]); });
              });
              ForLanes<lanes()>(
                  [&](int c) MR_INLINE_LAMBDA { to[p.number * w.channels + channel + c] = largest[c]; });
            });
      });
    });
  }
};

// Pixels of the input that hold the first maximum of each window, per channel; -1 where there is none.
template <typename Index>
StatusOr<Tensor> FindMaxima(KernelContext& context, const VolumeWindows& w, const Tensor& in) {
  MR_ASSIGN_OR_RETURN(
      Tensor maxima,
      context.AllocateTemp(sizeof(Index) == 4 ? DataType::kInt32 : DataType::kInt64, w.OutShape()));
  MR_RETURN_IF_ERROR(VisitReal(in.dtype(), NoSuchType(context, in.dtype()), [&]<typename T>() {
    const T* const from = in.data<T>();
    Index* const to = maxima.data<Index>();
    return ForPixels<T>(
        context, w, w.out, 2 * RowCost(w), [=, &w](auto lanes, const Pixel& p, int64_t channel) {
          T largest[lanes()];
          Index best[lanes()];
          ForLanes<lanes()>([&](int c) MR_INLINE_LAMBDA {
            largest[c] = LowestOf<T>();
            best[c] = Index{-1};
          });
          ForCovered(w, p, [&](int64_t covered) {
            const T* const x = from + covered * w.channels + channel;
            ForLanes<lanes()>([&](int c) MR_INLINE_LAMBDA {
              const bool take = (best[c] < 0) | Exceeds(x[c], largest[c]);
              largest[c] = take ? x[c] : largest[c];
              best[c] = take ? static_cast<Index>(covered) : best[c];
            });
          });
          ForLanes<lanes()>([&](int c)
                                MR_INLINE_LAMBDA { to[p.number * w.channels + channel + c] = best[c]; });
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
      return in.num_elements() <= std::numeric_limits<int32_t>::max()
                 ? Run<int32_t>(context, w, in, grad, out)
                 : Run<int64_t>(context, w, in, grad, out);
    });
  }

 private:
  // Places that are as wide as floats are chosen by the same vectors.
  template <typename Index>
  static Status Run(KernelContext& context, const VolumeWindows& w, const Tensor& in, const Tensor& grad,
                    Tensor* out) {
    MR_ASSIGN_OR_RETURN(const Tensor maxima, FindMaxima<Index>(context, w, in));
    if constexpr (kSecond) {
      return VisitReal(grad.dtype(), NoSuchType(context, grad.dtype()), [&]<typename T>() {
        Take<T>(context, w, maxima.data<Index>(), grad, out);
        return Status();
      });
    } else {
      return VisitFloats(grad.dtype(), context, [&]<typename T>() {
        return Spread<T>(context, w, maxima.data<Index>(), grad, out);
      });
    }
  }

  template <typename T, typename Index>
  static void Take(KernelContext& context, const VolumeWindows& w, const Index* best, const Tensor& grad,
                   Tensor* out) {
    const int64_t channels = w.channels;
    context.ParallelFor(out->num_elements() / channels, 4 * channels, [&](int64_t begin, int64_t end) {
      const T* const from = grad.data<T>();
      T* const to = out->data<T>();
      for (int64_t i = begin * channels; i < end * channels; i += channels) {
        for (int64_t c = 0; c < channels; ++c)
          to[i + c] = best[i + c] < 0 ? T(0) : from[int64_t{best[i + c]} * channels + c];
      }
    });
  }

  template <typename T, typename Index>
  static Status Spread(KernelContext& context, const VolumeWindows& w, const Index* best, const Tensor& grad,
                       Tensor* out) {
    const T* const from = grad.data<T>();
    T* const to = out->data<T>();
    const CoveringTables tables(w);
    return ForPixels<T>(
        context, w, w.in, RowCost(w), [=, &w, &tables](auto lanes, const Pixel& p, int64_t channel) {
          T sums[lanes()];
          ForLanes<lanes()>([&](int c) MR_INLINE_LAMBDA { sums[c] = T(0); });
          ForCovering(w, tables, p, [&](int64_t window, int64_t, int64_t, int64_t) {
            const int64_t at = window * w.channels + channel;
            ForLanes<lanes()>([&](int c) MR_INLINE_LAMBDA {
              const T sum = Plus(sums[c], from[at + c]);
              sums[c] = best[at + c] == static_cast<Index>(p.number) ? sum : sums[c];
            });
          });
          ForLanes<lanes()>([&](int c)
                                MR_INLINE_LAMBDA { to[p.number * w.channels + channel + c] = sums[c]; });
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
      return VisitFloats(in.dtype(), context, [&]<typename T>() {
        using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;
        const T* const from = in.data<T>();
        T* const to = out->data<T>();
        return ForPixels<T>(
            context, w, w.out, RowCost(w), [=, &w](auto lanes, const Pixel& p, int64_t channel) {
              Sum sums[lanes()];
              ForLanes<lanes()>([&](int c) MR_INLINE_LAMBDA { sums[c] = Sum(0); });
              ForCovered(w, p, [&](int64_t covered) {
                const T* const x = from + covered * w.channels + channel;
                ForLanes<lanes()>([&](int c) MR_INLINE_LAMBDA { sums[c] += static_cast<Sum>(x[c]); });
              });
              const auto count = static_cast<Sum>(std::max<int64_t>(Covered(w, p.z, p.y, p.x), 1));
              T* const y = to + p.number * w.channels + channel;
              ForLanes<lanes()>([&](int c) MR_INLINE_LAMBDA { y[c] = static_cast<T>(sums[c] / count); });
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
      return VisitFloats(grad.dtype(), context, [&]<typename T>() {
        using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;
        const T* const from = grad.data<T>();
        T* const to = out->data<T>();
        const CoveringTables tables(w);
        return ForPixels<T>(
            context, w, w.in, RowCost(w), [=, &w, &tables](auto lanes, const Pixel& p, int64_t channel) {
              Sum sums[lanes()];
              ForLanes<lanes()>([&](int c) MR_INLINE_LAMBDA { sums[c] = Sum(0); });
              ForCovering(w, tables, p, [&](int64_t window, int64_t d, int64_t h, int64_t v) {
                const auto count = static_cast<Sum>(tables.covered[0][static_cast<size_t>(d)] *
                                                    tables.covered[1][static_cast<size_t>(h)] *
                                                    tables.covered[2][static_cast<size_t>(v)]);
                const T* const x = from + window * w.channels + channel;
                ForLanes<lanes()>([&](int c) MR_INLINE_LAMBDA { sums[c] += static_cast<Sum>(x[c]) / count; });
              });
              T* const x = to + p.number * w.channels + channel;
              ForLanes<lanes()>([&](int c) MR_INLINE_LAMBDA { x[c] = static_cast<T>(sums[c]); });
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
