// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/vector/reduce.h"

namespace millrace {
namespace {

template <bool kMax>
class ArgReduceKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    const Tensor& dimension = context.input(1);
    if (!dimension.shape().IsScalar()) {
      return errors::InvalidArgument("dim must be a scalar, but received tensor of shape: ",
                                     dimension.shape());
    }
    const int rank = in.rank();
    const int64_t given = IntValue(dimension);
    if (given < -rank || given >= rank) {
      return errors::InvalidArgument("Expected dimension in the range [", -rank, ", ", rank, "), but got ",
                                     given);
    }
    const int axis = static_cast<int>(given < 0 ? given + rank : given);
    if (in.dim(axis) == 0) {
      return errors::InvalidArgument("Reduction axis ", given, " is empty in shape ", in.shape());
    }
    TensorShape shape = in.shape();
    shape.RemoveDim(axis);
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    if (shape.num_elements() == 0) return Status();
    const auto dims = in.shape().dims();
    const cpu::ReduceShape sizes = {
        .outer = ProductOf(dims, 0, axis), .reduce = dims[axis], .inner = ProductOf(dims, axis + 1, rank)};
    ContextParallel parallel(context);
    const auto run = kMax ? cpu::ArgMax : cpu::ArgMin;
    run(in.dtype(), sizes, in.raw_data(), out->dtype(), out->raw_data(), parallel);
    return Status();
  }
};

}  // namespace

void RegisterArgReduceKernels(KernelRegistry& registry) {
  const TypeList types = Filter(RealTypes(), [](DataType t) { return cpu::HasArgReduce(t); });
  registry.Register<ArgReduceKernel<true>>(KernelDef("ArgMax").Types("T", types));
  registry.Register<ArgReduceKernel<false>>(KernelDef("ArgMin").Types("T", types));
}

}  // namespace millrace
