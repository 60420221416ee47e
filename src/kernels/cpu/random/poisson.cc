// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Samples of Poisson distributions: Knuth's method for small rates, Hormann's "The transformed rejection
// method for generating Poisson random variables" for the others.
#include <cmath>
#include <limits>

#include "kernels/cpu/random/util.h"

namespace millrace {
namespace {

constexpr int64_t kBlocksPerSample = 256;
// The sample after this number of rejections is accepted, so that every rate takes bounded time.
constexpr int kMaxTries = 1000;

double SampleSmall(double rate, double highest, PhiloxRandom& generator) {
  const double end = std::exp(-rate);
  UniformPairs uniform;
  double product = 1, x = 0;
  for (;; x += 1) {
    product *= uniform.Next(generator);
    if (product <= end && x <= highest) return x;
  }
}

double SampleLarge(double rate, double highest, PhiloxRandom& generator) {
  const double log_rate = std::log(rate);
  const double b = 0.931 + 2.53 * std::sqrt(rate);
  const double a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
  UniformPairs uniform;
  for (int i = 0; i < kMaxTries; ++i) {
    const double u = uniform.Next(generator) - 0.5;
    const double v = uniform.Next(generator);
    const double shifted = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / shifted + b) * u + rate + 0.43);
    if (k > highest) continue;
    if (shifted >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2)) return k;
    if (k < 0 || (shifted < 0.013 && v > shifted)) continue;
    const double s = std::log(v * inverse_alpha / (a / (shifted * shifted) + b));
    int sign = 0;
    if (s <= -rate + k * log_rate - lgamma_r(k + 1, &sign)) return k;
  }
  return std::min(rate, highest);
}

template <typename Out>
double Highest() {
  if constexpr (std::is_same_v<Out, half>) {
    return 65504;
  } else {
    return static_cast<double>(std::numeric_limits<Out>::max());
  }
}

template <typename Out>
Out Sample(double rate, PhiloxRandom generator) {
  constexpr bool kIsFloat = kIsSmallFloat<Out> || std::is_floating_point_v<Out>;
  if (std::isnan(rate)) return Out(kIsFloat ? std::numeric_limits<float>::quiet_NaN() : 0.0f);
  const double highest = Highest<Out>();
  if (rate == HUGE_VAL) {
    return kIsFloat ? Out(std::numeric_limits<float>::infinity()) : std::numeric_limits<Out>::max();
  }
  const double x = rate < 10 ? SampleSmall(rate, highest, generator) : SampleLarge(rate, highest, generator);
  // The largest integers would round up to a value out of range.
  if (std::is_integral_v<Out> && x >= highest) return std::numeric_limits<Out>::max();
  return static_cast<Out>(static_cast<std::conditional_t<kIsSmallFloat<Out>, float, double>>(x));
}

class RandomPoissonKernel final : public OpKernel {
 public:
  explicit RandomPoissonKernel(KernelConstruction& c)
      : OpKernel(c), generator_(c.Attr<int64_t>("seed"), c.Attr<int64_t>("seed2")) {}
  Status Compute(KernelContext& context) override {
    const Tensor& rate = context.input(1);
    MR_ASSIGN_OR_RETURN(const TensorShape samples, ReadShape(context.input(0)));
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeOfSamples(samples, rate.shape()));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    if (shape.num_elements() == 0) return Status();
    const PhiloxRandom base = generator_.Reserve(shape.num_elements(), kBlocksPerSample);
    const std::vector<double> rates = Widen(rate);
    return VisitReal(out->dtype(), NoSuchType(context, out->dtype()), [&]<typename T>() {
      if constexpr (std::is_same_v<T, bfloat16>) {
        return NoSuchType(context, out->dtype());
      } else {
        Fill(context, rates, samples.num_elements(), base, out->data<T>());
        return Status();
      }
    });
  }

 private:
  static std::vector<double> Widen(const Tensor& t) {
    std::vector<double> values(static_cast<size_t>(t.num_elements()));
    VisitReal(t.dtype(), false, [&]<typename T>() {
      for (size_t i = 0; i < values.size(); ++i) {
        const T x = t.data<T>()[i];
        if constexpr (kIsSmallFloat<T>) {
          values[i] = float(x);
        } else {
          values[i] = static_cast<double>(x);
        }
      }
      return true;
    });
    return values;
  }

  template <typename T>
  static void Fill(const KernelContext& context, const std::vector<double>& rates, int64_t per_rate,
                   const PhiloxRandom& base, T* out) {
    const auto count = static_cast<int64_t>(rates.size());
    context.ParallelFor(per_rate * count, 200, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        PhiloxRandom at = base;
        at.Skip(static_cast<uint64_t>(kBlocksPerSample) * static_cast<uint64_t>(i));
        const int64_t which = i / per_rate;
        out[i % per_rate * count + which] = Sample<T>(rates[which], at);
      }
    });
  }

  GuardedPhilox generator_;
};

}  // namespace

void RegisterRandomPoissonKernels(KernelRegistry& registry) {
  const TypeList floats = {DataType::kHalf, DataType::kFloat, DataType::kDouble};
  const TypeList all = Concat(floats, IndexTypes());
  registry.Register<RandomPoissonKernel>(KernelDef("RandomPoisson").Types("dtype", floats));
  registry.Register<RandomPoissonKernel>(KernelDef("RandomPoissonV2").Types("R", all).Types("dtype", all));
}

}  // namespace millrace
