// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernel/kernel_registry.h"

namespace millrace {

// The parts of RegisterNnKernels (register.h), one per nn_*.cc.
void RegisterNnBatchNormKernels(KernelRegistry& registry);
void RegisterNnLossKernels(KernelRegistry& registry);
void RegisterNnBiasKernels(KernelRegistry& registry);
void RegisterNnConvKernels(KernelRegistry& registry);
void RegisterNnLeakyReluKernels(KernelRegistry& registry);
void RegisterNnMatMulKernels(KernelRegistry& registry);
void RegisterNnPoolKernels(KernelRegistry& registry);
void RegisterNnSoftmaxKernels(KernelRegistry& registry);
void RegisterNnTopKKernels(KernelRegistry& registry);

}  // namespace millrace
