// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Switch, Merge, Enter, Exit, NextIteration and LoopCond forward values, which the executor does itself
// (exec/frame_walker.h). Their kernels only declare the supported devices and types. RefSelect selects one of
// several references; Abort ends the process.
#include <cstdio>
#include <cstdlib>

#include "base/logging.h"
#include "kernels/cpu/kernel_util.h"

namespace millrace {
namespace {

class FlowKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& /*context*/) override {
    return errors::Internal("Op ", op_name(), " runs only in an executor with frames");
  }
};

class NoOpKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext&) override { return Status(); }
};

class RefSelectKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& index = context.input(0);
    if (!index.shape().IsScalar()) {
      return errors::InvalidArgument("Index must be a scalar, but it has shape ", index.shape());
    }
    const int32_t i = index.scalar<int32_t>();
    const int n = num_inputs() - 1;
    if (i < 0 || i >= n) {
      return errors::InvalidArgument("Index must be in the range [0, ", n, ") but got ", i);
    }
    if (!context.input_is_ref(1 + i)) {
      return errors::InvalidArgument("Input ", 1 + i, " of ", op_name(), " must be a reference");
    }
    context.ForwardRef(1 + i, 0);
    return Status();
  }
};

// Ends the process: with SIGABRT or, by its attribute, with exit code 0. Destructors of the process do not
// run, since other threads are running.
class AbortKernel final : public OpKernel {
 public:
  explicit AbortKernel(KernelConstruction& c)
      : OpKernel(c),
        error_msg_(c.Attr<std::string>("error_msg")),
        exit_without_error_(c.Attr<bool>("exit_without_error")) {}
  Status Compute(KernelContext& /*context*/) override {
    if (!exit_without_error_) {
      MR_LOG(Error) << "Abort_op intentional failure; " << error_msg_;
      std::abort();
    }
    MR_LOG(Warning) << "Exiting the process: " << error_msg_;
    std::fflush(nullptr);
    std::_Exit(EXIT_SUCCESS);
  }

 private:
  const std::string error_msg_;
  const bool exit_without_error_;
};

}  // namespace

void RegisterControlFlowKernels(KernelRegistry& registry) {
  for (const char* op : {"Switch", "RefSwitch", "Merge", "RefMerge", "Enter", "RefEnter", "Exit", "RefExit",
                         "NextIteration", "RefNextIteration", "LoopCond"}) {
    registry.Register<FlowKernel>(KernelDef(op));
  }
  registry.Register<NoOpKernel>(KernelDef("NoOp"));
  registry.Register<NoOpKernel>(KernelDef("ControlTrigger"));
  registry.Register<RefSelectKernel>(KernelDef("RefSelect"));
  registry.Register<AbortKernel>(KernelDef("Abort"));
}

}  // namespace millrace
