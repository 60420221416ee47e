// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Products and convolutions whose factors are bfloat16 and whose sums are float, for processors that have
// instructions for them: AMX or AVX512-BF16. Elsewhere the callers use the loops for floats.
#pragma once

#include <cstdint>

#include "kernels/cpu/contract/conv.h"
#include "kernels/cpu/contract/gemm.h"
#include "kernels/cpu/contract/parallel.h"

namespace millrace::cpu {

enum class Bf16Unit { kNone = 0, kVectors = 1, kAmx = 2 };

// The unit of this processor and operating system. The first call requests the permission to use AMX.
Bf16Unit DetectedBf16Unit();
// The unit in use: the detected one; none with MILLRACE_CPU_ISA=baseline|avx2|avx512, no AMX with
// MILLRACE_CPU_ISA=avx512_bf16 (read once).
Bf16Unit ActiveBf16Unit();
void SetActiveBf16UnitForTest(Bf16Unit unit);

// In is float (rounded to bfloat16, ties to even) or uint16_t (the bits of a bfloat16); Out likewise. Each
// product of two factors is exact. Sums are rounded to float in an order that depends on the shape alone.
// Denormal numbers count as zero. Results are the same bits for any number of threads.
//
// The functions return false if no unit is active, if the shape is too small to gain (few rows or columns),
// or if memory is short: the results are then undefined, and the caller uses another algorithm.

// As Gemm (gemm.h), without `accumulate`. With Out = uint16_t the epilogue has no residual and no `rows`.
// `packed` is B by PackBf16 or null.
template <typename In, typename Out>
bool GemmBf16(const GemmShape& shape, const In* a, const In* b, Out* c, Parallel& parallel,
              const GemmEpilogue<float>& epilogue = {}, const uint16_t* packed = nullptr);

// B of GemmBf16, or the filter of ConvBf16 as its matrix [filter_h * filter_w * in_c, out_c].
int64_t PackedBf16Elements(int64_t k, int64_t n);
// Rows of b lie ldb elements apart, or with `transposed` its columns do. REQUIRES: a unit is active.
void PackBf16(int64_t k, int64_t n, const float* b, int64_t ldb, bool transposed, uint16_t* packed,
              Parallel& parallel);

// As ConvPlan's (conv.h), for NHWC images.
template <typename In, typename Out>
bool ConvBf16(const ConvParams& params, const In* input, const In* filter, Out* output, Parallel& parallel,
              const GemmEpilogue<float>& epilogue = {}, const uint16_t* packed = nullptr);
template <typename In, typename Out>
bool ConvBackpropInputBf16(const ConvParams& params, const In* filter, const In* out_grad, Out* in_grad,
                           Parallel& parallel);
template <typename In, typename Out>
bool ConvBackpropFilterBf16(const ConvParams& params, const In* input, const In* out_grad, Out* filter_grad,
                            Parallel& parallel);

}  // namespace millrace::cpu
