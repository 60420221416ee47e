// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "kernel/kernel_registry.h"

namespace millrace {

// Registers the kernels that every type of device with separate memory needs, and that do not access
// elements: constants, transfers, control flow, calls of functions, variables with their first assignment,
// and ops on shapes. The type registers its own kernels of computations. REQUIRES: the kernels of "CPU" are,
// or will be, in `registry`.
void RegisterDeviceKernels(KernelRegistry& registry, const std::string& type);

// Parts of it.
void RegisterDeviceConstKernels(KernelRegistry& registry, const std::string& type);
void RegisterDeviceSendKernels(KernelRegistry& registry, const std::string& type);
void RegisterDeviceAssignKernels(KernelRegistry& registry, const std::string& type);

}  // namespace millrace
