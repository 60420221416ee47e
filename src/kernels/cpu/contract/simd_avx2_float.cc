// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The inner loops for one instruction set and type; the build gives this file its compiler options.
#include <immintrin.h>

#include "kernels/cpu/contract/simd_table.h"

#define MR_SIMD_BYTES 32

namespace millrace::cpu::avx2 {
namespace {

#include "kernels/cpu/contract/simd_all.inc.h"

}  // namespace

extern const SimdKernels<float> kFloatKernels;
const SimdKernels<float> kFloatKernels = Kernels<float>();

}  // namespace millrace::cpu::avx2
