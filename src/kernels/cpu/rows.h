// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "millrace/dtype.h"
#include "millrace/tensor.h"

namespace millrace {

// Copies rows of `row` elements of any type between arrays that don't overlap. Row numbers are in range.
// dst row i = src row rows[i].
void TakeRows(DataType dtype, const void* src, std::span<const int64_t> rows, int64_t row, void* dst);
// dst row rows[i] = src row i, in this order.
void PutRows(DataType dtype, const void* src, std::span<const int64_t> rows, int64_t row, void* dst);

}  // namespace millrace
