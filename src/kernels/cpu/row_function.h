// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/vector/binary.h"
#include "millrace/dtype.h"

namespace millrace {

// The vectorised function that combines two rows of `row` elements; null if the type has none or if rows are
// so short that a plain loop is faster than the call.
inline const cpu::BinaryFns* RowFunction(cpu::BinaryOp op, DataType dtype, int64_t row) {
  constexpr int64_t kShortRow = 8;
  return row < kShortRow ? nullptr : cpu::FindBinary(op, dtype);
}

// Prefetches the first bytes of a row, which will be read and perhaps written soon: the processor does not
// prefetch rows in random order by itself.
inline void PrefetchRow(const void* row, size_t bytes) {
  constexpr size_t kLine = 64, kMost = 512;
  for (size_t i = 0; i < std::min(bytes, kMost); i += kLine) {
    __builtin_prefetch(static_cast<const char*>(row) + i);
  }
}
inline constexpr size_t kPrefetchRows = 4;  // ahead

}  // namespace millrace
