// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernel/kernel_context.h"
#include "millrace/tensor.h"

namespace millrace {

// Stacks `count` tensors, `stride` objects apart, as rows of one tensor of type `dtype`. Each element is
// copied once, or not at all if the rows are contiguous in one buffer. REQUIRES: each has the shape
// `row`.
StatusOr<Tensor> StackRows(KernelContext& context, DataType dtype, const Tensor* rows, int64_t count,
                           int64_t stride, const TensorShape& row);

// The same for rows of different sizes in the dimensions in which `declared` is -1: rows are padded to the
// largest size with zeros (empty strings). REQUIRES: each row is compatible with `declared`.
StatusOr<Tensor> StackPadded(KernelContext& context, DataType dtype, const Tensor* rows, int64_t count,
                             int64_t stride, const PartialShape& declared);

}  // namespace millrace
