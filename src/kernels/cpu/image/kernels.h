// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernel/kernel_registry.h"

namespace millrace {

// The parts of RegisterImageKernels (kernels/cpu/register.h), one for each file of this folder.
void RegisterImageCodecKernels(KernelRegistry& registry);
void RegisterColorKernels(KernelRegistry& registry);
void RegisterCropKernels(KernelRegistry& registry);
void RegisterBoxKernels(KernelRegistry& registry);
void RegisterResizeKernels(KernelRegistry& registry);
void RegisterResizeGradientKernels(KernelRegistry& registry);
void RegisterSuppressionKernels(KernelRegistry& registry);

}  // namespace millrace
