// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernel/kernel_registry.h"

namespace millrace {

// The input side of models, as in register.h: bytes and Examples as tensors, text (string_*.cc), sparse
// tensors (sparse_*.cc), and parts chosen by value (partition_*.cc).
void RegisterDecodeCsvKernels(KernelRegistry& registry);
void RegisterDecodeKernels(KernelRegistry& registry);
void RegisterParseExampleKernels(KernelRegistry& registry);
void RegisterPartitionKernels(KernelRegistry& registry);
void RegisterSparseKernels(KernelRegistry& registry);
void RegisterStringKernels(KernelRegistry& registry);

}  // namespace millrace
