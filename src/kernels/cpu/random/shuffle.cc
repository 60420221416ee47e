// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// RandomShuffle and Multinomial.
#include <cmath>
#include <numeric>

#include "base/random/philox_stream.h"
#include "kernels/cpu/random/util.h"
#include "kernels/cpu/rows.h"

namespace millrace {
namespace {

class RandomShuffleKernel final : public OpKernel {
 public:
  explicit RandomShuffleKernel(KernelConstruction& c)
      : OpKernel(c), generator_(c.Attr<int64_t>("seed"), c.Attr<int64_t>("seed2")) {}
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    if (in.num_elements() <= 1 || in.dim(0) <= 1) {
      context.set_output(0, context.TakeInput(0));
      return Status();
    }
    const int64_t rows = in.dim(0);
    if (rows > UINT32_MAX) return errors::ResourceExhausted("Too many rows to shuffle: ", rows);
    MR_ASSIGN_OR_RETURN(Tensor places, context.AllocateTemp(DataType::kInt64, TensorShape({rows})));
    const std::span<int64_t> order(places.data<int64_t>(), static_cast<size_t>(rows));
    PhiloxStream stream(generator_.ReserveBlocks(static_cast<uint64_t>(rows + 2) / 4));
    std::iota(order.begin(), order.end(), 0);
    for (int64_t i = 0; i + 1 < rows; ++i) {
      std::swap(order[static_cast<size_t>(i)],
                order[static_cast<size_t>(i) + stream.Next32() % static_cast<uint32_t>(rows - i)]);
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, in.shape()));
    TakeRows(in.dtype(), in.raw_data(), order, in.num_elements() / rows, out->raw_data());
    return Status();
  }

 private:
  GuardedPhilox generator_;
};

// Samples of each row of logits; the stream of a row continues where that of the previous one ends.
template <typename T>
class RowSampler {
 public:
  RowSampler(const T* logits, int64_t classes) : logits_(logits), sums_(static_cast<size_t>(classes)) {}

  template <typename Out>
  void Sample(int64_t row, PhiloxStream& stream, int64_t samples, Out* out) {
    const double total = Accumulate(row);
    for (int64_t i = 0; i < samples; ++i) {
      const auto found = std::upper_bound(sums_.begin(), sums_.end(), stream.NextDouble() * total);
      out[row * samples + i] = static_cast<Out>(found - sums_.begin());
    }
  }

 private:
  // Logits that are not finite have probability 0. The sums are those of e^(logit - largest).
  double Accumulate(int64_t row) {
    const T* logits = logits_ + row * static_cast<int64_t>(sums_.size());
    double max = -HUGE_VAL, total = 0;
    const auto value = [&](size_t i) { return static_cast<double>(static_cast<ComputeType<T>>(logits[i])); };
    for (size_t i = 0; i < sums_.size(); ++i) {
      if (std::isfinite(value(i))) max = std::max(max, value(i));
    }
    for (size_t i = 0; i < sums_.size(); ++i) {
      if (std::isfinite(value(i))) total += std::exp(value(i) - max);
      sums_[i] = total;
    }
    return total;
  }

  const T* logits_;
  std::vector<double> sums_;
};

Status CheckMultinomial(const Tensor& logits, const Tensor& num_samples) {
  if (logits.rank() != 2)
    return errors::InvalidArgument("logits should be a matrix, got shape ", logits.shape());
  if (!num_samples.shape().IsScalar()) {
    return errors::InvalidArgument("num_samples should be a scalar, got shape ", num_samples.shape());
  }
  if (IntValue(num_samples) < 0) {
    return errors::InvalidArgument("num_samples should be nonnegative, got ", IntValue(num_samples));
  }
  if (logits.dim(0) > INT32_MAX || logits.dim(1) > INT32_MAX) {
    return errors::InvalidArgument("logits.shape = ", logits.shape(), " too large for int");
  }
  if (logits.dim(1) <= 0) {
    return errors::InvalidArgument("num_classes should be positive, got ", logits.dim(1));
  }
  return Status();
}

Status Multinomial(KernelContext& context, const PhiloxRandom& base) {
  const Tensor& logits = context.input(0);
  const int64_t rows = logits.dim(0), classes = logits.dim(1), samples = IntValue(context.input(1));
  MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeFromValues(Dims{rows, samples}));
  MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
  if (out->num_elements() == 0) return Status();
  return VisitReal(logits.dtype(), NoSuchType(context, logits.dtype()), [&]<typename T>() {
    const int64_t cost = 15 * classes + 30 * samples;
    context.ParallelFor(rows, cost, [&](int64_t begin, int64_t end) {
      RowSampler<T> sampler(logits.data<T>(), classes);
      // A sample uses one double, which takes two words.
      PhiloxStream stream(base, static_cast<uint64_t>(begin) * static_cast<uint64_t>(samples) * 2);
      for (int64_t row = begin; row < end; ++row) {
        if (out->dtype() == DataType::kInt32) {
          sampler.Sample(row, stream, samples, out->data<int32_t>());
        } else {
          sampler.Sample(row, stream, samples, out->data<int64_t>());
        }
      }
    });
    return Status();
  });
}

class MultinomialKernel final : public OpKernel {
 public:
  explicit MultinomialKernel(KernelConstruction& c)
      : OpKernel(c), generator_(c.Attr<int64_t>("seed"), c.Attr<int64_t>("seed2")) {}
  Status Compute(KernelContext& context) override {
    MR_RETURN_IF_ERROR(CheckMultinomial(context.input(0), context.input(1)));
    const int64_t words = (IntValue(context.input(1)) + 3) / 4 * 4 * 2;
    return Multinomial(context, generator_.Reserve(context.input(0).dim(0) * words));
  }

 private:
  GuardedPhilox generator_;
};

class StatelessMultinomialKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const PhiloxRandom base, ReadSeeds(context.input(2)));
    MR_RETURN_IF_ERROR(CheckMultinomial(context.input(0), context.input(1)));
    return Multinomial(context, base);
  }
};

}  // namespace

void RegisterRandomShuffleKernels(KernelRegistry& registry) {
  registry.Register<RandomShuffleKernel>(KernelDef("RandomShuffle"));
  registry.Register<MultinomialKernel>(
      KernelDef("Multinomial").Types("T", RealTypes()).Types("output_dtype", IndexTypes()));
  registry.Register<StatelessMultinomialKernel>(
      KernelDef("StatelessMultinomial").Types("T", RealTypes()).Types("output_dtype", IndexTypes()));
}

}  // namespace millrace
