// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// RGBToHSV, HSVToRGB and the adjustments of contrast, hue and saturation.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/loop.h"
#include "kernels/cpu/nn/util.h"

namespace millrace {
namespace {

// A colour: red, green and blue, or hue (in turns), saturation and value.
template <typename T>
struct Color {
  T a, b, c;
};

template <typename T>
T Most(const Color<T>& x) {
  const T most = x.a < x.b ? x.b : x.a;
  return most < x.c ? x.c : most;
}
template <typename T>
T Least(const Color<T>& x) {
  const T least = x.b < x.a ? x.b : x.a;
  return x.c < least ? x.c : least;
}

// Inline, as is ToRgb: a call would prevent the vectorisation of the loop around it.
template <typename T>
[[gnu::always_inline]] inline Color<T> ToHsv(const Color<T>& rgb) {
  const T value = Most(rgb), range = value - Least(rgb);
  // All cases are computed and one is selected, so that loops over colours are vectorised.
  const T share = range / value, unit = T(1) / (6 * range);
  const T red = unit * (rgb.b - rgb.c), green = unit * (rgb.c - rgb.a) + T(2) / 6,
          blue = unit * (rgb.a - rgb.b) + T(4) / 6;
  const T hue = rgb.a == value ? red : rgb.b == value ? green : blue;
  const T turned = hue + (hue < 0 ? T(1) : T(0));
  return {range > 0 ? turned : T(0), value > 0 ? share : T(0), value};
}

template <typename T>
[[gnu::always_inline]] inline Color<T> ToRgb(const Color<T>& hsv) {
  const T h = hsv.a * 6;
  const auto ramp = [](T x) {
    const T above = x < T(0) ? T(0) : x;
    return T(1) < above ? T(1) : above;
  };
  const auto mix = [&](T share) { return ((1 - hsv.b) + hsv.b * share) * hsv.c; };
  return {mix(ramp(std::abs(h - 3) - 1)), mix(ramp(2 - std::abs(h - 2))), mix(ramp(2 - std::abs(h - 4)))};
}

// As std::floor, for which the baseline processor has no instruction.
template <typename T>
T Floor(T x) {
  constexpr T kIntegers = sizeof(T) == 4 ? T(0x1p23) : T(0x1p52);  // all numbers from here on are integers
  const T magnitude = std::abs(x), nearest = std::copysign((magnitude + kIntegers) - kIntegers, x);
  const T below = nearest - (nearest > x ? T(1) : T(0));
  return magnitude < kIntegers ? below : x;
}

// Applies map(color) to all of `in`, an array of colours of float or double.
template <typename T, typename Map>
void MapColors(const KernelContext& context, const T* in, T* out, int64_t colors, Map map) {
  context.ParallelFor(colors, 4, [&](int64_t begin, int64_t end) {
    RunLoop([=]() MR_INLINE_LAMBDA {
      constexpr int64_t kBlock = 128;
      T a[kBlock], b[kBlock], c[kBlock];
      for (int64_t first = begin; first < end; first += kBlock) {
        const int64_t n = std::min(kBlock, end - first);
        const T* const from = in + 3 * first;
        T* const to = out + 3 * first;
        for (int64_t i = 0; i < n; ++i) {
          a[i] = from[3 * i];
          b[i] = from[3 * i + 1];
          c[i] = from[3 * i + 2];
        }
        for (int64_t i = 0; i < n; ++i) {
          const Color<T> result = map(Color<T>{a[i], b[i], c[i]});
          a[i] = result.a;
          b[i] = result.b;
          c[i] = result.c;
        }
        for (int64_t i = 0; i < n; ++i) {
          to[3 * i] = a[i];
          to[3 * i + 1] = b[i];
          to[3 * i + 2] = c[i];
        }
      }
    });
  });
}

// The same for output 0 and input 0; small types are converted to float. `map` is called with both types.
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
      return errors::FailedPrecondition("input must have 3 channels but input only has ", channels,
                                        " channels.");
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
      const T most = Most(color), least = Least(color);
      T hue = ToHsv(color).a + static_cast<T>(delta);
      hue -= Floor(hue);
      // Values of any sign keep their minimum and maximum, which saturation cannot express.
      const Color<T> pure = ToRgb(Color<T>{hue, T(1), T(1)});
      const T range = most - least;
      const auto mixed = [&](T own, T share) {
        const T other = least + range * share;
        return most > least ? other : own;
      };
      return Color<T>{mixed(color.a, pure.a), mixed(color.b, pure.b), mixed(color.c, pure.c)};
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
      const T scaled = hsv.b * static_cast<T>(scale);
      const T above = T(0) < scaled ? scaled : T(0);
      hsv.b = above < T(1) ? above : T(1);
      return ToRgb(hsv);
    });
  }
};

class AdjustContrastKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_RETURN_IF_ERROR(CheckAdjustment(context, "contrast_factor"));
    // The first version accepts images of any type and clamps the result to limits.
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
  // Scales the differences from the means of channels, in blocks of whole pixels that fill several registers.
  static void Stretch(const float* in, int64_t pixels, int64_t channels, float factor, float* out) {
    constexpr int64_t kStep = 96;
    const int64_t pixels_a_step = std::max<int64_t>(1, kStep / channels);
    const int64_t step = pixels_a_step * channels, n = pixels * channels;
    std::vector<double> sums(static_cast<size_t>(step));
    std::vector<float> means(static_cast<size_t>(step));
    RunLoop([=, sums = sums.data()]() MR_INLINE_LAMBDA {
      int64_t i = 0;
      for (; i + step <= n; i += step) {
        for (int64_t j = 0; j < step; ++j) sums[j] += static_cast<double>(in[i + j]);
      }
      for (int64_t j = 0; j < n - i; ++j) sums[j] += static_cast<double>(in[i + j]);
    });
    for (int64_t j = channels; j < step; ++j)
      sums[static_cast<size_t>(j % channels)] += sums[static_cast<size_t>(j)];
    for (int64_t j = 0; j < step; ++j) {
      means[static_cast<size_t>(j)] =
          static_cast<float>(sums[static_cast<size_t>(j % channels)] / static_cast<double>(pixels));
    }
    RunLoop([=, means = means.data()]() MR_INLINE_LAMBDA {
      for (int64_t i = 0; i < n; i += step) {
        const int64_t count = std::min(step, n - i);
        for (int64_t j = 0; j < count; ++j) out[i + j] = (in[i + j] - means[j]) * factor + means[j];
      }
    });
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
