// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "kernels/cpu/contract/norm.h"
#include "kernels/cpu/nn/util.h"
#include "kernels/cpu/vector/transpose.h"

namespace millrace {
namespace {

constexpr int kToNhwc[] = {0, 2, 3, 1};
constexpr int kToNchw[] = {0, 3, 1, 2};

// The common part of both kernels: attributes, checks, and the transposition of channels to the end.
class BatchNormKernel : public OpKernel {
 public:
  explicit BatchNormKernel(KernelConstruction& c)
      : OpKernel(c),
        dims_(ReadImageDims(c)),
        epsilon_(c.Attr<float>("epsilon")),
        training_(c.Attr<bool>("is_training")) {}

 protected:
  static Status CheckVector(const Tensor& t, const char* what, int64_t channels) {
    if (t.rank() != 1) return errors::InvalidArgument(what, " must be 1-dimensional", t.shape());
    if (t.dim(0) == channels) return Status();
    return errors::InvalidArgument(what, " must have ", channels, " values, one for each channel, got ",
                                   t.dim(0));
  }

  static Status NoMemory() { return errors::ResourceExhausted("No memory for the sums of the channels"); }

  static StatusOr<Tensor> Permuted(KernelContext& context, const Tensor& t, std::span<const int> perm) {
    TensorShape shape({t.dim(perm[0]), t.dim(perm[1]), t.dim(perm[2]), t.dim(perm[3])});
    MR_ASSIGN_OR_RETURN(Tensor out, context.AllocateTemp(DataType::kFloat, shape));
    ContextParallel parallel(context);
    cpu::Transpose(t.raw_data(), t.shape().dims(), perm, sizeof(float), out.raw_data(), parallel);
    return out;
  }
  // The images with channels last: the tensor itself, or a copy.
  StatusOr<Tensor> ChannelsLast(KernelContext& context, const Tensor& t) const {
    MR_ASSIGN_OR_RETURN(Tensor floats, ToFloat(context, t));
    if (!dims_.nchw) return floats;
    return Permuted(context, floats, kToNhwc);
  }
  // Sets outputs that only other devices use to empty tensors, from `first` on.
  Status SetUnused(KernelContext& context, int first) const {
    for (int i = first; i < num_outputs(); ++i) {
      MR_RETURN_IF_ERROR(context.AllocateOutput(i, TensorShape({0})).status());
    }
    return Status();
  }
  // Sets output 0 to `t`, whose channels are last.
  Status SetImages(KernelContext& context, Tensor t) const {
    if (dims_.nchw) {
      MR_ASSIGN_OR_RETURN(t, Permuted(context, t, kToNchw));
    }
    if (output_type(0) == DataType::kFloat) {
      context.set_output(0, std::move(t));
      return Status();
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, t.shape()));
    FromFloat(context, t, out);
    return Status();
  }
  // Memory for the result, channels last; input `i` if it may be overwritten.
  StatusOr<Tensor> Room(KernelContext& context, int i, const Tensor& like) const {
    if (dims_.nchw || input_type(i) != DataType::kFloat) return like;  // a separate copy
    return context.ForwardInputOrAllocateTemp({i}, DataType::kFloat, like.shape());
  }

  const ImageDims dims_;
  const float epsilon_;
  const bool training_;
};

class FusedBatchNormKernel final : public BatchNormKernel {
 public:
  using BatchNormKernel::BatchNormKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    if (x.rank() != 4) return errors::InvalidArgument("input must be 4-dimensional", x.shape());
    const int64_t channels = x.dim(dims_.channel());
    MR_RETURN_IF_ERROR(CheckVector(context.input(1), "scale", channels));
    MR_RETURN_IF_ERROR(CheckVector(context.input(2), "offset", channels));
    if (training_) {
      for (const int i : {3, 4}) {
        if (context.input(i).num_elements() != 0) {
          return errors::InvalidArgument(i == 3 ? "estimated_mean" : "estimated_variance",
                                         " must be empty for training", context.input(i).shape());
        }
      }
    } else {
      MR_RETURN_IF_ERROR(CheckVector(context.input(3), "estimated_mean", channels));
      MR_RETURN_IF_ERROR(CheckVector(context.input(4), "estimated_variance", channels));
    }
    const float* const scale = context.input(1).data<float>();
    const float* const offset = context.input(2).data<float>();
    MR_ASSIGN_OR_RETURN(const Tensor images, ChannelsLast(context, x));
    const int64_t rows = channels == 0 ? 0 : images.num_elements() / channels;
    MR_ASSIGN_OR_RETURN(const Statistics batch, SetStatistics(context, images, rows, channels));
    MR_ASSIGN_OR_RETURN(Tensor affine, context.AllocateTemp(DataType::kFloat, {2, channels}));
    float* const factor = affine.data<float>();
    for (int64_t c = 0; c < channels; ++c) {
      factor[c] = scale[c] / std::sqrt(batch.variance.data<float>()[c] + epsilon_);
      factor[channels + c] = offset[c] - batch.mean.data<float>()[c] * factor[c];
    }
    MR_RETURN_IF_ERROR(SetUnused(context, 5));
    MR_ASSIGN_OR_RETURN(Tensor y, Room(context, 0, images));
    ContextParallel parallel(context);
    cpu::AffineColumns({.x = images.data<float>(),
                        .scale = factor,
                        .shift = factor + channels,
                        .rows = rows,
                        .cols = channels,
                        .y = y.data<float>()},
                       parallel);
    return SetImages(context, std::move(y));
  }

 private:
  // The mean and variance that normalise the images.
  struct Statistics {
    Tensor mean, variance;
  };

  // Outputs 1 to 4: mean and variance for the moving averages, then those for the gradient. The first
  // variance is an unbiased estimate from a sample, the second one is that of the batch.
  StatusOr<Statistics> SetStatistics(KernelContext& context, const Tensor& images, int64_t rows,
                                     int64_t channels) const {
    if (!training_) {
      for (int i = 0; i < 2; ++i) {
        context.set_output(1 + i, context.input(3 + i));
        context.set_output(3 + i, context.input(3 + i));
      }
      return Statistics{context.input(3), context.input(4)};
    }
    Tensor* out[5] = {};
    for (int i = 1; i < 5; ++i) {
      MR_ASSIGN_OR_RETURN(out[i], context.AllocateOutput(i, {channels}));
    }
    float* const mean = out[3]->data<float>();
    float* const variance = out[4]->data<float>();
    ContextParallel parallel(context);
    if (rows == 0) {
      std::fill_n(mean, channels, std::numeric_limits<float>::quiet_NaN());
      std::fill_n(variance, channels, std::numeric_limits<float>::quiet_NaN());
    } else if (!cpu::ColumnMoments(images.data<float>(), rows, channels, mean, variance, parallel)) {
      return NoMemory();
    }
    const float sample = rows > 1 ? static_cast<float>(rows) / static_cast<float>(rows - 1) : 1.0f;
    for (int64_t c = 0; c < channels; ++c) {
      out[1]->data<float>()[c] = mean[c];
      out[2]->data<float>()[c] = variance[c] * sample;
    }
    return Statistics{*out[3], *out[4]};
  }
};

class FusedBatchNormGradKernel final : public BatchNormKernel {
 public:
  using BatchNormKernel::BatchNormKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& dy = context.input(0);
    const Tensor& x = context.input(1);
    if (dy.rank() != 4) return errors::InvalidArgument("input must be 4-dimensional", dy.shape());
    if (dy.shape() != x.shape()) {
      return errors::InvalidArgument("y_backprop and x must have the same shape: ", dy.shape(), " vs. ",
                                     x.shape());
    }
    const int64_t channels = x.dim(dims_.channel());
    MR_RETURN_IF_ERROR(CheckVector(context.input(2), "scale", channels));
    MR_RETURN_IF_ERROR(CheckVector(context.input(3), "saved mean", channels));
    MR_RETURN_IF_ERROR(CheckVector(context.input(4), "saved variance", channels));
    MR_ASSIGN_OR_RETURN(const Tensor grads, ChannelsLast(context, dy));
    MR_ASSIGN_OR_RETURN(const Tensor images, ChannelsLast(context, x));
    MR_ASSIGN_OR_RETURN(Tensor * scale_grad, context.AllocateOutput(1, {channels}));
    MR_ASSIGN_OR_RETURN(Tensor * offset_grad, context.AllocateOutput(2, {channels}));
    MR_RETURN_IF_ERROR(SetUnused(context, 3));
    const int64_t rows = channels == 0 ? 0 : images.num_elements() / channels;
    const float* const mean = context.input(3).data<float>();
    ContextParallel parallel(context);
    if (!cpu::ColumnProducts(grads.data<float>(), images.data<float>(), mean, rows, channels,
                             offset_grad->data<float>(), scale_grad->data<float>(), parallel)) {
      return NoMemory();
    }
    MR_ASSIGN_OR_RETURN(Tensor affine, context.AllocateTemp(DataType::kFloat, {3, channels}));
    SetAffine(context, rows, channels, offset_grad->data<float>(), scale_grad->data<float>(),
              affine.data<float>());
    MR_ASSIGN_OR_RETURN(Tensor dx, Room(context, 0, grads));
    cpu::AffineColumns({.x = grads.data<float>(),
                        .scale = affine.data<float>(),
                        .other = images.data<float>(),
                        .other_scale = affine.data<float>() + channels,
                        .shift = affine.data<float>() + 2 * channels,
                        .rows = rows,
                        .cols = channels,
                        .y = dx.data<float>()},
                       parallel);
    return SetImages(context, std::move(dx));
  }

 private:
  // dx = dy * affine[0] + x * affine[1] + affine[2]. With h = (x - mean) / sqrt(variance + epsilon), the mean
  // and variance of the batch, dx = scale / sqrt(...) * (dy - mean(dy) - h * mean(dy * h)). Converts the sum
  // of dy * (x - mean) to that of dy * h.
  void SetAffine(KernelContext& context, int64_t rows, int64_t channels, const float* sums, float* products,
                 float* affine) const {
    const float* const scale = context.input(2).data<float>();
    const float* const mean = context.input(3).data<float>();
    const float* const variance = context.input(4).data<float>();
    const float share = training_ && rows > 0 ? 1.0f / static_cast<float>(rows) : 0.0f;
    for (int64_t c = 0; c < channels; ++c) {
      const float inverse = 1.0f / std::sqrt(variance[c] + epsilon_);
      const float factor = scale[c] * inverse;
      products[c] *= inverse;
      affine[c] = factor;
      affine[channels + c] = -factor * inverse * products[c] * share;
      affine[2 * channels + c] = -factor * sums[c] * share - affine[channels + c] * mean[c];
    }
  }
};

// The predecessor of FusedBatchNorm, for images with channels last: t, m, v, beta, gamma.
class GlobalNormalizationKernel final : public OpKernel {
 public:
  explicit GlobalNormalizationKernel(KernelConstruction& c)
      : OpKernel(c),
        epsilon_(c.Attr<float>("variance_epsilon")),
        scales_(c.Attr<bool>("scale_after_normalization")) {}
  Status Compute(KernelContext& context) override {
    const Tensor& t = context.input(0);
    if (t.rank() != 4) return errors::InvalidArgument("input must be 4-dimensional", t.shape());
    constexpr const char* kNames[] = {"", "mean", "var", "beta", "gamma"};
    for (int i = 1; i < 5; ++i) {
      if (context.input(i).shape() != TensorShape({t.dim(3)})) {
        return errors::InvalidArgument(kNames[i], " must be 1-dimensional with ", t.dim(3), " values, got ",
                                       context.input(i).shape());
      }
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, t.shape()));
    if (t.dtype() == DataType::kHalf) return Normalize<half>(context, t, out);
    return t.dtype() == DataType::kFloat ? Normalize<float>(context, t, out)
                                         : Normalize<double>(context, t, out);
  }

 private:
  template <typename T>
  Status Normalize(KernelContext& context, const Tensor& t, Tensor* out) const {
    const auto channels = static_cast<size_t>(t.dim(3));
    using F = ComputeType<T>;
    std::vector<F> factor(channels);
    for (size_t c = 0; c < channels; ++c) {
      factor[c] = F(1) / std::sqrt(F(context.input(2).data<T>()[c]) + static_cast<F>(epsilon_));
      if (scales_) factor[c] *= F(context.input(4).data<T>()[c]);
    }
    const T* const mean = context.input(1).data<T>();
    const T* const beta = context.input(3).data<T>();
    const T* x = t.data<T>();
    T* y = out->data<T>();
    for (int64_t i = 0; i < t.num_elements(); i += t.dim(3), x += channels, y += channels) {
      for (size_t c = 0; c < channels; ++c) y[c] = T((F(x[c]) - F(mean[c])) * factor[c] + F(beta[c]));
    }
    return Status();
  }

  const float epsilon_;
  const bool scales_;
};

}  // namespace

void RegisterNnBatchNormKernels(KernelRegistry& registry) {
  const TypeList small{DataType::kHalf, DataType::kBfloat16, DataType::kFloat};
  for (const char* op : {"FusedBatchNormV2", "FusedBatchNormV3"}) {
    registry.Register<FusedBatchNormKernel>(KernelDef(op).Types("T", small));
  }
  for (const char* op : {"FusedBatchNormGradV2", "FusedBatchNormGradV3"}) {
    registry.Register<FusedBatchNormGradKernel>(KernelDef(op).Types("T", small));
  }
  registry.Register<GlobalNormalizationKernel>(
      KernelDef("BatchNormWithGlobalNormalization")
          .Types("T", {DataType::kHalf, DataType::kFloat, DataType::kDouble}));
  registry.Register<FusedBatchNormKernel>(KernelDef("FusedBatchNorm").Types("T", {DataType::kFloat}));
  registry.Register<FusedBatchNormGradKernel>(KernelDef("FusedBatchNormGrad").Types("T", {DataType::kFloat}));
}

}  // namespace millrace
