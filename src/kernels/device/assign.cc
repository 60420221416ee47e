// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Assignments to variables in device memory.
#include "kernel/kernel_context.h"
#include "kernels/cpu/state/variable_util.h"
#include "kernels/device/register.h"

namespace millrace {
namespace {

// variable = input `i`: takes the buffer over if it has no other reference, else copies on the device.
Status StoreOnDevice(KernelContext& context, int i, Tensor& variable) {
  const Tensor& value = context.input(i);
  if (context.kernel().input_on_host(i)) return StoreInput(context, i, variable);
  if (!context.input_is_ref(i) && value.OwnsBufferAlone() &&
      value.buffer()->size() <= 2 * value.num_bytes()) {
    Tensor taken = context.TakeInput(i);
    if (taken.OwnsBufferAlone()) {
      variable = std::move(taken);
      return Status();
    }
    // The buffer belongs to a constant of the graph: releases the reference just taken.
  }
  const Tensor& source = context.input(i);
  if (variable.shape() == source.shape() && variable.raw_data() == source.raw_data()) return Status();
  const bool in_place = variable.shape() == source.shape() && variable.OwnsBufferAlone();
  Tensor target = variable;
  if (!in_place) {
    MR_ASSIGN_OR_RETURN(target, context.AllocateTemp(source.dtype(), source.shape()));
  }
  if (source.buffer() != nullptr)
    MR_RETURN_IF_ERROR(context.device().CopyFromDevice(context.device(), source, target));
  variable = std::move(target);
  return Status();
}

class DeviceAssignKernel final : public OpKernel {
 public:
  explicit DeviceAssignKernel(KernelConstruction& c)
      : OpKernel(c), validate_shape_(c.Attr<bool>("validate_shape")) {}
  Status Compute(KernelContext& context) override {
    if (!context.input_is_ref(0)) return errors::InvalidArgument("Input 0 of Assign must be a reference");
    {
      MutexLock lock(context.ref_mutex(0));
      Tensor& variable = context.ref_input(0);
      if (validate_shape_ && variable.shape() != context.input(1).shape()) {
        return errors::InvalidArgument("Assign requires shapes of both tensors to match. lhs shape= ",
                                       variable.shape(), " rhs shape= ", context.input(1).shape());
      }
      MR_RETURN_IF_ERROR(StoreOnDevice(context, 1, variable));
    }
    context.ForwardRef(0, 0);
    return Status();
  }

 private:
  const bool validate_shape_;
};

class DeviceAssignVariableKernel final : public OpKernel {
 public:
  explicit DeviceAssignVariableKernel(KernelConstruction& c)
      : OpKernel(c), dtype_(c.Attr<DataType>("dtype")) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const ResourceHandle* handle, HandleInput(context, 0));
    MR_ASSIGN_OR_RETURN(const RefPtr<Variable> variable, context.resources().LookupOrCreateHandle<Variable>(
                                                             *handle, [this]() -> StatusOr<RefPtr<Variable>> {
                                                               return MakeRef<Variable>(dtype_);
                                                             }));
    MutexLock lock(variable->mu());
    if (variable->tensor().dtype() != dtype_) {
      return errors::InvalidArgument("Trying to assign variable with wrong dtype. Expected ",
                                     DataTypeName(variable->tensor().dtype()), " got ", DataTypeName(dtype_));
    }
    MR_RETURN_IF_ERROR(StoreOnDevice(context, 1, variable->tensor()));
    variable->is_initialized = true;
    return Status();
  }

 private:
  const DataType dtype_;
};

}  // namespace

void RegisterDeviceAssignKernels(KernelRegistry& registry, const std::string& type) {
  registry.Register<DeviceAssignKernel>(KernelDef("Assign").Device(type));
  registry.Register<DeviceAssignVariableKernel>(KernelDef("AssignVariableOp").Device(type));
}

}  // namespace millrace
