// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/move.h"
#include "kernels/cpu/register.h"

namespace millrace {
namespace {

// condition is a scalar, has the shape of the values, or has one element for each row of them.
class SelectKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& condition = context.input(0);
    const TensorShape& then_shape = context.input(1).shape();
    const TensorShape& else_shape = context.input(2).shape();
    const bool by_row = condition.shape().IsVector() && !then_shape.IsVector();
    if (condition.shape().IsScalar() || by_row) {
      if (then_shape != else_shape) {
        return errors::InvalidArgument(
            "'then' and 'else' must have the same size.  but received: ", then_shape, " vs. ", else_shape);
      }
    }
    if (condition.shape().IsScalar()) {
      context.set_output(0, context.TakeInput(condition.scalar<bool>() ? 1 : 2));
      return Status();
    }
    if (by_row) {
      if (then_shape.rank() < 1) {
        return errors::InvalidArgument("'then' must be at least a vector, but saw shape: ", then_shape);
      }
      if (then_shape.dim(0) != condition.num_elements()) {
        return errors::InvalidArgument("Number of batches of 'then' must match size of 'cond', but saw: ",
                                       then_shape.dim(0), " vs. ", condition.num_elements());
      }
    } else {
      MR_RETURN_IF_ERROR(CheckSame(condition.shape(), then_shape, 1));
      MR_RETURN_IF_ERROR(CheckSame(condition.shape(), else_shape, 2));
    }
    return SelectRows(context, then_shape);
  }

 private:
  Status CheckSame(const TensorShape& first, const TensorShape& other, int i) const {
    if (first == other) return Status();
    return errors::InvalidArgument("Inputs to operation ", name(), " of type ", op_name(),
                                   " must have the same size and shape.  Input 0: ", first, " != input ", i,
                                   ": ", other);
  }

  Status SelectRows(KernelContext& context, const TensorShape& shape) const {
    const Tensor& condition = context.input(0);
    const int64_t rows = condition.num_elements();
    const int64_t row = rows == 0 ? 0 : shape.num_elements() / rows;
    const DataType dtype = context.input(1).dtype();
    const void* then_data = context.input(1).raw_data();
    const void* else_data = context.input(2).raw_data();
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, TensorShape(shape)));
    const bool* pick = condition.data<bool>();
    void* to = out->raw_data();
    return VisitDataType(dtype, NoSuchType(context, dtype), [&]<typename T>() {
      context.ParallelFor(rows, row + 1, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          const T* from = static_cast<const T*>(pick[r] ? then_data : else_data) + r * row;
          std::copy_n(from, row, static_cast<T*>(to) + r * row);
        }
      });
      return Status();
    });
  }
};

}  // namespace

void RegisterSelectKernels(KernelRegistry& registry) { registry.Register<SelectKernel>(KernelDef("Select")); }

}  // namespace millrace
