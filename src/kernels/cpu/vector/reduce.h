// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Reductions over axes. The order of operations is a fixed tree that depends on the shape only: any number
// of threads gives the same bits.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cpu/contract/parallel.h"
#include "kernels/cpu/vector/ops.h"
#include "millrace/dtype.h"

namespace millrace::cpu {

// Over no elements: 0, 1, -inf (or the lowest integer), +inf (or the highest), NaN, true, false.
bool HasReduce(ReduceOp op, DataType type);

// in is [outer, reduce, inner], out is [outer, inner].
struct ReduceShape {
  int64_t outer = 1;
  int64_t reduce = 1;
  int64_t inner = 1;
};

// REQUIRES: HasReduce(op, type); in and out don't overlap. half and bfloat16 accumulate in float.
void Reduce(ReduceOp op, DataType type, const ReduceShape& shape, const void* in, void* out,
            Parallel& parallel);

// The same over any set of axes: reduced[i]: whether axis i is reduced. REQUIRES: equal lengths.
void ReduceAxes(ReduceOp op, DataType type, std::span<const int64_t> dims, std::span<const bool> reduced,
                const void* in, void* out, Parallel& parallel);

// Index along the middle axis of the first largest (smallest) element; NaNs are ignored, and if all are NaN
// the index is 0. index_type is kInt32 or kInt64. Real numeric types. REQUIRES: shape.reduce >= 1.
bool HasArgReduce(DataType type);
void ArgMax(DataType type, const ReduceShape& shape, const void* in, DataType index_type, void* out,
            Parallel& parallel);
void ArgMin(DataType type, const ReduceShape& shape, const void* in, DataType index_type, void* out,
            Parallel& parallel);

// The same for the rows of a matrix, on the calling thread. REQUIRES: n >= 1.
void ArgMaxRows(const float* in, int64_t rows, int64_t n, int64_t* out);
void ArgMaxRows(const double* in, int64_t rows, int64_t n, int64_t* out);

}  // namespace millrace::cpu
