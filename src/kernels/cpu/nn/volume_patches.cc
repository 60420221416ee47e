// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// ExtractVolumePatches, and the gradient of BatchNormWithGlobalNormalization.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/nn/volume.h"

namespace millrace {
namespace {

class ExtractVolumePatchesKernel final : public OpKernel {
 public:
  explicit ExtractVolumePatchesKernel(KernelConstruction& c)
      : OpKernel(c),
        window_(ReadSides(c, "ksizes", false)),
        strides_(ReadSides(c, "strides", false)),
        padding_(ReadVolumePadding(c)) {}
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    if (in.rank() != 5) return errors::InvalidArgument("input must be 5-dimensional", in.shape());
    TensorShape patch;
    for (const int64_t side : {window_[0], window_[1], window_[2], in.dim(4)})
      MR_RETURN_IF_ERROR(patch.TryAddDim(side));
    const int64_t depth = patch.num_elements();
    MR_ASSIGN_OR_RETURN(const VolumeWindows w,
                        MakeVolumeWindows(in.shape(), false, window_, strides_, {1, 1, 1}, padding_, depth));
    MR_ASSIGN_OR_RETURN(Tensor * out,
                        context.AllocateOutput(0, {w.batch, w.out[0], w.out[1], w.out[2], depth}));
    if (out->num_elements() == 0) return Status();
    return VisitReal(in.dtype(), NoSuchType(context, in.dtype()), [&]<typename T>() {
      context.ParallelFor(out->num_elements() / depth, depth, [&](int64_t begin, int64_t end) {
        for (int64_t pixel = begin; pixel < end; ++pixel)
          Copy(w, pixel, in.data<T>(), out->data<T>() + pixel * depth);
      });
      return Status();
    });
  }

 private:
  // The padding is zero.
  template <typename T>
  static void Copy(const VolumeWindows& w, int64_t pixel, const T* in, T* to) {
    const int64_t x = pixel % w.out[2] * w.stride[2] - w.pad[2];
    const int64_t y = pixel / w.out[2] % w.out[1] * w.stride[1] - w.pad[1];
    const int64_t plane = pixel / w.out[2] / w.out[1];
    const int64_t z = plane % w.out[0] * w.stride[0] - w.pad[0], n = plane / w.out[0];
    // Along a row, pixels before, inside and after the volume.
    const int64_t first = std::clamp<int64_t>(-x, 0, w.window[2]);
    const int64_t end = std::clamp<int64_t>(w.in[2] - x, first, w.window[2]);
    const int64_t before = first * w.channels, inside = (end - first) * w.channels,
                  row = w.window[2] * w.channels;
    for (int64_t d = z; d < z + w.window[0]; ++d) {
      for (int64_t h = y; h < y + w.window[1]; ++h, to += row) {
        if (d < 0 || d >= w.in[0] || h < 0 || h >= w.in[1]) {
          std::fill_n(to, row, T(0));
          continue;
        }
        const T* const from = in + (((n * w.in[0] + d) * w.in[1] + h) * w.in[2] + x + first) * w.channels;
        std::fill_n(to, before, T(0));
        std::copy_n(from, inside, to + before);
        std::fill_n(to + before + inside, row - before - inside, T(0));
      }
    }
  }

  const Sides window_, strides_;
  const Padding padding_;
};

// Inputs: t, m, v, gamma, backprop. The output was (t - m) * rsqrt(v + epsilon) * gamma + beta.
class GlobalNormalizationGradKernel final : public OpKernel {
 public:
  explicit GlobalNormalizationGradKernel(KernelConstruction& c)
      : OpKernel(c),
        epsilon_(c.Attr<float>("variance_epsilon")),
        scales_(c.Attr<bool>("scale_after_normalization")) {}
  Status Compute(KernelContext& context) override {
    const Tensor& t = context.input(0);
    if (t.rank() != 4) return errors::InvalidArgument("input must be 4-dimensional", t.shape());
    const TensorShape vector{t.dim(3)};
    static constexpr const char* kNames[] = {"mean", "var", "gamma"};
    for (int i = 1; i < 4; ++i) {
      if (context.input(i).shape() != vector) {
        return errors::InvalidArgument(kNames[i - 1], " must be a vector of the input's depth, got shape ",
                                       context.input(i).shape());
      }
    }
    if (context.input(4).shape() != t.shape()) {
      return errors::InvalidArgument("out_backprop must have the shape of the input, got ",
                                     context.input(4).shape());
    }
    Tensor* out[5];
    MR_ASSIGN_OR_RETURN(out[0], context.AllocateOutput(0, t.shape()));
    for (int i = 1; i < 5; ++i) {
      MR_ASSIGN_OR_RETURN(out[i], context.AllocateOutput(i, vector));
    }
    if (t.dtype() == DataType::kHalf) {
      Differentiate<half>(context, out);
    } else if (t.dtype() == DataType::kFloat) {
      Differentiate<float>(context, out);
    } else {
      Differentiate<double>(context, out);
    }
    return Status();
  }

 private:
  // Outputs: dx, dm, dv, db, dg.
  template <typename T>
  void Differentiate(const KernelContext& context, Tensor* const (&out)[5]) const {
    const auto input = [&](int i) { return context.input(i).data<T>(); };
    const T *x = input(0), *mean = input(1), *variance = input(2), *gamma = input(3), *dy = input(4);
    using F = ComputeType<T>;
    const auto number = [](T value) { return static_cast<double>(static_cast<F>(value)); };
    const int64_t channels = context.input(0).dim(3), n = context.input(0).num_elements();
    context.ParallelFor(
        channels, channels == 0 ? 1 : 4 * (n / channels) + 20, [&](int64_t begin, int64_t end) {
          for (int64_t c = begin; c < end; ++c) {
            const double scale = 1 / std::sqrt(number(variance[c]) + static_cast<double>(epsilon_));
            const double factor = scales_ ? number(gamma[c]) : 1.0;
            double sum = 0, product = 0;
            for (int64_t i = c; i < n; i += channels) {
              const double g = number(dy[i]);
              sum += g;
              product += g * (number(x[i]) - number(mean[c]));
              out[0]->data<T>()[i] = T(F(g * factor * scale));
            }
            out[1]->data<T>()[c] = T(F(-sum * factor * scale));
            out[2]->data<T>()[c] = T(F(-0.5 * product * factor * scale * scale * scale));
            out[3]->data<T>()[c] = T(F(sum));
            out[4]->data<T>()[c] = T(F(scales_ ? product * scale : 0.0));
          }
        });
  }

  const float epsilon_;
  const bool scales_;
};

}  // namespace

void RegisterVolumePatchesKernels(KernelRegistry& registry) {
  registry.Register<ExtractVolumePatchesKernel>(KernelDef("ExtractVolumePatches").Types("T", RealTypes()));
  registry.Register<GlobalNormalizationGradKernel>(
      KernelDef("BatchNormWithGlobalNormalizationGrad")
          .Types("T", {DataType::kHalf, DataType::kFloat, DataType::kDouble}));
}

}  // namespace millrace
