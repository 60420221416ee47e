// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// RGBToHSV, HSVToRGB and the adjustments of contrast, hue and saturation.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/nn/util.h"

namespace millrace {
namespace {

// A colour: red, green and blue, or hue (in turns), saturation and value.
template <typename T>
struct Color {
  T a, b, c;
};

template <typename T>
Color<T> ToHsv(const Color<T>& rgb) {
  const T value = std::max({rgb.a, rgb.b, rgb.c}), range = value - std::min({rgb.a, rgb.b, rgb.c});
  const T saturation = value > 0 ? range / value : T(0);
  if (!(range > 0)) return {T(0), saturation, value};
  const T unit = T(1) / (6 * range);
  T hue;
  if (rgb.a == value) {
    hue = unit * (rgb.b - rgb.c);
  } else if (rgb.b == value) {
    hue = unit * (rgb.c - rgb.a) + T(2) / 6;
  } else {
    hue = unit * (rgb.a - rgb.b) + T(4) / 6;
  }
  return {hue < 0 ? hue + 1 : hue, saturation, value};
}

template <typename T>
Color<T> ToRgb(const Color<T>& hsv) {
  const T h = hsv.a * 6;
  const auto ramp = [](T x) { return std::clamp(x, T(0), T(1)); };
  const auto mix = [&](T share) { return ((1 - hsv.b) + hsv.b * share) * hsv.c; };
  return {mix(ramp(std::abs(h - 3) - 1)), mix(ramp(2 - std::abs(h - 2))), mix(ramp(2 - std::abs(h - 4)))};
}

// Runs map(color) on all of `in`, an array of colours of float or double.
template <typename T, typename Map>
void MapColors(const KernelContext& context, const T* in, T* out, int64_t colors, Map map) {
  context.ParallelFor(colors, 12, [&](int64_t begin, int64_t end) {
    for (int64_t i = 3 * begin; i < 3 * end; i += 3) {
      const Color<T> result = map(Color<T>{in[i], in[i + 1], in[i + 2]});
      out[i] = result.a;
      out[i + 1] = result.b;
      out[i + 2] = result.c;
    }
  });
}

// The same on output 0 and input 0, the small types by way of float. `map` takes colours of both types.
template <typename Map>
Status MapImages(KernelContext& context, Map map) {
  const Tensor& in = context.input(0);
  const int64_t colors = in.num_elements() / 3;
  if (in.dtype() == DataType::kHalf || in.dtype() == DataType::kBfloat16) {
    MR_ASSIGN_OR_RETURN(const Tensor floats, ToFloat(context, in));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, in.shape()));
    MR_ASSIGN_OR_RETURN(Tensor result, context.AllocateTemp(DataType::kFloat, in.shape()));
    MapColors(context, floats.data<float>(), result.data<float>(), colors, map);
    FromFloat(context, result, out);
    return Status();
  }
  MR_ASSIGN_OR_RETURN(Tensor * out, context.ForwardInputOrAllocateOutput({0}, 0, in.shape()));
  const Tensor& from = context.input(0);
  if (from.dtype() == DataType::kFloat) {
    MapColors(context, from.data<float>(), out->data<float>(), colors, map);
  } else {
    MapColors(context, from.data<double>(), out->data<double>(), colors, map);
  }
  return Status();
}

template <bool kToHsv>
class ColorSpaceKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    if (in.rank() < 1) return errors::InvalidArgument("input must be at least 1D", in.shape());
    const int64_t channels = in.dim(in.rank() - 1);
    if (channels != 3)
      return errors::InvalidArgument("input must have 3 channels but instead has ", channels, " channels");
    return MapImages(context, []<typename T>(const Color<T>& color) {
      if constexpr (kToHsv) {
        return ToHsv(color);
      } else {
        return ToRgb(color);
      }
    });
  }
};

Status CheckAdjustment(const KernelContext& context, const char* name) {
  const Tensor& in = context.input(0);
  const Tensor& amount = context.input(1);
  if (in.rank() < 3) return errors::InvalidArgument("input must be at least 3-D, got shape", in.shape());
  if (!amount.shape().IsScalar()) return errors::InvalidArgument(name, " must be scalar: ", amount.shape());
  return Status();
}

Status CheckThreeChannels(const Tensor& in) {
  const int64_t channels = in.dim(in.rank() - 1);
  if (channels == 3) return Status();
  return errors::InvalidArgument("input must have 3 channels but instead has ", channels, " channels.");
}

class AdjustHueKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_RETURN_IF_ERROR(CheckAdjustment(context, "delta"));
    MR_RETURN_IF_ERROR(CheckThreeChannels(context.input(0)));
    const float delta = context.input(1).scalar<float>();
    return MapImages(context, [delta]<typename T>(const Color<T>& color) {
      const T most = std::max({color.a, color.b, color.c}), least = std::min({color.a, color.b, color.c});
      if (!(most > least)) return color;
      T hue = ToHsv(color).a + static_cast<T>(delta);
      hue -= std::floor(hue);
      // Values of any sign keep their least and most, which saturation could not say.
      const Color<T> pure = ToRgb(Color<T>{hue, T(1), T(1)});
      const T range = most - least;
      return Color<T>{least + range * pure.a, least + range * pure.b, least + range * pure.c};
    });
  }
};

class AdjustSaturationKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_RETURN_IF_ERROR(CheckAdjustment(context, "scale"));
    MR_RETURN_IF_ERROR(CheckThreeChannels(context.input(0)));
    const float scale = context.input(1).scalar<float>();
    return MapImages(context, [scale]<typename T>(const Color<T>& color) {
      Color<T> hsv = ToHsv(color);
      hsv.b = std::min(T(1), std::max(T(0), hsv.b * static_cast<T>(scale)));
      return ToRgb(hsv);
    });
  }
};

class AdjustContrastKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_RETURN_IF_ERROR(CheckAdjustment(context, "contrast_factor"));
    // The first version takes images of any type and keeps the result within limits.
    for (int i = 2; i < context.num_inputs(); ++i)
      MR_RETURN_IF_ERROR(RequireScalar(context.input(i), i == 2 ? "min_value" : "max_value"));
    const Tensor& in = context.input(0);
    const float factor = context.input(1).scalar<float>();
    const int rank = in.rank();
    const int64_t channels = in.dim(rank - 1), pixels = in.dim(rank - 2) * in.dim(rank - 3);
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, in.shape()));
    if (in.num_elements() == 0) return Status();
    MR_ASSIGN_OR_RETURN(const Tensor floats, ToFloat(context, in));
    Tensor result = *out;
    if (out->dtype() != DataType::kFloat) {
      MR_ASSIGN_OR_RETURN(result, context.AllocateTemp(DataType::kFloat, in.shape()));
    }
    const int64_t samples = pixels * channels;
    context.ParallelFor(in.num_elements() / samples, samples * 2, [&](int64_t begin, int64_t end) {
      for (int64_t image = begin; image < end; ++image) {
        Stretch(floats.data<float>() + image * samples, pixels, channels, factor,
                result.data<float>() + image * samples);
      }
    });
    if (out->dtype() != DataType::kFloat) FromFloat(context, result, out);
    if (context.num_inputs() == 4) {
      const float low = context.input(2).scalar<float>(), high = context.input(3).scalar<float>();
      for (float& x : out->flat<float>()) x = std::min(std::max(x, low), high);
    }
    return Status();
  }

 private:
  // Away from the mean of each channel.
  static void Stretch(const float* in, int64_t pixels, int64_t channels, float factor, float* out) {
    std::vector<double> sums(static_cast<size_t>(channels));
    for (int64_t p = 0; p < pixels; ++p) {
      for (int64_t c = 0; c < channels; ++c)
        sums[static_cast<size_t>(c)] += static_cast<double>(in[p * channels + c]);
    }
    for (double& sum : sums) sum /= static_cast<double>(pixels);
    for (int64_t p = 0; p < pixels; ++p) {
      for (int64_t c = 0; c < channels; ++c) {
        const auto mean = static_cast<float>(sums[static_cast<size_t>(c)]);
        out[p * channels + c] = (in[p * channels + c] - mean) * factor + mean;
      }
    }
  }
};

}  // namespace

void RegisterColorKernels(KernelRegistry& registry) {
  registry.Register<AdjustContrastKernel>(KernelDef("AdjustContrast"));
  registry.Register<AdjustContrastKernel>(KernelDef("AdjustContrastv2"));
  registry.Register<AdjustHueKernel>(KernelDef("AdjustHue"));
  registry.Register<AdjustSaturationKernel>(KernelDef("AdjustSaturation"));
  registry.Register<ColorSpaceKernel<false>>(KernelDef("HSVToRGB"));
  registry.Register<ColorSpaceKernel<true>>(KernelDef("RGBToHSV"));
}

}  // namespace millrace
