// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Normal numbers between bounds: Robert: "Simulation of truncated normal variables". The stream of a batch
// begins where that of the previous one ends, as in TensorFlow on one thread.
#include <cmath>

#include "base/random/philox_stream.h"
#include "kernels/cpu/random/util.h"

namespace millrace {
namespace {

constexpr int kMaxTries = 1000;
// The size of batches if all have the same parameters: the reserved part of the stream depends on it.
constexpr int64_t kBatch = 100;
// With bounds at least this far from the mean in deviations, normal numbers are drawn and rejected.
constexpr double kFarBound = 1.3;

struct Parameters {
  double mean, deviation, low, high;
};

// Half is computed in float, and rounded at the end.
template <typename T>
class BatchSampler {
 public:
  using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
  BatchSampler(PhiloxRandom generator, const CancellationManager& cancellation, T* out)
      : generator_(generator), cancellation_(cancellation), out_(out) {}

  Status Sample(const Parameters& p, int64_t begin, int64_t end) {
    C mean = static_cast<C>(p.mean), deviation = static_cast<C>(p.deviation);
    C low = static_cast<C>(p.low), high = static_cast<C>(p.high);
    if (!(deviation > 0 && low < high && (std::isfinite(low) || std::isfinite(high)))) {
      return errors::InvalidArgument("Invalid parameters");
    }
    // The bounds are mirrored, so that only the upper one may be infinite, or below the mean.
    if ((std::isinf(low) && low < 0) || high < mean) {
      std::swap(low, high);
      deviation = -deviation;
    }
    mean_ = mean;
    deviation_ = deviation;
    low_ = (low - mean) / deviation;
    high_ = (high - mean) / deviation;
    at_ = begin;
    end_ = end;
    const C root = std::sqrt(low_ * low_ + 4);
    const C cutoff = 2 * std::exp(C(0.5) + low_ * (low_ - root) / 4) / (low_ + root);
    if ((low_ < -kFarBound && high_ >= 0) || (high_ > kFarBound && low_ <= 0)) return FromNormal();
    return high_ - low_ < cutoff ? FromUniform() : FromExponential();
  }

 private:
  // The uniform or normal numbers of one block.
  size_t Uniforms(C* x) {
    const PhiloxRandom::Block bits = generator_();
    if constexpr (std::is_same_v<T, double>) {
      x[0] = UnitDouble(bits[0], bits[1]);
      x[1] = UnitDouble(bits[2], bits[3]);
      return 2;
    } else {
      for (size_t i = 0; i < 4; ++i) {
        x[i] = std::is_same_v<T, half> ? static_cast<float>(bits[i] & 0x3ffu) * 0x1p-10f : UnitFloat(bits[i]);
      }
      return 4;
    }
  }
  size_t Normals(C* x) {
    const PhiloxRandom::Block bits = generator_();
    if constexpr (std::is_same_v<T, double>) {
      const auto pair = NormalDoubles(bits[0], bits[1], bits[2], bits[3]);
      std::copy(pair.begin(), pair.end(), x);
      return 2;
    } else {
      const auto a = NormalFloats(bits[0], bits[1]), b = NormalFloats(bits[2], bits[3]);
      for (size_t i = 0; i < 4; ++i) x[i] = i < 2 ? a[i] : b[i - 2];
      return 4;
    }
  }
  // True if the batch is complete.
  bool Put(C z) {
    out_[at_++] = static_cast<T>(z * deviation_ + mean_);
    tries_ = 0;
    return at_ == end_;
  }
  // A batch may be of any size, and take a thousand tries per sample.
  Status CheckCancelled() const {
    if (!cancellation_.IsCancelled()) [[likely]]
      return Status();
    return errors::Cancelled("The step was cancelled while normals were drawn");
  }
  Status Failed(const char* kind) const {
    return errors::Internal("TruncatedNormal ", kind, " rejection sampler failed to accept a sample.");
  }

  Status FromNormal() {
    for (tries_ = 0; at_ < end_;) {
      MR_RETURN_IF_ERROR(CheckCancelled());
      C x[4];
      const size_t n = Normals(x);
      for (size_t i = 0; i < n; ++i) {
        if (x[i] >= low_ && x[i] <= high_) {
          if (Put(x[i])) break;
        } else if (++tries_ > kMaxTries) {
          return Failed("randn");
        }
      }
    }
    return Status();
  }
  Status FromUniform() {
    const C most = low_ < 0 ? C(0) : low_ * low_;
    for (tries_ = 0; at_ < end_;) {
      MR_RETURN_IF_ERROR(CheckCancelled());
      C z[4], u[4];
      const size_t n = Uniforms(z);
      for (size_t i = 0; i < n; ++i) z[i] = z[i] * (high_ - low_) + low_;
      Uniforms(u);
      for (size_t i = 0; i < n; ++i) {
        if (u[i] <= std::exp((most - z[i] * z[i]) / 2)) {
          if (Put(z[i])) break;
        } else if (++tries_ >= kMaxTries) {
          return Failed("uniform");
        }
      }
    }
    return Status();
  }
  Status FromExponential() {
    const C alpha = (low_ + std::sqrt(low_ * low_ + 4)) / 2;
    for (tries_ = 0; at_ < end_;) {
      MR_RETURN_IF_ERROR(CheckCancelled());
      C x[4];
      const size_t n = Uniforms(x);
      for (size_t i = 0; i < n; i += 2) {
        const C z = -std::log(x[i]) / alpha + low_;
        const C distance = low_ < alpha ? alpha - z : low_ - alpha;
        if (x[i + 1] <= std::exp(-distance * distance / 2) && z < high_) {
          if (Put(z)) break;
        } else if (++tries_ >= kMaxTries) {
          return Failed("exponential distribution");
        }
      }
    }
    return Status();
  }

  PhiloxRandom generator_;
  const CancellationManager& cancellation_;
  T* const out_;
  C mean_ = 0, deviation_ = 1, low_ = 0, high_ = 0;
  int64_t at_ = 0, end_ = 0;
  int tries_ = 0;
};

class ParameterizedTruncatedNormalKernel final : public OpKernel {
 public:
  explicit ParameterizedTruncatedNormalKernel(KernelConstruction& c)
      : OpKernel(c), generator_(c.Attr<int64_t>("seed"), c.Attr<int64_t>("seed2")) {}
  Status Compute(KernelContext& context) override {
    if (!context.input(0).shape().IsVector()) {
      return errors::InvalidArgument("Input shape should be a vector, got shape: ", context.input(0).shape());
    }
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ReadShape(context.input(0)));
    if (shape.rank() < 1) {
      return errors::InvalidArgument("Shape tensor must not be empty, got shape ", context.input(0).shape());
    }
    bool common = true;
    for (int i = 1; i <= 4; ++i) {
      const Tensor& t = context.input(i);
      if (t.rank() > 1) {
        return errors::InvalidArgument("Input ", kNames[i - 1],
                                       " should be a scalar or vector, got shape: ", t.shape());
      }
      common = common && t.num_elements() == 1;
    }
    for (int i = 1; i <= 4 && !common; ++i) {
      const Tensor& t = context.input(i);
      if (t.num_elements() != 1 && t.num_elements() != shape.dim(0)) {
        return errors::InvalidArgument("Input ", kNames[i - 1],
                                       " should have length 1 or shape[0], got shape: ", t.shape());
      }
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    const int64_t n = shape.num_elements();
    if (n == 0) return Status();
    const int64_t batch = common ? kBatch : n / shape.dim(0);
    const auto batches = static_cast<uint64_t>((n + batch - 1) / batch);
    const PhiloxRandom base =
        generator_.ReserveBlocks(batches * 2 * kMaxTries * static_cast<uint64_t>(batch + 3) / 4);
    return VisitReal(out->dtype(), NoSuchType(context, out->dtype()), [&]<typename T>() {
      if constexpr (std::is_integral_v<T>) {
        return NoSuchType(context, out->dtype());
      } else {
        return Fill<T>(context, base, batch, *out);
      }
    });
  }

 private:
  static constexpr const char* kNames[] = {"means", "stddevs", "minvals", "maxvals"};

  template <typename T>
  static Status Fill(const KernelContext& context, const PhiloxRandom& base, int64_t batch, Tensor& out) {
    const auto parameter = [&](int i, int64_t b) {
      const Tensor& t = context.input(i);
      return static_cast<double>(static_cast<ComputeType<T>>(t.data<T>()[t.num_elements() == 1 ? 0 : b]));
    };
    BatchSampler<T> sampler(base, context.cancellation(), out.data<T>());
    const int64_t n = out.num_elements();
    for (int64_t b = 0; b * batch < n; ++b) {
      const Parameters p{parameter(1, b), parameter(2, b), parameter(3, b), parameter(4, b)};
      MR_RETURN_IF_ERROR(sampler.Sample(p, b * batch, std::min(n, (b + 1) * batch)));
    }
    return Status();
  }

  GuardedPhilox generator_;
};

}  // namespace

void RegisterTruncatedNormalKernels(KernelRegistry& registry) {
  registry.Register<ParameterizedTruncatedNormalKernel>(
      KernelDef("ParameterizedTruncatedNormal").Types("dtype", FloatTypes()));
}

}  // namespace millrace
