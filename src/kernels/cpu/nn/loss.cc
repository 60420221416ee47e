// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/nn/util.h"
#include "kernels/cpu/vector/reduce.h"
#include "kernels/cpu/vector/unary.h"

namespace millrace {
namespace {

// Half the sum of squares, as one number.
class L2LossKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& t = context.input(0);
    MR_ASSIGN_OR_RETURN(const Tensor squares, Squares(context, t));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, TensorShape()));
    MR_ASSIGN_OR_RETURN(Tensor sum, context.AllocateTemp(squares.dtype(), TensorShape()));
    ContextParallel parallel(context);
    cpu::Reduce(cpu::ReduceOp::kSum, squares.dtype(), {1, t.num_elements(), 1}, squares.raw_data(),
                sum.raw_data(), parallel);
    if (sum.dtype() == DataType::kDouble) {
      out->scalar<double>() = sum.scalar<double>() / 2;
    } else {
      sum.scalar<float>() /= 2;
      if (out->dtype() == DataType::kFloat) {
        *out = sum;
      } else {
        FromFloat(context, sum, out);
      }
    }
    return Status();
  }

 private:
  // Sums in float or double.
  static StatusOr<Tensor> Squares(KernelContext& context, const Tensor& t) {
    Tensor values = t;
    if (t.dtype() != DataType::kDouble) {
      MR_ASSIGN_OR_RETURN(values, ToFloat(context, t));
    }
    MR_ASSIGN_OR_RETURN(Tensor squares, context.AllocateTemp(values.dtype(), t.shape()));
    const auto size = static_cast<int64_t>(ElementSize(values.dtype()));
    ContextParallel parallel(context);
    cpu::RunUnary(cpu::FindUnary(cpu::UnaryOp::kSquare, values.dtype()), values.raw_data(), size,
                  squares.raw_data(), size, t.num_elements(), 0.3, parallel);
    return squares;
  }
};

}  // namespace

void RegisterNnLossKernels(KernelRegistry& registry) {
  registry.Register<L2LossKernel>(KernelDef("L2Loss").Types("T", FloatTypes()));
}

}  // namespace millrace
