// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/device/register.h"

#include "kernels/cpu/register.h"

namespace millrace {

void RegisterDeviceKernels(KernelRegistry& registry, const std::string& type) {
  const auto same = [&](const char* op) { return KernelDef(op).Device(type).SameAs("CPU"); };
  const auto reg = [&](KernelDef def) { registry.RegisterSame(std::move(def)); };
  RegisterDeviceConstKernels(registry, type);
  RegisterDeviceAssignKernels(registry, type);
  RegisterDeviceSendKernels(registry, type);

  for (const char* op : {"_Recv",
                         "_Arg",
                         "_Retval",
                         "NoOp",
                         "ControlTrigger",
                         "Identity",
                         "IdentityN",
                         "RefIdentity",
                         "Snapshot",
                         "StopGradient",
                         "PreventGradient",
                         "Placeholder",
                         "PlaceholderV2",
                         "PlaceholderWithDefault",
                         "EnsureShape",
                         "Enter",
                         "RefEnter",
                         "Exit",
                         "RefExit",
                         "NextIteration",
                         "RefNextIteration",
                         "Variable",
                         "VariableV2",
                         "VarHandleOp",
                         "ReadVariableOp",
                         "DestroyResourceOp",
                         "PartitionedCall",
                         "StatefulPartitionedCall",
                         "SymbolicGradient",
                         "Squeeze"}) {
    reg(same(op));
  }
  reg(same("_HostRecv").HostMemory("tensor"));
  // The executor reads and writes these itself.
  reg(same("Switch").HostMemory("pred"));
  reg(same("RefSwitch").HostMemory("pred"));
  reg(same("Merge").HostMemory("value_index"));
  reg(same("RefMerge").HostMemory("value_index"));
  reg(same("LoopCond").HostMemory("input").HostMemory("output"));

  for (const char* op : {"If", "StatelessIf"}) reg(same(op).HostMemory("cond"));
  reg(same("Case").HostMemory("branch_index"));
  for (const char* op : {"While", "StatelessWhile", "_WhileGrad"}) reg(same(op));
  reg(same("For").HostMemory("start").HostMemory("limit").HostMemory("delta"));
  reg(same("IsVariableInitialized").HostMemory("is_initialized"));
  reg(same("VarIsInitializedOp").HostMemory("is_initialized"));
  for (const char* op : {"Shape", "ShapeN", "Size", "Rank", "VariableShape"})
    reg(same(op).HostMemory("output"));
  reg(same("Reshape").HostMemory("shape"));
  reg(same("ExpandDims").HostMemory("dim"));
}

}  // namespace millrace
