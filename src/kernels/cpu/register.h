// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernel/kernel_registry.h"

namespace millrace {

// Registers the kernels of all families for the device type "CPU". cmake/registrations.py makes it from the
// registering functions in the files of this folder. REQUIRES: called once per registry.
void RegisterCpuKernels(KernelRegistry& registry);

}  // namespace millrace
