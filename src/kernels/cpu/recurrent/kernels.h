// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernel/kernel_registry.h"

namespace millrace {

// All kernels of this folder, and the parts of that: one for each file.
void RegisterRecurrentKernels(KernelRegistry& registry);
void RegisterCtcLossKernels(KernelRegistry& registry);
void RegisterDecoderKernels(KernelRegistry& registry);
void RegisterEditDistanceKernels(KernelRegistry& registry);
void RegisterGruKernels(KernelRegistry& registry);
void RegisterLstmKernels(KernelRegistry& registry);

}  // namespace millrace
