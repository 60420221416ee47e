// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Random ops that are functions of their seeds.
#include "base/random/philox_stream.h"
#include "kernels/cpu/random/util.h"

namespace millrace {

StatusOr<PhiloxRandom> ReadSeeds(const Tensor& seeds) {
  if (!seeds.shape().IsVector() || seeds.num_elements() != 2) {
    return errors::InvalidArgument("seed must have shape [2], not ", seeds.shape());
  }
  return PhiloxOfSeeds(static_cast<uint64_t>(IntValue(seeds, 0)), static_cast<uint64_t>(IntValue(seeds, 1)));
}

namespace {

class StatelessKernel final : public OpKernel {
 public:
  StatelessKernel(KernelConstruction& c, FillFn fill, int64_t cost_ns)
      : OpKernel(c), fill_(fill), cost_ns_(cost_ns) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ReadShape(context.input(0)));
    MR_ASSIGN_OR_RETURN(const PhiloxRandom base, ReadSeeds(context.input(1)));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    return FillRandom(context, base, *out, cost_ns_, fill_);
  }

 private:
  const FillFn fill_;
  const int64_t cost_ns_;
};

class StatelessUniformIntKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ReadShape(context.input(0)));
    MR_ASSIGN_OR_RETURN(const PhiloxRandom base, ReadSeeds(context.input(1)));
    const int64_t n = shape.num_elements();
    MR_ASSIGN_OR_RETURN(const IntegerBounds bounds, ReadBounds(context.input(2), context.input(3), n));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    return n == 0 ? Status() : FillRandomIntegers(context, base, bounds.low, bounds.high, *out);
  }
};

}  // namespace

void RegisterStatelessRandomKernels(KernelRegistry& registry) {
  const auto add = [&](const char* op, FillFn fill, int64_t cost_ns) {
    registry.Register(KernelDef(op).Types("dtype", FloatTypes()), [fill, cost_ns](KernelConstruction& c) {
      return std::make_unique<StatelessKernel>(c, fill, cost_ns);
    });
  };
  add("StatelessRandomUniform", cpu::FillRandomUniform, 2);
  add("StatelessRandomNormal", cpu::FillRandomNormal, 12);
  add("StatelessTruncatedNormal", cpu::FillTruncatedNormal, 30);
  registry.Register<StatelessUniformIntKernel>(
      KernelDef("StatelessRandomUniformInt").Types("dtype", IndexTypes()));
}

}  // namespace millrace
