// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/random/util.h"

#include "base/random/philox.h"
#include "kernel/kernel_registry.h"

namespace millrace {
namespace {

class RandomKernel final : public OpKernel {
 public:
  RandomKernel(KernelConstruction& c, FillFn fill, int64_t cost_ns)
      : OpKernel(c),
        fill_(fill),
        cost_ns_(cost_ns),
        generator_(c.Attr<int64_t>("seed"), c.Attr<int64_t>("seed2")) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ReadShape(context.input(0)));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    return FillRandom(context, generator_.Reserve(shape.num_elements()), *out, cost_ns_, fill_);
  }

 private:
  const FillFn fill_;
  const int64_t cost_ns_;
  GuardedPhilox generator_;
};

class RandomUniformIntKernel final : public OpKernel {
 public:
  explicit RandomUniformIntKernel(KernelConstruction& c)
      : OpKernel(c), generator_(c.Attr<int64_t>("seed"), c.Attr<int64_t>("seed2")) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ReadShape(context.input(0)));
    const int64_t n = shape.num_elements();
    MR_ASSIGN_OR_RETURN(const IntegerBounds bounds, ReadBounds(context.input(1), context.input(2), n));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    return n == 0 ? Status()
                  : FillRandomIntegers(context, generator_.Reserve(n), bounds.low, bounds.high, *out);
  }

 private:
  GuardedPhilox generator_;
};

void Add(KernelRegistry& registry, const char* op, FillFn fill, int64_t cost_ns) {
  registry.Register(KernelDef(op).Types("dtype", FloatTypes()), [fill, cost_ns](KernelConstruction& c) {
    return std::make_unique<RandomKernel>(c, fill, cost_ns);
  });
}

}  // namespace

void RegisterRandomKernels(KernelRegistry& registry) {
  Add(registry, "RandomUniform", cpu::FillRandomUniform, 2);
  Add(registry, "RandomStandardNormal", cpu::FillRandomNormal, 12);
  Add(registry, "TruncatedNormal", cpu::FillTruncatedNormal, 30);
  registry.Register<RandomUniformIntKernel>(KernelDef("RandomUniformInt").Types("Tout", IndexTypes()));
}

}  // namespace millrace
