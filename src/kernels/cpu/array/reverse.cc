// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/move.h"

namespace millrace {
namespace {

// Copies the input with the marked axes reversed: they are read from the end with a negative stride.
Status ReverseAxes(KernelContext& context, const std::vector<bool>& turned) {
  const TensorShape shape = context.input(0).shape();
  bool any = false;
  for (int i = 0; i < shape.rank(); ++i) any |= turned[i] && shape.dim(i) > 1;
  if (!any || shape.num_elements() == 0) {
    context.set_output(0, context.TakeInput(0));
    return Status();
  }
  const Tensor& in = context.input(0);
  MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
  const Dims to = RowMajorStrides(shape.dims());
  Dims from = to;
  int64_t offset = 0;
  for (int i = 0; i < shape.rank(); ++i) {
    if (!turned[i]) continue;
    offset += (shape.dim(i) - 1) * from[i];
    from[i] = -from[i];
  }
  ContextParallel parallel(context);
  MoveBox(in.dtype(), ElementAt(in.raw_data(), in.dtype(), offset), from, out->raw_data(), to, shape.dims(),
          parallel);
  return Status();
}

class ReverseKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    const Tensor& dims = context.input(1);
    if (dims.rank() != 1) return errors::InvalidArgument("'dims' must be 1-dimension, not ", dims.rank());
    if (dims.num_elements() != in.rank()) {
      return errors::InvalidArgument(
          "'dims' must have the same number of values as 'tensor' has dimensions. 'tensor' has ", in.rank(),
          "'dims' has ", dims.num_elements(), " values");
    }
    return ReverseAxes(context, std::vector<bool>(dims.flat<bool>().begin(), dims.flat<bool>().end()));
  }
};

class ReverseV2Kernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& axes = context.input(1);
    const int rank = context.input(0).rank();
    if (rank > 0 && axes.rank() != 1)
      return errors::InvalidArgument("'dims' must be 1-dimension, not ", axes.rank());
    std::vector<bool> turned(static_cast<size_t>(rank));
    for (int64_t i = 0; i < axes.num_elements(); ++i) {
      const int64_t given = IntValue(axes, i);
      const int64_t axis = given < 0 ? given + rank : given;
      if (axis < 0 || axis >= rank) {
        return errors::InvalidArgument("'axis'[", i, "] = ", given, " is out of valid range [0, ", rank - 1);
      }
      if (turned[axis]) return errors::InvalidArgument("axis ", axis, " specified more than once.");
      turned[axis] = true;
    }
    return ReverseAxes(context, turned);
  }
};

}  // namespace

void RegisterReverseKernels(KernelRegistry& registry) {
  registry.Register<ReverseKernel>(KernelDef("Reverse"));
  registry.Register<ReverseV2Kernel>(KernelDef("ReverseV2").Types("Tidx", IndexTypes()));
}

}  // namespace millrace
