// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/contract/bf16_table.h"

namespace millrace::cpu {

// The tables that bf16_simd.cc was compiled for; null if the compiler does not support the instructions.
// bf16.cc checks whether the processor does.
const Bf16Kernels* AmxKernels();
const Bf16Kernels* VectorBf16Kernels();

}  // namespace millrace::cpu
