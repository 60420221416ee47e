// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The feeds and fetches of a step by slot.
#include "kernels/cpu/kernel_util.h"

namespace millrace {
namespace {

Status NoFrame() { return errors::Internal("The step has no call frame"); }

class ArgKernel final : public OpKernel {
 public:
  explicit ArgKernel(KernelConstruction& c)
      : OpKernel(c), index_(c.Attr<int64_t>("index")), dtype_(c.Attr<DataType>("T")) {}
  Status Compute(KernelContext& context) override {
    const CallFrame* frame = context.call_frame();
    if (frame == nullptr) return NoFrame();
    if (index_ < 0 || index_ >= frame->num_args()) {
      return errors::InvalidArgument("_Arg index ", index_, " is not in [0, ", frame->num_args(), ")");
    }
    const Tensor& value = frame->arg(static_cast<int>(index_));
    if (value.dtype() != dtype_) {
      return errors::InvalidArgument("Type mismatch: actual ", DataTypeName(value.dtype()), " vs. expect ",
                                     DataTypeName(dtype_));
    }
    context.set_output(0, value);
    return Status();
  }

 private:
  const int64_t index_;
  const DataType dtype_;
};

class RetvalKernel final : public OpKernel {
 public:
  explicit RetvalKernel(KernelConstruction& c) : OpKernel(c), index_(c.Attr<int64_t>("index")) {}
  Status Compute(KernelContext& context) override {
    const CallFrame* frame = context.call_frame();
    if (frame == nullptr) return NoFrame();
    if (index_ < 0 || index_ >= frame->num_rets()) {
      return errors::InvalidArgument("_Retval index ", index_, " is not in [0, ", frame->num_rets(), ")");
    }
    frame->set_ret(static_cast<int>(index_), context.TakeInput(0));
    return Status();
  }

 private:
  const int64_t index_;
};

}  // namespace

void RegisterCallFrameKernels(KernelRegistry& registry) {
  registry.Register<ArgKernel>(KernelDef("_Arg"));
  registry.Register<RetvalKernel>(KernelDef("_Retval"));
}

}  // namespace millrace
