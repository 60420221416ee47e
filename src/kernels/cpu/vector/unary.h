// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Element-wise functions of one argument on raw arrays, vectorised for the active instruction set.
#pragma once

#include <cstdint>

#include "kernels/cpu/contract/parallel.h"
#include "kernels/cpu/vector/ops.h"
#include "millrace/dtype.h"

namespace millrace::cpu {

// Null if the op does not support the type. half and bfloat16 are computed in float.
UnaryFn FindUnary(UnaryOp op, DataType type);

// The element type that the function writes.
DataType UnaryResultType(UnaryOp op, DataType type);

// The approximate cost of one element, to decide how to split work.
double UnaryCostNs(UnaryOp op, DataType type);

// Runs fn over n elements, on several threads if that is faster. Sizes are bytes per element.
void RunUnary(UnaryFn fn, const void* in, int64_t in_size, void* out, int64_t out_size, int64_t n,
              double cost_ns, Parallel& parallel);

}  // namespace millrace::cpu
