// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Samples of gamma distributions: Marsaglia, Tsang: "A Simple Method for Generating Gamma Variables".
#include <cmath>

#include "base/random/philox_stream.h"
#include "kernels/cpu/random/util.h"

namespace millrace {

double UniformPairs::Next(PhiloxRandom& generator) {
  if (left_ == 0) {
    const PhiloxRandom::Block x = generator();
    values_[0] = UnitDouble(x[0], x[1]);
    values_[1] = UnitDouble(x[2], x[3]);
    left_ = 2;
  }
  return values_[--left_];
}

namespace {

// The number of blocks of the generator that are reserved for each sample.
constexpr int64_t kBlocksPerSample = 256;

double SampleGamma(double alpha, PhiloxRandom generator) {
  UniformPairs uniform;
  if (alpha == 1) return -std::log(1 - uniform.Next(generator));
  const bool small = alpha < 1;  // a sample of alpha + 1 is scaled then
  const double d = alpha + (small ? 2.0 / 3 : -1.0 / 3);
  const double c = 1.0 / 3 / std::sqrt(d);
  std::array<double, 2> normals{};
  for (int left = 0;;) {
    if (left == 0) {
      const PhiloxRandom::Block x = generator();
      normals = NormalDoubles(x[0], x[1], x[2], x[3]);
      left = 2;
    }
    const double x = normals[--left];
    double v = 1 + c * x;
    if (v <= 0) continue;
    v = v * v * v;
    const double u = uniform.Next(generator);
    if (u < 1 - 0.0331 * (x * x) * (x * x) || std::log(u) < 0.5 * x * x + d * (1 - v + std::log(v))) {
      const double sample = d * v;
      return small ? sample * std::pow(uniform.Next(generator), 1 / alpha) : sample;
    }
  }
}

class RandomGammaKernel final : public OpKernel {
 public:
  explicit RandomGammaKernel(KernelConstruction& c)
      : OpKernel(c), generator_(c.Attr<int64_t>("seed"), c.Attr<int64_t>("seed2")) {}
  Status Compute(KernelContext& context) override {
    const Tensor& alpha = context.input(1);
    MR_ASSIGN_OR_RETURN(const TensorShape samples, ReadShape(context.input(0)));
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeOfSamples(samples, alpha.shape()));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    const int64_t n = shape.num_elements();
    if (n == 0) return Status();
    const int64_t per_alpha = samples.num_elements(), alphas = alpha.num_elements();
    const PhiloxRandom base = generator_.Reserve(n, kBlocksPerSample);
    return VisitReal(alpha.dtype(), NoSuchType(context, alpha.dtype()), [&]<typename T>() {
      context.ParallelFor(n, 100, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          // All samples of one alpha, then those of the next.
          const int64_t which = i / per_alpha, sample = i % per_alpha;
          PhiloxRandom at = base;
          at.Skip(static_cast<uint64_t>(kBlocksPerSample) * static_cast<uint64_t>(i));
          const auto a = static_cast<double>(static_cast<ComputeType<T>>(alpha.data<T>()[which]));
          out->data<T>()[sample * alphas + which] =
              static_cast<T>(static_cast<ComputeType<T>>(SampleGamma(a, at)));
        }
      });
      return Status();
    });
  }

 private:
  GuardedPhilox generator_;
};

}  // namespace

void RegisterRandomGammaKernels(KernelRegistry& registry) {
  registry.Register<RandomGammaKernel>(
      KernelDef("RandomGamma").Types("T", {DataType::kHalf, DataType::kFloat, DataType::kDouble}));
}

}  // namespace millrace
