// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector/select.h"

#include "kernels/cpu/fused/elementwise_shapes.h"
#include "kernels/cpu/kernel_util.h"

namespace millrace {
namespace {

// condition is a scalar, has the shape of the values, or has one element for each row of them.
class SelectKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& condition = context.input(0);
    const TensorShape& shape = context.input(1).shape();
    MR_ASSIGN_OR_RETURN(const SelectForm form, CheckSelectShapes(name(), op_name(), condition.shape(), shape,
                                                                 context.input(2).shape()));
    if (form == SelectForm::kWhole) {
      context.set_output(0, context.TakeInput(condition.scalar<bool>() ? 1 : 2));
      return Status();
    }
    const cpu::SelectFn select =
        form == SelectForm::kElementwise && !OwnsMemory(context.input(1).dtype())
            ? cpu::FindSelect(static_cast<int64_t>(ElementSize(context.input(1).dtype())))
            : nullptr;
    return select != nullptr ? SelectElements(context, select) : SelectRows(context, shape);
  }

 private:
  static constexpr int64_t kBlock = 4096;  // elements

  Status SelectElements(KernelContext& context, cpu::SelectFn select) const {
    const auto size = static_cast<int64_t>(ElementSize(context.input(1).dtype()));
    const int64_t n = context.input(0).num_elements();
    const char* from[3];
    for (int i = 0; i < 3; ++i) from[i] = static_cast<const char*>(context.input(i).raw_data());
    MR_ASSIGN_OR_RETURN(
        Tensor * out, context.ForwardInputOrAllocateOutput({1, 2}, 0, TensorShape(context.input(0).shape())));
    char* const to = static_cast<char*>(out->raw_data());
    context.ParallelFor((n + kBlock - 1) / kBlock, kBlock / 4, [&](int64_t begin, int64_t end) {
      const int64_t at = begin * kBlock;
      select(from[0] + at, from[1] + at * size, from[2] + at * size, to + at * size,
             std::min(n, end * kBlock) - at);
    });
    return Status();
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

Status DifferentShapes(std::string_view node, std::string_view op, const TensorShape& first, int i,
                       const TensorShape& other) {
  return errors::InvalidArgument("Inputs to operation ", node, " of type ", op,
                                 " must have the same size and shape.  Input 0: ", first, " != input ", i,
                                 ": ", other);
}

StatusOr<SelectForm> CheckSelectShapes(std::string_view node, std::string_view op,
                                       const TensorShape& condition, const TensorShape& then_shape,
                                       const TensorShape& else_shape) {
  const bool by_row = condition.IsVector() && !then_shape.IsVector();
  if (!condition.IsScalar() && !by_row) {
    if (condition != then_shape) return DifferentShapes(node, op, condition, 1, then_shape);
    if (condition != else_shape) return DifferentShapes(node, op, condition, 2, else_shape);
    return SelectForm::kElementwise;
  }
  if (then_shape != else_shape) {
    return errors::InvalidArgument("'then' and 'else' must have the same size.  but received: ", then_shape,
                                   " vs. ", else_shape);
  }
  if (condition.IsScalar()) return SelectForm::kWhole;
  if (then_shape.rank() < 1)
    return errors::InvalidArgument("'then' must be at least a vector, but saw shape: ", then_shape);
  if (then_shape.dim(0) != condition.num_elements()) {
    return errors::InvalidArgument("Number of batches of 'then' must match size of 'cond', but saw: ",
                                   then_shape.dim(0), " vs. ", condition.num_elements());
  }
  return SelectForm::kRows;
}

void RegisterSelectKernels(KernelRegistry& registry) { registry.Register<SelectKernel>(KernelDef("Select")); }

}  // namespace millrace
