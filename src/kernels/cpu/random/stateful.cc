// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Random ops whose generator is a variable: the counter in two int64 elements, the key in the third.
#include <cmath>
#include <limits>

#include "kernels/cpu/random/binomial.h"
#include "kernels/cpu/random/util.h"
#include "kernels/cpu/state/variable_util.h"
#include "op/shape_inference.h"

namespace millrace {
namespace {

constexpr int64_t kPhilox = 1;  // the id of the algorithm
constexpr int64_t kStateSize = 3;

// Returns the position in the state, and advances the state by the numbers that `outputs` samples may need.
// `skipped` elements precede it.
StatusOr<PhiloxRandom> Advance(Tensor& state, int64_t skipped, uint64_t outputs) {
  int64_t* words = state.data<int64_t>() + skipped;
  const auto low = static_cast<uint64_t>(words[0]);
  PhiloxRandom now(static_cast<uint64_t>(words[2]), static_cast<uint64_t>(words[1]));
  now.Skip(low);
  PhiloxRandom next = now;
  next.Skip(outputs * 256);
  words[0] = static_cast<int64_t>(next.counter_lo());
  words[1] = static_cast<int64_t>(next.counter_hi());
  return now;
}

Status CheckState(const Tensor& state, int64_t skipped) {
  if (state.rank() != 1) {
    return errors::InvalidArgument("RNG state must have one and only one dimension, not ", state.rank());
  }
  if (state.num_elements() < skipped + kStateSize) {
    return errors::InvalidArgument("For the Philox algorithm, the size of state must be at least ",
                                   skipped + kStateSize, "; got ", state.num_elements());
  }
  return Status();
}

// Runs use(position) for `outputs` samples of the generator in input 0. The algorithm is in input 1, or,
// before the state, in the variable.
Status WithGenerator(KernelContext& context, bool algorithm_in_state, uint64_t outputs,
                     FunctionRef<Status(const PhiloxRandom&)> use) {
  if (!algorithm_in_state && !context.input(1).shape().IsScalar()) {
    return errors::InvalidArgument("algorithm must be of shape [], not ", context.input(1).shape());
  }
  PhiloxRandom position;
  const auto advance = [&](Tensor& state) -> Status {
    const int64_t skipped = algorithm_in_state ? 1 : 0;
    MR_RETURN_IF_ERROR(CheckState(state, skipped));
    const int64_t algorithm = algorithm_in_state ? state.data<int64_t>()[0] : IntValue(context.input(1));
    if (algorithm != kPhilox) return errors::InvalidArgument("Unsupported algorithm id: ", algorithm);
    MR_RETURN_IF_ERROR(MakeWritable(context, state));
    MR_ASSIGN_OR_RETURN(position, Advance(state, skipped, outputs));
    return Status();
  };
  MR_RETURN_IF_ERROR(UpdateResource(context, 0, DataType::kInt64, advance));
  return use(position);
}

class StatefulKernel final : public OpKernel {
 public:
  StatefulKernel(KernelConstruction& c, FillFn fill, int64_t cost_ns)
      : OpKernel(c), fill_(fill), cost_ns_(cost_ns) {}
  Status Compute(KernelContext& context) override {
    const bool algorithm_in_state = num_inputs() == 2;
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ReadShape(context.input(num_inputs() - 1)));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    return WithGenerator(
        context, algorithm_in_state, static_cast<uint64_t>(shape.num_elements()),
        [&](const PhiloxRandom& base) { return FillRandom(context, base, *out, cost_ns_, fill_); });
  }

 private:
  const FillFn fill_;
  const int64_t cost_ns_;
};

class StatefulUniformIntKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ReadShape(context.input(2)));
    const int64_t n = shape.num_elements();
    MR_ASSIGN_OR_RETURN(const IntegerBounds bounds, ReadBounds(context.input(3), context.input(4), n));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    return WithGenerator(context, false, static_cast<uint64_t>(n), [&](const PhiloxRandom& base) {
      return n == 0 ? Status() : FillRandomIntegers(context, base, bounds.low, bounds.high, *out);
    });
  }
};

// Converts a sample to an element: for integers, NaN becomes 0, and values out of range the largest one.
template <typename Out>
Out SampleAs(double x) {
  if constexpr (std::is_integral_v<Out>) {
    if (std::isnan(x)) return 0;
    constexpr Out kHighest = std::numeric_limits<Out>::max();
    return x >= static_cast<double>(kHighest) ? kHighest : static_cast<Out>(x);
  } else if constexpr (kIsSmallFloat<Out>) {
    return Out(static_cast<float>(x));
  } else {
    return static_cast<Out>(x);
  }
}

// counts and probs broadcast against each other; their shape is a suffix of that of the samples.
class StatefulBinomialKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& counts = context.input(3);
    const Tensor& probs = context.input(4);
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ReadShape(context.input(2)));
    const auto each = BroadcastShapes(counts.shape(), probs.shape());
    if (!each.ok()) {
      return errors::InvalidArgument(
          "counts and probs must have compatible batch dimensions: ", counts.shape(), " vs. ", probs.shape());
    }
    const int before = shape.rank() - each->rank();
    if (before < 0 ||
        !std::ranges::equal(std::span(shape.dims()).subspan(static_cast<size_t>(before)), each->dims())) {
      return errors::InvalidArgument("Shape passed in must end with broadcasted shape.");
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    if (shape.num_elements() == 0) return Status();
    const Parameters parameters{&counts, &probs, BroadcastStrides(counts.shape().dims(), shape.dims()),
                                BroadcastStrides(probs.shape().dims(), shape.dims())};
    return WithGenerator(context, false, static_cast<uint64_t>(shape.num_elements()),
                         [&](const PhiloxRandom& base) {
                           context.ParallelFor(shape.num_elements(), 500, [&](int64_t begin, int64_t end) {
                             VisitReal(out->dtype(), 0, [&]<typename Out>() {
                               for (int64_t i = begin; i < end; ++i) {
                                 PhiloxRandom at = base;
                                 at.Skip(static_cast<uint64_t>(i) * 256);
                                 const auto [count, probability] = parameters.At(shape, i);
                                 out->data<Out>()[i] = SampleAs<Out>(SampleBinomial(count, probability, at));
                               }
                               return 0;
                             });
                           });
                           return Status();
                         });
  }

 private:
  struct Parameters {
    const Tensor* counts;
    const Tensor* probs;
    Dims count_strides, prob_strides;

    std::pair<double, double> At(const TensorShape& shape, int64_t flat) const {
      int64_t count = 0, prob = 0;
      for (int d = shape.rank() - 1; d >= 0; --d) {
        const int64_t i = flat % shape.dim(d);
        flat /= shape.dim(d);
        count += i * count_strides[static_cast<size_t>(d)];
        prob += i * prob_strides[static_cast<size_t>(d)];
      }
      return {ValueOf(*counts, count), ValueOf(*probs, prob)};
    }
    static double ValueOf(const Tensor& t, int64_t i) {
      return VisitReal(t.dtype(), 0.0, [&]<typename T>() -> double {
        if constexpr (kIsSmallFloat<T>) {
          return static_cast<float>(t.data<T>()[i]);
        } else {
          return static_cast<double>(t.data<T>()[i]);
        }
      });
    }
  };
};

// All bits of the integers are random.
void FillBits(const PhiloxRandom& base, DataType type, void* out, int64_t begin, int64_t end) {
  const int64_t words = ElementSize(type) == 8 ? 2 : 1;
  auto* to = static_cast<uint32_t*>(out);
  for (int64_t i = begin * words; i < end * words;) {
    PhiloxRandom at = base;
    at.Skip(static_cast<uint64_t>(i / 4));
    const PhiloxRandom::Block x = at();
    do {
      to[i] = x[i % 4];  // little-endian: the first word is the lower half
    } while (++i % 4 != 0 && i < end * words);
  }
}

class NonDeterministicIntsKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ReadShape(context.input(0)));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    return FillRandom(context, PhiloxRandom(RandomSeed64(), RandomSeed64()), *out, 2, FillBits);
  }
};

class RngSkipKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    if (!context.input(2).shape().IsScalar()) {
      return errors::InvalidArgument("delta must be of shape [], not ", context.input(2).shape());
    }
    return WithGenerator(context, false, static_cast<uint64_t>(IntValue(context.input(2))),
                         [](const PhiloxRandom&) { return Status(); });
  }
};

}  // namespace

void RegisterStatefulRandomKernels(KernelRegistry& registry) {
  const auto add = [&](const char* op, const TypeList& types, FillFn fill, int64_t cost_ns) {
    registry.Register(KernelDef(op).Types("dtype", types).Types("shape_dtype", IndexTypes()),
                      [fill, cost_ns](KernelConstruction& c) {
                        return std::make_unique<StatefulKernel>(c, fill, cost_ns);
                      });
  };
  const TypeList integers = {DataType::kInt32, DataType::kInt64, DataType::kUint32, DataType::kUint64};
  add("StatefulUniform", FloatTypes(), cpu::FillRandomUniform, 2);
  add("StatefulStandardNormal", FloatTypes(), cpu::FillRandomNormal, 12);
  add("StatefulStandardNormalV2", FloatTypes(), cpu::FillRandomNormal, 12);
  add("StatefulTruncatedNormal", FloatTypes(), cpu::FillTruncatedNormal, 30);
  add("StatefulUniformFullInt", integers, FillBits, 2);
  registry.Register<StatefulUniformIntKernel>(
      KernelDef("StatefulUniformInt").Types("dtype", IndexTypes()).Types("shape_dtype", IndexTypes()));
  const TypeList numbers = {DataType::kHalf, DataType::kFloat, DataType::kDouble, DataType::kInt32,
                            DataType::kInt64};
  registry.Register<StatefulBinomialKernel>(KernelDef("StatefulRandomBinomial")
                                                .Types("S", IndexTypes())
                                                .Types("T", numbers)
                                                .Types("dtype", numbers));
  registry.Register<NonDeterministicIntsKernel>(
      KernelDef("NonDeterministicInts").Types("dtype", integers).Types("shape_dtype", IndexTypes()));
  registry.Register<RngSkipKernel>(KernelDef("RngSkip"));
}

}  // namespace millrace
