// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Convolution of volumes as convolutions of images: the slices in the depth of a window become channels of
// one image, and each slice of the output is the convolution of such an image.
#include <algorithm>
#include <cstring>
#include <functional>

#include "kernels/cpu/contract/conv.h"
#include "kernels/cpu/nn/util.h"
#include "kernels/cpu/nn/volume.h"

namespace millrace {
namespace {

// The parameters of one convolution other than its windows.
struct Plan {
  VolumeWindows w;
  int64_t out_channels = 0;
  int64_t images = 0;  // slices of the output, in all volumes
  int64_t chunk = 0;   // images that are gathered together
  // The taps in depth that read some slice of the input, at most two for each of its slices.
  int64_t first_tap = 0, taps = 0;

  int64_t ImageChannels() const { return taps * w.channels; }
  TensorShape FilterShape(int64_t depth) const {
    return {depth, w.window[1], w.window[2], w.channels, out_channels};
  }
  void FindTaps() {
    const int64_t reach = w.pad[0] - (w.out[0] - 1) * w.stride[0];
    first_tap = reach <= 0 ? 0 : std::min((reach + w.dilation[0] - 1) / w.dilation[0], w.window[0]);
    const int64_t end = std::min((w.in[0] - 1 + w.pad[0]) / w.dilation[0] + 1, w.window[0]);
    taps = std::max<int64_t>(end - first_tap, 0);
  }
  int64_t OutputSize() const { return w.out[1] * w.out[2] * out_channels; }
  // The slice of the input for tap `tap` of image `i`; negative or too large in the padding.
  int64_t SliceOf(int64_t i, int64_t tap) const {
    return i % w.out[0] * w.stride[0] - w.pad[0] + (first_tap + tap) * w.dilation[0];
  }
  // Whether the images are the slices of the input.
  bool IsFlat() const { return w.window[0] == 1 && w.stride[0] == 1 && w.out[0] == w.in[0]; }

  cpu::ConvParams Params(int64_t batch) const {
    cpu::ConvParams p;
    p.batch = batch;
    p.in_h = w.in[1];
    p.in_w = w.in[2];
    p.in_c = ImageChannels();
    p.filter_h = w.window[1];
    p.filter_w = w.window[2];
    p.out_h = w.out[1];
    p.out_w = w.out[2];
    p.out_c = out_channels;
    p.stride_h = w.stride[1];
    p.stride_w = w.stride[2];
    p.dilation_h = w.dilation[1];
    p.dilation_w = w.dilation[2];
    p.pad_top = w.pad[1];
    p.pad_left = w.pad[2];
    return p;
  }
};

constexpr int64_t kChunkElements = 1 << 22;

// Copies slices between the volumes and images [first, first + count); with `kAdd` adds images to volumes.
template <typename T, bool kAdd>
void MoveSlices(const KernelContext& context, const Plan& p, int64_t first, int64_t count,
                std::conditional_t<kAdd, T, const T>* volumes, std::conditional_t<kAdd, const T, T>* images) {
  const int64_t channels = p.w.channels, taps = p.taps, row = p.w.in[2];
  context.ParallelFor(p.w.in[1], count * row * taps * (channels + 2), [&](int64_t begin, int64_t end) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t volume = (first + i) / p.w.out[0];
      for (int64_t tap = 0; tap < taps; ++tap) {
        const int64_t slice = p.SliceOf(first + i, tap);
        const bool inside = slice >= 0 && slice < p.w.in[0];
        if (kAdd && !inside) continue;
        for (int64_t y = begin; y < end; ++y) {
          auto* image = images + ((i * p.w.in[1] + y) * row * taps + tap) * channels;
          auto* from =
              inside ? volumes + (((volume * p.w.in[0] + slice) * p.w.in[1] + y) * row) * channels : nullptr;
          for (int64_t x = 0; x < row; ++x, image += taps * channels) {
            if constexpr (kAdd) {
              for (int64_t c = 0; c < channels; ++c) from[x * channels + c] += image[c];
            } else if (inside) {
              std::copy_n(from + x * channels, channels, image);
            } else {
              std::fill_n(image, channels, T(0));
            }
          }
        }
      }
    }
  });
}

// Permutes the taps of [depth, height, width, in, out] to [height, width, depth, in, out], or back.
template <typename T>
void MoveFilter(const Plan& p, bool back, const T* from, T* to) {
  const int64_t taps = p.taps, area = p.w.window[1] * p.w.window[2], block = p.w.channels * p.out_channels;
  for (int64_t d = 0; d < taps; ++d) {
    for (int64_t i = 0; i < area; ++i) {
      const int64_t as_volume = ((p.first_tap + d) * area + i) * block, as_image = (i * taps + d) * block;
      std::copy_n(from + (back ? as_image : as_volume), block, to + (back ? as_volume : as_image));
    }
  }
}

// Calls fn(convolution, first image, count) for all chunks.
template <typename Fn>
Status ForChunks(const Plan& p, Fn fn) {
  for (int64_t first = 0; first < p.images; first += p.chunk) {
    const int64_t count = std::min(p.chunk, p.images - first);
    fn(cpu::ConvPlan(p.Params(count)), first, count);
  }
  return Status();
}

template <typename T>
StatusOr<Tensor> ImagesBuffer(KernelContext& context, const Plan& p) {
  return context.AllocateTemp(kDataTypeOf<T>, {p.chunk, p.w.in[1], p.w.in[2], p.taps, p.w.channels});
}

template <typename T>
Status Forward(KernelContext& context, const Plan& p, const T* in, const T* filter, T* out) {
  ContextParallel parallel(context);
  if (p.IsFlat()) {
    cpu::ConvPlan(p.Params(p.images)).Forward(in, filter, out, parallel);
    return Status();
  }
  MR_ASSIGN_OR_RETURN(Tensor images, ImagesBuffer<T>(context, p));
  MR_ASSIGN_OR_RETURN(Tensor moved, context.AllocateTemp(kDataTypeOf<T>, p.FilterShape(p.taps)));
  MoveFilter(p, /*back=*/false, filter, moved.data<T>());
  return ForChunks(p, [&](const cpu::ConvPlan& conv, int64_t first, int64_t count) {
    MoveSlices<T, false>(context, p, first, count, in, images.data<T>());
    conv.Forward(images.data<T>(), moved.data<T>(), out + first * p.OutputSize(), parallel);
  });
}

template <typename T>
Status BackpropInput(KernelContext& context, const Plan& p, const T* filter, const T* dy, T* dx) {
  ContextParallel parallel(context);
  if (p.IsFlat()) {
    cpu::ConvPlan(p.Params(p.images)).BackpropInput(filter, dy, dx, parallel);
    return Status();
  }
  MR_ASSIGN_OR_RETURN(Tensor images, ImagesBuffer<T>(context, p));
  MR_ASSIGN_OR_RETURN(Tensor moved, context.AllocateTemp(kDataTypeOf<T>, p.FilterShape(p.taps)));
  MoveFilter(p, /*back=*/false, filter, moved.data<T>());
  std::fill_n(dx, p.w.InShape().num_elements(), T(0));
  return ForChunks(p, [&](const cpu::ConvPlan& conv, int64_t first, int64_t count) {
    conv.BackpropInput(moved.data<T>(), dy + first * p.OutputSize(), images.data<T>(), parallel);
    MoveSlices<T, true>(context, p, first, count, dx, images.data<T>());
  });
}

template <typename T>
Status BackpropFilter(KernelContext& context, const Plan& p, const T* in, const T* dy, T* dw) {
  ContextParallel parallel(context);
  if (p.IsFlat()) {
    cpu::ConvPlan(p.Params(p.images)).BackpropFilter(in, dy, dw, parallel);
    return Status();
  }
  MR_ASSIGN_OR_RETURN(Tensor images, ImagesBuffer<T>(context, p));
  const TensorShape shape = p.FilterShape(p.taps);
  MR_ASSIGN_OR_RETURN(Tensor part, context.AllocateTemp(kDataTypeOf<T>, shape));
  MR_ASSIGN_OR_RETURN(Tensor sum, context.AllocateTemp(kDataTypeOf<T>, shape));
  const int64_t n = shape.num_elements();
  std::fill_n(sum.data<T>(), n, T(0));
  MR_RETURN_IF_ERROR(ForChunks(p, [&](const cpu::ConvPlan& conv, int64_t first, int64_t count) {
    MoveSlices<T, false>(context, p, first, count, in, images.data<T>());
    conv.BackpropFilter(images.data<T>(), dy + first * p.OutputSize(), part.data<T>(), parallel);
    for (int64_t i = 0; i < n; ++i) sum.data<T>()[i] += part.data<T>()[i];
  }));
  std::fill_n(dw, p.FilterShape(p.w.window[0]).num_elements(), T(0));
  MoveFilter(p, /*back=*/true, sum.data<T>(), dw);
  return Status();
}

class Conv3DKernel : public OpKernel {
 public:
  explicit Conv3DKernel(KernelConstruction& c)
      : OpKernel(c),
        channels_first_(ReadChannelsFirst(c)),
        strides_(ReadSides(c, "strides", channels_first_)),
        dilations_(ReadSides(c, "dilations", channels_first_)),
        padding_(ReadVolumePadding(c)) {}

 protected:
  // `volume` is the shape of the forward input.
  StatusOr<Plan> MakePlan(const TensorShape& volume, const TensorShape& filter) const {
    if (volume.rank() != 5) return errors::InvalidArgument("input must be 5-dimensional, got shape ", volume);
    if (filter.rank() != 5)
      return errors::InvalidArgument("filter must be 5-dimensional, got shape ", filter);
    if (filter.dim(3) != volume.dim(channels_first_ ? 1 : 4)) {
      return errors::InvalidArgument("input and filter must have the same depth: ",
                                     volume.dim(channels_first_ ? 1 : 4), " vs ", filter.dim(3));
    }
    const Sides window{filter.dim(0), filter.dim(1), filter.dim(2)};
    if (*std::min_element(window.begin(), window.end()) <= 0)
      return errors::InvalidArgument("filter must not be empty: ", filter);
    Plan p;
    p.out_channels = filter.dim(4);
    MR_ASSIGN_OR_RETURN(p.w, MakeVolumeWindows(volume, channels_first_, window, strides_, dilations_,
                                               padding_, p.out_channels));
    p.images = p.w.batch * p.w.out[0];
    p.FindTaps();
    TensorShape image;
    for (const int64_t d : {p.w.in[1], p.w.in[2], p.taps, p.w.channels})
      MR_RETURN_IF_ERROR(image.TryAddDim(d));
    p.chunk = std::clamp<int64_t>(kChunkElements / std::max<int64_t>(image.num_elements(), 1), 1,
                                  std::max<int64_t>(p.images, 1));
    return p;
  }

  TensorShape OutShape(const Plan& p) const {
    return InLayout({p.w.batch, p.w.out[0], p.w.out[1], p.w.out[2], p.out_channels}, channels_first_);
  }
  Status CheckGradient(const Plan& p, const Tensor& gradient) const {
    if (gradient.shape() == OutShape(p)) return Status();
    return errors::InvalidArgument(op_name(), ": Size of out_backprop doesn't match computed: actual = ",
                                   gradient.shape(), ", computed = ", OutShape(p));
  }

  // Runs compute(a, b, out) on floats or doubles; half types are converted to float.
  template <typename Fn>
  static Status RunAsReal(KernelContext& context, const Tensor& a, const Tensor& b, Tensor* out, Fn compute) {
    if (a.dtype() == DataType::kFloat) return compute(a.data<float>(), b.data<float>(), out->data<float>());
    if (a.dtype() == DataType::kDouble)
      return compute(a.data<double>(), b.data<double>(), out->data<double>());
    MR_ASSIGN_OR_RETURN(const Tensor fa, ToFloat(context, a));
    MR_ASSIGN_OR_RETURN(const Tensor fb, ToFloat(context, b));
    MR_ASSIGN_OR_RETURN(Tensor result, context.AllocateTemp(DataType::kFloat, out->shape()));
    MR_RETURN_IF_ERROR(compute(fa.data<float>(), fb.data<float>(), result.data<float>()));
    FromFloat(context, result, out);
    return Status();
  }

  // Runs it on a and b as NDHWC, and writes the result, of shape `shape` in NDHWC, in the layout if `moves`.
  // An empty sum is zero.
  template <typename Fn>
  Status Produce(KernelContext& context, const Tensor& a, const Tensor& b, const TensorShape& shape,
                 bool moves, Fn compute) const {
    const bool first = moves && channels_first_;
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, InLayout(shape, first)));
    if (out->num_elements() == 0) return Status();
    if (a.num_elements() == 0 || b.num_elements() == 0) {
      std::memset(out->raw_data(), 0, static_cast<size_t>(shape.num_elements()) * ElementSize(out->dtype()));
      return Status();
    }
    if (!first) return RunAsReal(context, a, b, out, compute);
    MR_ASSIGN_OR_RETURN(Tensor last, context.AllocateTemp(out->dtype(), shape));
    MR_RETURN_IF_ERROR(RunAsReal(context, a, b, &last, compute));
    FromChannelsLast(context, last, out);
    return Status();
  }

  static StatusOr<TensorShape> SizesArgument(const Tensor& sizes, const char* name) {
    if (sizes.rank() != 1 || sizes.num_elements() != 5) {
      return errors::InvalidArgument(name, " must be a vector of 5 values, got shape ", sizes.shape());
    }
    return ShapeFromTensor(sizes, name);
  }

  const bool channels_first_;

 private:
  const Sides strides_, dilations_;
  const Padding padding_;
};

class Conv3DForwardKernel final : public Conv3DKernel {
 public:
  using Conv3DKernel::Conv3DKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& filter = context.input(1);
    MR_ASSIGN_OR_RETURN(const Plan p, MakePlan(context.input(0).shape(), filter.shape()));
    MR_ASSIGN_OR_RETURN(const Tensor x, ToChannelsLast(context, context.input(0), channels_first_));
    const TensorShape out{p.w.batch, p.w.out[0], p.w.out[1], p.w.out[2], p.out_channels};
    return Produce(context, x, filter, out, true,
                   [&](const auto* in, const auto* w, auto* y) { return Forward(context, p, in, w, y); });
  }
};

// Input 0 is the forward input or, in the second version, its shape.
class Conv3DBackpropInputKernel final : public Conv3DKernel {
 public:
  explicit Conv3DBackpropInputKernel(KernelConstruction& c)
      : Conv3DKernel(c), takes_sizes_(op_name() == "Conv3DBackpropInputV2") {}
  Status Compute(KernelContext& context) override {
    TensorShape volume = context.input(0).shape();
    if (takes_sizes_) {
      MR_ASSIGN_OR_RETURN(volume, SizesArgument(context.input(0), "input_sizes"));
    }
    const Tensor& filter = context.input(1);
    MR_ASSIGN_OR_RETURN(const Plan p, MakePlan(volume, filter.shape()));
    MR_RETURN_IF_ERROR(CheckGradient(p, context.input(2)));
    MR_ASSIGN_OR_RETURN(const Tensor dy, ToChannelsLast(context, context.input(2), channels_first_));
    return Produce(context, filter, dy, p.w.InShape(), true, [&](const auto* w, const auto* from, auto* dx) {
      return BackpropInput(context, p, w, from, dx);
    });
  }

 private:
  const bool takes_sizes_;
};

// Input 1 is the filter or, in the second version, its shape.
class Conv3DBackpropFilterKernel final : public Conv3DKernel {
 public:
  explicit Conv3DBackpropFilterKernel(KernelConstruction& c)
      : Conv3DKernel(c), takes_sizes_(op_name() == "Conv3DBackpropFilterV2") {}
  Status Compute(KernelContext& context) override {
    TensorShape filter = context.input(1).shape();
    if (takes_sizes_) {
      MR_ASSIGN_OR_RETURN(filter, SizesArgument(context.input(1), "filter_sizes"));
    }
    MR_ASSIGN_OR_RETURN(const Plan p, MakePlan(context.input(0).shape(), filter));
    MR_RETURN_IF_ERROR(CheckGradient(p, context.input(2)));
    MR_ASSIGN_OR_RETURN(const Tensor x, ToChannelsLast(context, context.input(0), channels_first_));
    MR_ASSIGN_OR_RETURN(const Tensor dy, ToChannelsLast(context, context.input(2), channels_first_));
    return Produce(context, x, dy, filter, false, [&](const auto* in, const auto* from, auto* dw) {
      return BackpropFilter(context, p, in, from, dw);
    });
  }

 private:
  const bool takes_sizes_;
};

}  // namespace

void RegisterVolumeConvKernels(KernelRegistry& registry) {
  const TypeList old = {DataType::kHalf, DataType::kFloat, DataType::kDouble};
  registry.Register<Conv3DForwardKernel>(KernelDef("Conv3D").Types("T", FloatTypes()));
  registry.Register<Conv3DBackpropInputKernel>(KernelDef("Conv3DBackpropInput").Types("T", old));
  registry.Register<Conv3DBackpropInputKernel>(KernelDef("Conv3DBackpropInputV2").Types("T", FloatTypes()));
  registry.Register<Conv3DBackpropFilterKernel>(KernelDef("Conv3DBackpropFilter").Types("T", old));
  registry.Register<Conv3DBackpropFilterKernel>(KernelDef("Conv3DBackpropFilterV2").Types("T", FloatTypes()));
}

}  // namespace millrace
