// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/loop.h"
#include "kernels/cpu/nn/util.h"

namespace millrace {
namespace {

// x or, if x is not positive, alpha * x; for two inputs, the first one scaled by the sign of the second.
class LeakyReluKernel final : public OpKernel {
 public:
  explicit LeakyReluKernel(KernelConstruction& c) : OpKernel(c), alpha_(c.Attr<float>("alpha")) {}
  Status Compute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    const Tensor& features = context.input(num_inputs() - 1);
    if (x.shape() != features.shape()) {
      return errors::InvalidArgument("Inputs to operation ", name(), " of type ", op_name(),
                                     " must have the same size and shape.  Input 0: ", x.shape(),
                                     " != input 1: ", features.shape());
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, x.shape()));
    if (x.dtype() == DataType::kDouble) {
      Scale<double>(context, x, features, out);
      return Status();
    }
    if (x.dtype() == DataType::kFloat) {
      Scale<float>(context, x, features, out);
      return Status();
    }
    MR_ASSIGN_OR_RETURN(const Tensor fx, ToFloat(context, x));
    MR_ASSIGN_OR_RETURN(const Tensor ff, ToFloat(context, features));
    MR_ASSIGN_OR_RETURN(Tensor result, context.AllocateTemp(DataType::kFloat, x.shape()));
    Scale<float>(context, fx, ff, &result);
    FromFloat(context, result, out);
    return Status();
  }

 private:
  template <typename T>
  void Scale(const KernelContext& context, const Tensor& x, const Tensor& features, Tensor* out) const {
    const T* const from = x.data<T>();
    const T* const sign = features.data<T>();
    T* const to = out->data<T>();
    const T alpha = alpha_;
    context.ParallelFor(x.num_elements(), 1, [&](int64_t begin, int64_t end) {
      RunLoop([=]() MR_INLINE_LAMBDA {
        for (int64_t i = begin; i < end; ++i) {
          const T own = from[i], scaled = own * alpha;
          to[i] = sign[i] > T(0) ? own : scaled;
        }
      });
    });
  }

  const float alpha_;
};

}  // namespace

void RegisterNnLeakyReluKernels(KernelRegistry& registry) {
  registry.Register<LeakyReluKernel>(KernelDef("LeakyRelu").Types("T", FloatTypes()));
  registry.Register<LeakyReluKernel>(KernelDef("LeakyReluGrad").Types("T", FloatTypes()));
}

}  // namespace millrace
