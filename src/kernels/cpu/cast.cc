// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector/cast.h"

#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/register.h"

namespace millrace {
namespace {

class CastKernel final : public OpKernel {
 public:
  explicit CastKernel(KernelConstruction& c) : OpKernel(c), from_(input_type(0)), to_(output_type(0)) {
    if (from_ == to_) return;
    fn_ = cpu::FindCast(from_, to_);
    if (fn_ == nullptr) {
      c.SetError(errors::Unimplemented("Cast ", DataTypeName(from_), " to ", DataTypeName(to_),
                                       " is not supported"));
    }
  }
  Status Compute(KernelContext& context) override {
    if (fn_ == nullptr) {
      context.set_output(0, context.TakeInput(0));
      return Status();
    }
    const Tensor& in = context.input(0);
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, in.shape()));
    ContextParallel parallel(context);
    cpu::RunUnary(fn_, in.raw_data(), static_cast<int64_t>(ElementSize(from_)), out->raw_data(),
                  static_cast<int64_t>(ElementSize(to_)), in.num_elements(), 0.5, parallel);
    return Status();
  }

 private:
  const DataType from_, to_;
  cpu::UnaryFn fn_ = nullptr;
};

}  // namespace

void RegisterCastKernels(KernelRegistry& registry) { registry.Register<CastKernel>(KernelDef("Cast")); }

}  // namespace millrace
