// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernel/kernel_registry.h"

namespace millrace {

// The parts of RegisterLinalgKernels (kernels/cpu/register.h), one for each file of this folder.
void RegisterDiagonalKernels(KernelRegistry& registry);
void RegisterEinsumKernels(KernelRegistry& registry);
void RegisterMatrixFunctionKernels(KernelRegistry& registry);
void RegisterOrthogonalKernels(KernelRegistry& registry);
void RegisterSolveKernels(KernelRegistry& registry);
void RegisterSpectralKernels(KernelRegistry& registry);
void RegisterTridiagonalKernels(KernelRegistry& registry);

}  // namespace millrace
