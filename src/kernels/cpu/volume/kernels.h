// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernel/kernel_registry.h"

namespace millrace {

// All kernels of this folder, and the parts of that: one for each file.
void RegisterVolumeKernels(KernelRegistry& registry);
void RegisterFractionalPoolKernels(KernelRegistry& registry);
void RegisterVolumeConvKernels(KernelRegistry& registry);
void RegisterVolumePatchesKernels(KernelRegistry& registry);
void RegisterVolumePoolKernels(KernelRegistry& registry);

}  // namespace millrace
