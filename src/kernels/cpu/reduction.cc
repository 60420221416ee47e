// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/register.h"
#include "kernels/cpu/vector/reduce.h"

namespace millrace {
namespace {

using AxisSet = SmallVector<bool, 8>;

StatusOr<AxisSet> ReadAxes(const TensorShape& shape, const Tensor& axes) {
  AxisSet reduced;
  reduced.resize(static_cast<uint32_t>(shape.rank()), false);
  for (int64_t i = 0; i < axes.num_elements(); ++i) {
    const int64_t given = IntValue(axes, i);
    if (given < -shape.rank() || given >= shape.rank()) {
      return errors::InvalidArgument("Invalid reduction dimension (", given, " for input with ", shape.rank(),
                                     " dimension(s)");
    }
    const int64_t axis = given < 0 ? given + shape.rank() : given;
    if (reduced[axis]) {
      return errors::InvalidArgument("Invalid reduction arguments: Axes contains duplicate dimension: ",
                                     axis);
    }
    reduced[axis] = true;
  }
  return reduced;
}

class ReduceKernel final : public OpKernel {
 public:
  ReduceKernel(KernelConstruction& c, cpu::ReduceOp op)
      : OpKernel(c), op_(op), keep_dims_(c.Attr<bool>("keep_dims")) {}

  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    MR_ASSIGN_OR_RETURN(const AxisSet reduced, ReadAxes(in.shape(), context.input(1)));
    TensorShape shape;
    bool trivial = true;  // nothing to reduce but sizes of 1
    for (int i = 0; i < in.rank(); ++i) {
      if (!reduced[i]) {
        MR_RETURN_IF_ERROR(shape.TryAddDim(in.dim(i)));
      } else {
        trivial &= in.dim(i) == 1;
        if (keep_dims_) MR_RETURN_IF_ERROR(shape.TryAddDim(1));
      }
    }
    if (trivial) {
      context.set_output(0, context.TakeInput(0).WithShape(shape));
      return Status();
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    ContextParallel parallel(context);
    cpu::ReduceAxes(op_, in.dtype(), in.shape().dims(), reduced, in.raw_data(), out->raw_data(), parallel);
    return Status();
  }

 private:
  const cpu::ReduceOp op_;
  const bool keep_dims_;
};

}  // namespace

void RegisterReductionKernels(KernelRegistry& registry) {
  using Op = cpu::ReduceOp;
  for (const auto& [name, op] :
       {std::pair("Sum", Op::kSum), std::pair("Prod", Op::kProd), std::pair("Mean", Op::kMean),
        std::pair("Max", Op::kMax), std::pair("Min", Op::kMin)}) {
    const TypeList types = Filter(NumberTypes(), [op = op](DataType t) { return cpu::HasReduce(op, t); });
    registry.Register(KernelDef(name).Types("T", types),
                      [op = op](KernelConstruction& c) { return std::make_unique<ReduceKernel>(c, op); });
  }
  for (const auto& [name, op] : {std::pair("All", Op::kAll), std::pair("Any", Op::kAny)}) {
    registry.Register(KernelDef(name),
                      [op = op](KernelConstruction& c) { return std::make_unique<ReduceKernel>(c, op); });
  }
}

}  // namespace millrace
