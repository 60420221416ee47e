// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// All inner loops, and the table of them. Included by simd_*.cc only, inside their own namespace.

#include "kernels/cpu/contract/simd_vec.inc.h"
// Builds on the vectors.
#include "kernels/cpu/contract/simd_tile.inc.h"
// The others build on both.
#include "kernels/cpu/contract/simd_conv.inc.h"
#include "kernels/cpu/contract/simd_gemm.inc.h"
#include "kernels/cpu/contract/simd_pool.inc.h"
#include "kernels/cpu/contract/simd_winograd.inc.h"
// These use the channels of the pools.
#include "kernels/cpu/contract/simd_norm.inc.h"
#include "kernels/cpu/contract/simd_pool_grad.inc.h"
// The table of all functions.
#include "kernels/cpu/contract/simd_fill.inc.h"
