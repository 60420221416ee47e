// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Bincount: the number of occurrences of each number, or the sum of its weights.
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/move.h"

namespace millrace {
namespace {

class BincountKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor &arr = context.input(0), &size = context.input(1), &weights = context.input(2);
    MR_RETURN_IF_ERROR(RequireScalar(size, "size"));
    const int64_t bins = IntValue(size);
    if (bins < 0) return errors::InvalidArgument("size (", bins, ") must be non-negative");
    if (weights.num_elements() != 0 && weights.shape() != arr.shape()) {
      return errors::InvalidArgument("weights must have the shape of arr or no elements, got ",
                                     weights.shape(), " and ", arr.shape());
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, TensorShape({bins})));
    ContextParallel parallel(context);
    ZeroElements(out->dtype(), out->raw_data(), bins, parallel);
    return VisitReal(out->dtype(), NoSuchType(context, out->dtype()), [&]<typename T>() -> Status {
      T* const to = out->data<T>();
      const T* const weight = weights.num_elements() == 0 ? nullptr : weights.data<T>();
      for (int64_t i = 0; i < arr.num_elements(); ++i) {
        const int32_t value = arr.data<int32_t>()[i];
        if (value < 0) return errors::InvalidArgument("Input arr must be non-negative!");
        if (value < bins) to[value] = Plus(to[value], weight == nullptr ? T(1) : weight[i]);
      }
      return Status();
    });
  }
};

}  // namespace

void RegisterBincountKernels(KernelRegistry& registry) {
  registry.Register<BincountKernel>(
      KernelDef("Bincount")
          .Types("T", {DataType::kInt32, DataType::kInt64, DataType::kFloat, DataType::kDouble}));
}

}  // namespace millrace
