// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernel/kernel_registry.h"

namespace millrace {

// For tests: kernels for the device type "FAKE" (device/fake_device_testing.h), which compute what the CPU
// kernels do, later, in the stream of the device. REQUIRES: the CPU kernels are in the global registry when a
// kernel is made.
void RegisterFakeKernels(KernelRegistry& registry);

// Registers the device type with its kernels in the global registries; may be called several times. Sessions
// have such devices only if their options set a number.
Status RegisterFakeDevices();

}  // namespace millrace
