// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernel/kernel_registry.h"

namespace millrace {

// More of the families that kernels/cpu/register.h lists.
void RegisterCandidateSamplerKernels(KernelRegistry& registry);
void RegisterCumulativeLogsumexpKernels(KernelRegistry& registry);
void RegisterDataFormatKernels(KernelRegistry& registry);
void RegisterInplaceKernels(KernelRegistry& registry);
void RegisterReverseSequenceKernels(KernelRegistry& registry);
void RegisterSearchKernels(KernelRegistry& registry);
void RegisterTernaryMathKernels(KernelRegistry& registry);
void RegisterWord2vecKernels(KernelRegistry& registry);

}  // namespace millrace
