// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "builtin/register.h"

#include "autodiff/function_gradient.h"
#include "autodiff/gradient_registry.h"
#include "device/device.h"
#include "gradients/register.h"
#include "kernel/kernel_registry.h"
#include "kernels/cpu/register.h"
#include "kernels/data/register.h"
#include "op/op_registry.h"
#include "ops/register.h"

namespace millrace {

Status RegisterBuiltins() {
  static const Status status = [] {
    MR_RETURN_IF_ERROR(RegisterAllOps(OpRegistry::Global()));
    MR_RETURN_IF_ERROR(RegisterAllGradients(GradientRegistry::Global()));
    MR_RETURN_IF_ERROR(GradientRegistry::Global().RegisterNotDifferentiable(OpRegistry::Global()));
    RegisterFunctionGradients();
    RegisterCpuKernels(KernelRegistry::Global());
    RegisterDataKernels(KernelRegistry::Global());
    return RegisterCpuDeviceFactory(DeviceFactoryRegistry::Global());
  }();
  return status;
}

}  // namespace millrace
