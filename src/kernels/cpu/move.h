// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Copies of elements of any type, including those that own memory. The contracts are those of the routines of
// kernels/cpu/vector/transpose.h, which serve the other types.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cpu/contract/parallel.h"
#include "millrace/dtype.h"
#include "millrace/tensor.h"
#include "tensor/dtype_table.h"

namespace millrace {

void MoveBox(DataType dtype, const void* src, std::span<const int64_t> src_strides, void* dst,
             std::span<const int64_t> dst_strides, std::span<const int64_t> dims, cpu::Parallel& parallel);
// Copies n consecutive elements.
void MoveElements(DataType dtype, const void* src, void* dst, int64_t n, cpu::Parallel& parallel);
// n copies of the element at value.
void FillElements(DataType dtype, const void* value, void* dst, int64_t n, cpu::Parallel& parallel);
// n zeros: 0, false, "", an empty handle or variant.
void ZeroElements(DataType dtype, void* dst, int64_t n, cpu::Parallel& parallel);
// As cpu::GatherRows, with the length of a row in elements.
int64_t GatherElementRows(DataType dtype, const void* src, int64_t outer, int64_t limit, int64_t row,
                          const Tensor& indices, int64_t first_index, int64_t n, void* dst,
                          cpu::Parallel& parallel);

// The address of element i of an array.
inline const void* ElementAt(const void* data, DataType dtype, int64_t i) {
  return static_cast<const char*>(data) + i * static_cast<int64_t>(ElementSize(dtype));
}
inline void* ElementAt(void* data, DataType dtype, int64_t i) {
  return static_cast<char*>(data) + i * static_cast<int64_t>(ElementSize(dtype));
}

}  // namespace millrace
