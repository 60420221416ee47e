// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernel/kernel_context.h"
#include "millrace/tensor.h"

namespace millrace {

// `count` tensors, `stride` objects apart, as the rows of one tensor of type `dtype`. Each element is copied
// once, or not at all when the rows already lie one after the other in one buffer. REQUIRES: each has the
// shape `row`.
StatusOr<Tensor> StackRows(KernelContext& context, DataType dtype, const Tensor* rows, int64_t count,
                           int64_t stride, const TensorShape& row);

// The same for rows of different sizes where `declared` says -1: each such size becomes the largest one, and
// zeros (empty strings) fill the rest. REQUIRES: each row fits `declared`.
StatusOr<Tensor> StackPadded(KernelContext& context, DataType dtype, const Tensor* rows, int64_t count,
                             int64_t stride, const PartialShape& declared);

}  // namespace millrace
