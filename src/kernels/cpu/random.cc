// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector/random.h"

#include "base/random/philox.h"
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/register.h"

namespace millrace {
namespace {

// Elements in one unit of parallel work; the routines give the same numbers for any split.
constexpr int64_t kBlock = 1024;

using FillFn = void (*)(const PhiloxRandom& base, DataType type, void* out, int64_t begin, int64_t end);

StatusOr<TensorShape> ReadShape(const Tensor& t) {
  if (!t.shape().IsVector()) {
    return errors::InvalidArgument("shape must be a vector of {int32,int64}, got shape ", t.shape());
  }
  return ShapeFromTensor(t, "shape");
}

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
    const int64_t n = shape.num_elements();
    const PhiloxRandom base = generator_.Reserve(n);
    context.ParallelFor((n + kBlock - 1) / kBlock, kBlock * cost_ns_, [&](int64_t begin, int64_t end) {
      fill_(base, out->dtype(), out->raw_data(), begin * kBlock, std::min(end * kBlock, n));
    });
    return Status();
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
    const Tensor& low = context.input(1);
    const Tensor& high = context.input(2);
    if (!low.shape().IsScalar())
      return errors::InvalidArgument("minval must be 0-D, got shape ", low.shape());
    if (!high.shape().IsScalar())
      return errors::InvalidArgument("maxval must be 0-D, got shape ", high.shape());
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ReadShape(context.input(0)));
    const int64_t lo = IntValue(low), hi = IntValue(high);
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    const int64_t n = shape.num_elements();
    if (n == 0) return Status();
    if (lo >= hi) return errors::InvalidArgument("Need minval < maxval, got ", lo, " >= ", hi);
    const PhiloxRandom base = generator_.Reserve(n);
    context.ParallelFor((n + kBlock - 1) / kBlock, kBlock * 2, [&](int64_t begin, int64_t end) {
      cpu::FillRandomUniformInt(base, out->dtype(), lo, hi, out->raw_data(), begin * kBlock,
                                std::min(end * kBlock, n));
    });
    return Status();
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
