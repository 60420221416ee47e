// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernel/kernel_registry.h"

namespace millrace {

// Parts of RegisterNnKernels (register.h): kin of convolution, and moves between batch, space and depth.
void RegisterFakeQuantKernels(KernelRegistry& registry);
void RegisterMirrorPadKernels(KernelRegistry& registry);
void RegisterNnDepthwiseKernels(KernelRegistry& registry);
void RegisterNnFusedPadKernels(KernelRegistry& registry);
void RegisterNnSpatialKernels(KernelRegistry& registry);
void RegisterSpaceBlockKernels(KernelRegistry& registry);

}  // namespace millrace
