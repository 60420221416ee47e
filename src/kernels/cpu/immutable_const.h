// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernel/kernel_registry.h"

namespace millrace {

// A part of RegisterConstantKernels (register.h).
void RegisterImmutableConstKernels(KernelRegistry& registry);

}  // namespace millrace
