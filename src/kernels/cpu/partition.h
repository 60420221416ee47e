// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernel/kernel_registry.h"

namespace millrace {

// The parts of RegisterPartitionKernels.
void RegisterPartitionRowsKernels(KernelRegistry& registry);
void RegisterPartitionUniqueKernels(KernelRegistry& registry);

}  // namespace millrace
