// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernel/kernel_registry.h"

namespace millrace {

// For tests: kernels for the device type "FAKE" (device/fake_device_testing.h), which compute what the
// kernels of CPUs do, later, in the stream of the device. REQUIRES: the kernels of CPUs are in the global
// registry when a kernel is made.
void RegisterFakeKernels(KernelRegistry& registry);

// Puts the device type with its kernels into the global registries, however often it is called. Sessions have
// such devices only when their options say how many.
Status RegisterFakeDevices();

}  // namespace millrace
