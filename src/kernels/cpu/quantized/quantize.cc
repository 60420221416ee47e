// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Conversions between numbers and small integers within a range.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/loop.h"
#include "kernels/cpu/nn/util.h"
#include "kernels/cpu/quantized/rounding.h"

namespace millrace {
namespace {

enum class Mode { kMinCombined, kMinFirst, kScaled };

Mode ReadMode(KernelConstruction& c) {
  const auto mode = c.Attr<std::string>("mode");
  if (mode == "MIN_FIRST") return Mode::kMinFirst;
  if (mode == "SCALED") return Mode::kScaled;
  if (mode != "MIN_COMBINED")
    c.SetError(errors::InvalidArgument("Mode string must be 'MIN_COMBINED', 'MIN_FIRST', or 'SCALED', is '",
                                       mode, "'"));
  return Mode::kMinCombined;
}

// Calls fn with the integer type of a quantised type.
template <typename Fn>
Status VisitQuantized(const KernelContext& context, DataType dtype, Fn fn) {
  switch (dtype) {
    case DataType::kQint8:
      return fn.template operator()<int8_t>();
    case DataType::kQuint8:
      return fn.template operator()<uint8_t>();
    case DataType::kQint16:
      return fn.template operator()<int16_t>();
    case DataType::kQuint16:
      return fn.template operator()<uint16_t>();
    case DataType::kQint32:
      return fn.template operator()<int32_t>();
    default:
      return NoSuchType(context, dtype);
  }
}

template <typename T>
constexpr double kLowest = static_cast<double>(std::numeric_limits<T>::lowest());
template <typename T>
constexpr double kHighest = static_cast<double>(std::numeric_limits<T>::max());
// The offset of signed types in MIN_COMBINED.
template <typename T>
constexpr double kHalf = std::is_signed_v<T> ? (kHighest<T> - kLowest<T> + 1) / 2 : 0.0;
// The width of a step of MIN_FIRST.
template <typename T>
double StepOf(double min, double max) {
  return (max - min) / (kHighest<T> - kLowest<T>);
}

// 0 for NaN.
template <typename T>
T Clamped(double value) {
  const double number = value == value ? value : 0.0;
  const double above = number > kLowest<T> ? number : kLowest<T>;
  const double inside = above < kHighest<T> ? above : kHighest<T>;
  return static_cast<T>(static_cast<int32_t>(inside));
}

StatusOr<float> RangeEnd(const Tensor& t, const char* name) {
  if (t.num_elements() != 1) return errors::InvalidArgument(name, " must be a scalar, got shape ", t.shape());
  return t.data<float>()[0];
}

// Inputs: input, min_range, max_range.
class QuantizeKernel final : public OpKernel {
 public:
  explicit QuantizeKernel(KernelConstruction& c)
      : OpKernel(c), mode_(ReadMode(c)), half_to_even_(c.Attr<std::string>("round_mode") == "HALF_TO_EVEN") {
    if (half_to_even_ && mode_ != Mode::kScaled) {
      c.SetError(
          errors::InvalidArgument("Round mode 'HALF_TO_EVEN' only supported for mode 'SCALED', but mode is '",
                                  c.Attr<std::string>("mode"), "'."));
    }
  }
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    MR_ASSIGN_OR_RETURN(const float given_min, RangeEnd(context.input(1), "min_range"));
    MR_ASSIGN_OR_RETURN(const float given_max, RangeEnd(context.input(2), "max_range"));
    if (!(given_max >= given_min))
      return errors::InvalidArgument("input_max_range must be larger than input_min_range.");
    // The range includes 0 and is not too narrow.
    double min = std::min(0.0f, given_min);
    const double least = std::max({1.0f, std::fabs(given_min), std::fabs(given_max)}) / 100.0f;
    double max = std::max({static_cast<double>(given_max), min + least, 0.0});
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, in.shape()));
    MR_RETURN_IF_ERROR(VisitQuantized(context, out->dtype(), [&]<typename T>() {
      Run<T>(context, in, &min, &max, static_cast<T*>(out->raw_data()));
      return Status();
    }));
    for (const auto& [i, end] : {std::pair(1, min), {2, max}}) {
      MR_ASSIGN_OR_RETURN(Tensor * range, context.AllocateOutput(i, TensorShape()));
      *range->data<float>() = static_cast<float>(end);
    }
    return Status();
  }

 private:
  template <typename T>
  void Run(const KernelContext& context, const Tensor& in, double* min, double* max, T* out) const {
    double scale = (kHighest<T> - kLowest<T>) / (*max - *min), offset = 0;
    if (mode_ == Mode::kScaled) {
      const double largest = std::numeric_limits<float>::max();
      scale = std::min(kLowest<T> * *min > 0 ? kLowest<T> / *min : largest,
                       kHighest<T> * *max > 0 ? kHighest<T> / *max : largest);
      *min = kLowest<T> / scale;
      *max = kHighest<T> / scale;
    } else if (mode_ == Mode::kMinFirst) {
      offset = kLowest<T> - std::round(*min / StepOf<T>(*min, *max));
    }
    const bool combined = mode_ == Mode::kMinCombined;
    const Steps steps{.low = *min,
                      .high = *max,
                      .origin = combined ? *min : 0,
                      .scale = scale,
                      .before = combined ? kHalf<T> : 0,
                      .offset = offset};
    if (half_to_even_) {
      Map<true>(context, in, steps, out);
    } else {
      Map<false>(context, in, steps, out);
    }
  }

  // The integer for x, clamped to [low, high]: the nearest to (x - origin) * scale - before, plus
  // `offset`.
  struct Steps {
    double low, high, origin, scale, before, offset;
    bool IsFinite() const {
      return std::isfinite(low) && std::isfinite(high) && std::isfinite(scale) && std::isfinite(offset);
    }
    double At(float value) const {
      const auto x = static_cast<double>(value);
      const double above = x > low ? x : low;  // also for NaN
      return ((above < high ? above : high) - origin) * scale - before;
    }
  };

  template <bool kToEven, typename T>
  static void Map(const KernelContext& context, const Tensor& in, const Steps& steps, T* out) {
    const float* from = in.data<float>();
    const auto run = [&](auto element) {
      context.ParallelFor(in.num_elements(), 1, [&](int64_t begin, int64_t end) {
        MapLoop(from + begin, out + begin, end - begin, element);
      });
    };
    if constexpr (sizeof(T) <= 2) {
      // Integers of few bits, clamped to the range of T as integers.
      if (steps.IsFinite()) {
        return run([steps, offset = static_cast<int32_t>(steps.offset)](float value) MR_INLINE_LAMBDA {
          const double x = steps.At(value);
          constexpr int32_t kLeast = std::numeric_limits<T>::lowest(), kMost = std::numeric_limits<T>::max();
          const int32_t i = (kToEven ? quantized::RoundEven(x) : quantized::RoundAway(x)) + offset;
          const int32_t above = i > kLeast ? i : kLeast;
          return static_cast<T>(above < kMost ? above : kMost);
        });
      }
    }
    run([steps](float value) MR_INLINE_LAMBDA {
      const double x = steps.At(value);
      return Clamped<T>((kToEven ? std::nearbyint(x) : std::round(x)) + steps.offset);
    });
  }

  const Mode mode_;
  const bool half_to_even_;
};

class DequantizeKernel final : public OpKernel {
 public:
  explicit DequantizeKernel(KernelConstruction& c) : OpKernel(c), mode_(ReadMode(c)) {}
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    MR_ASSIGN_OR_RETURN(const float min, RangeEnd(context.input(1), "min_range"));
    MR_ASSIGN_OR_RETURN(const float max, RangeEnd(context.input(2), "max_range"));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, in.shape()));
    return VisitQuantized(context, in.dtype(), [&]<typename T>() {
      const auto low = static_cast<double>(min), high = static_cast<double>(max);
      double scale = (high - low) / (kHighest<T> - kLowest<T>), offset = low, before = kHalf<T>;
      if (mode_ == Mode::kScaled) {
        scale = std::is_signed_v<T> ? std::max(low / kLowest<T>, high / kHighest<T>) : high / kHighest<T>;
        offset = before = 0;
      } else if (mode_ == Mode::kMinFirst) {
        before = -kLowest<T>;
        offset = scale == 0 ? low : std::round(low / scale) * scale;
      }
      const T* from = static_cast<const T*>(in.raw_data());
      float* to = out->data<float>();
      context.ParallelFor(in.num_elements(), 1, [&](int64_t begin, int64_t end) {
        MapLoop(from + begin, to + begin, end - begin, [=](T value) MR_INLINE_LAMBDA {
          return static_cast<float>((static_cast<double>(value) + before) * scale + offset);
        });
      });
      return Status();
    });
  }

 private:
  const Mode mode_;
};

// Rounds to the steps of an integer type of any width. The range is given by attributes, by inputs, or by the
// values.
class RoundTripKernel final : public OpKernel {
 public:
  explicit RoundTripKernel(KernelConstruction& c)
      : OpKernel(c),
        signed_(c.Attr<bool>("signed_input")),
        range_given_(c.Attr<bool>("range_given")),
        narrow_(c.HasAttr("narrow_range") && c.Attr<bool>("narrow_range")),
        half_up_(c.HasAttr("round_mode") && c.Attr<std::string>("round_mode") == "HALF_UP"),
        bits_(c.HasAttr("num_bits") ? c.Attr<int64_t>("num_bits") : 0),
        min_(num_inputs() == 1 ? c.Attr<float>("input_min") : 0.0f),
        max_(num_inputs() == 1 ? c.Attr<float>("input_max") : 0.0f) {
    if (num_inputs() < 4) c.SetError(CheckBits(bits_));
  }
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    int64_t bits = bits_;
    if (num_inputs() == 4) {
      MR_RETURN_IF_ERROR(RequireScalar(context.input(3), "num_bits"));
      bits = IntValue(context.input(3));
      MR_RETURN_IF_ERROR(CheckBits(bits));
    }
    Tensor x = in, given_min, given_max;
    const bool wide = in.dtype() == DataType::kDouble;
    if (!wide) {
      MR_ASSIGN_OR_RETURN(x, ToFloat(context, in));
    }
    double min = static_cast<double>(min_), max = static_cast<double>(max_);
    if (range_given_ && num_inputs() > 1) {
      MR_ASSIGN_OR_RETURN(min, NumberOf(context, context.input(1), "input_min"));
      MR_ASSIGN_OR_RETURN(max, NumberOf(context, context.input(2), "input_max"));
    }
    if (range_given_ && !(min <= max))
      return errors::InvalidArgument("Invalid range: input_min ", min, " > input_max ", max);
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, in.shape()));
    if (out->num_elements() == 0) return Status();
    if (wide) {
      Run(context, x.data<double>(), bits, min, max, x.num_elements(), out->data<double>());
      return Status();
    }
    Tensor result = *out;
    if (in.dtype() != DataType::kFloat) {
      MR_ASSIGN_OR_RETURN(result, context.AllocateTemp(DataType::kFloat, in.shape()));
    }
    Run(context, x.data<float>(), bits, min, max, x.num_elements(), result.data<float>());
    if (in.dtype() != DataType::kFloat) FromFloat(context, result, out);
    return Status();
  }

 private:
  Status CheckBits(int64_t bits) const {
    if (bits > 0 && bits < (signed_ ? 62 : 63)) return Status();
    return errors::InvalidArgument("num_bits is out of range: ", bits, " with signed_input_ ", signed_);
  }
  static StatusOr<double> NumberOf(KernelContext& context, const Tensor& t, const char* name) {
    if (t.num_elements() != 1)
      return errors::InvalidArgument(name, " must be a scalar, got shape ", t.shape());
    if (t.dtype() == DataType::kDouble) return t.data<double>()[0];
    MR_ASSIGN_OR_RETURN(const Tensor f, ToFloat(context, t));
    return static_cast<double>(f.data<float>()[0]);
  }

  template <typename T>
  void Run(const KernelContext& context, const T* x, int64_t bits, double min, double max, int64_t n,
           T* out) const {
    if (!range_given_) {
      T low = x[0], high = x[0];
      RunLoop([&]() MR_INLINE_LAMBDA {
        T least = low, most = high;
        for (int64_t i = 1; i < n; ++i) {
          least = x[i] < least ? x[i] : least;
          most = most < x[i] ? x[i] : most;
        }
        low = least;
        high = most;
      });
      min = static_cast<double>(low);
      max = static_cast<double>(high);
    }
    const double steps = std::ldexp(1.0, static_cast<int>(signed_ ? bits - 1 : bits));
    const double lowest = signed_ ? (narrow_ ? 1 - steps : -steps) : 0.0, highest = steps - 1;
    // The side of the range that needs the larger steps determines them; 0 stays 0.
    const double largest = static_cast<double>(std::numeric_limits<T>::max());
    const double by_min = lowest * min > 0 ? lowest / min : largest;
    const double by_max = highest * max > 0 ? highest / max : largest;
    const double scale = std::min(by_min, by_max);
    const double step = by_min < by_max ? min / lowest : max / highest;
    if (by_min < by_max) {
      max = highest * step;
    } else {
      min = lowest * step;
    }
    const bool held = range_given_;
    const auto map = [&](auto integer) {
      const double low = min, high = max;
      const auto element = [=](T x_i) MR_INLINE_LAMBDA {
        const auto value = static_cast<double>(x_i);
        const double below = high < value ? high : value, inside = below < low ? low : below;  // NaN stays
        return static_cast<T>(integer((held ? inside : value) * scale) * step);
      };
      context.ParallelFor(
          n, 1, [&](int64_t begin, int64_t end) { MapLoop(x + begin, out + begin, end - begin, element); });
    };
    if (half_up_) return map([](double scaled) MR_INLINE_LAMBDA { return std::floor(scaled + 0.5); });
    map([](double scaled) MR_INLINE_LAMBDA { return std::nearbyint(scaled); });
  }

  const bool signed_, range_given_, narrow_, half_up_;
  const int64_t bits_;
  const float min_, max_;
};

}  // namespace

void RegisterQuantizedKernels(KernelRegistry& registry) {
  registry.Register<QuantizeKernel>(KernelDef("QuantizeV2"));
  registry.Register<DequantizeKernel>(KernelDef("Dequantize"));
  for (const char* version : {"", "V2", "V3"})
    registry.Register<RoundTripKernel>(
        KernelDef(StrCat("QuantizeAndDequantize", version)).Types("T", FloatTypes()));
}

}  // namespace millrace
