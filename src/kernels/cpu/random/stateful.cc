// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Random ops whose generator is a variable: the counter in two int64 elements, the key in the third.
#include "kernels/cpu/random/util.h"
#include "kernels/cpu/state/variable_util.h"

namespace millrace {
namespace {

constexpr int64_t kPhilox = 1;  // the number of the algorithm
constexpr int64_t kStateSize = 3;

// The position that the state says; the state moves on by what `outputs` samples may need. `skipped` elements
// come before it.
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

// Runs use(position) for so many samples of the generator in input 0. The algorithm is in input 1, or, before
// the state, in the variable.
Status WithGenerator(KernelContext& context, bool algorithm_in_state, uint64_t outputs,
                     FunctionRef<void(const PhiloxRandom&)> use) {
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
  use(position);
  return Status();
}

class StatefulKernel final : public OpKernel {
 public:
  StatefulKernel(KernelConstruction& c, FillFn fill, int64_t cost_ns)
      : OpKernel(c), fill_(fill), cost_ns_(cost_ns) {}
  Status Compute(KernelContext& context) override {
    const bool algorithm_in_state = num_inputs() == 2;
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ReadShape(context.input(num_inputs() - 1)));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    return WithGenerator(context, algorithm_in_state, static_cast<uint64_t>(shape.num_elements()),
                         [&](const PhiloxRandom& base) { FillRandom(context, base, *out, cost_ns_, fill_); });
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
      if (n > 0) FillRandomIntegers(context, base, bounds.low, bounds.high, *out);
    });
  }
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
    FillRandom(context, PhiloxRandom(RandomSeed64(), RandomSeed64()), *out, 2, FillBits);
    return Status();
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
                         [](const PhiloxRandom&) {});
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
  registry.Register<NonDeterministicIntsKernel>(
      KernelDef("NonDeterministicInts").Types("dtype", integers).Types("shape_dtype", IndexTypes()));
  registry.Register<RngSkipKernel>(KernelDef("RngSkip"));
}

}  // namespace millrace
