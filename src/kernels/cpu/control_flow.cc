// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Switch, Merge, Enter, Exit, NextIteration and LoopCond pass values on without looking at them, so the
// executor does it itself (exec/frame_walker.h). Their kernels say that the device has them, and for which
// types.
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/register.h"

namespace millrace {
namespace {

class FlowKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& /*context*/) override {
    return errors::Internal("Op ", op_name(), " runs only in an executor with frames");
  }
};

}  // namespace

void RegisterControlFlowKernels(KernelRegistry& registry) {
  for (const char* op : {"Switch", "RefSwitch", "Merge", "RefMerge", "Enter", "RefEnter", "Exit", "RefExit",
                         "NextIteration", "RefNextIteration", "LoopCond"}) {
    registry.Register<FlowKernel>(KernelDef(op));
  }
}

}  // namespace millrace
