// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernel/kernel_registry.h"

namespace millrace {

void RegisterQuantizedKernels(KernelRegistry& registry);

}  // namespace millrace
