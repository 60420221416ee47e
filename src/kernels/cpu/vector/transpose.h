// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Moves elements without interpreting them: permutations, strided boxes, rows by index. Element sizes are in
// bytes; any size works, 1, 2, 4, 8 and 16 are fast. Strings and other owning types need other loops.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cpu/contract/parallel.h"
#include "millrace/dtype.h"

namespace millrace::cpu {

// Axis i of out is axis perm[i] of in. REQUIRES: perm is a permutation of 0..rank-1; no overlap.
void Transpose(const void* in, std::span<const int64_t> dims, std::span<const int> perm, int64_t elem_size,
               void* out, Parallel& parallel);

// dst[c * dst_stride + r] = src[r * src_stride + c] for r < rows and c < columns; strides in elements.
// REQUIRES: elements of 1, 2, 4, 8 or 16 bytes; no overlap.
void TransposePlane(const void* src, int64_t src_stride, void* dst, int64_t dst_stride, int64_t rows,
                    int64_t columns, int64_t elem_size);

// Copies a box of elements between two strided arrays: for each index, dst[dot(index, dst_strides)] =
// src[dot(index, src_strides)]. Strides are in elements, may be negative, and a source stride may be 0
// (broadcast, tile). Serves slice, strided slice, pad, concat, split, pack, tile, broadcast. No overlap.
void CopyBox(const void* src, std::span<const int64_t> src_strides, void* dst,
             std::span<const int64_t> dst_strides, std::span<const int64_t> dims, int64_t elem_size,
             Parallel& parallel);

// memcpy on several threads if that is faster.
void CopyBytes(const void* src, void* dst, int64_t bytes, Parallel& parallel);

// Writes n copies of the element at value.
void Fill(const void* value, int64_t elem_size, void* dst, int64_t n, Parallel& parallel);

// dst row (o, i) = src row (o, indices[i]): src is [outer, limit, row_bytes], dst is [outer, n, row_bytes].
// Returns -1, or the first i with an index outside [0, limit); then dst is undefined.
// index_type is kInt32 or kInt64.
int64_t GatherRows(const void* src, int64_t outer, int64_t limit, int64_t row_bytes, DataType index_type,
                   const void* indices, int64_t n, void* dst, Parallel& parallel);

}  // namespace millrace::cpu
