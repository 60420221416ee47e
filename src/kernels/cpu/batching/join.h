// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "kernel/kernel_context.h"
#include "millrace/tensor.h"

namespace millrace {

// Concatenates the rows of all `parts`, and `padding` copies of the first row. InvalidArgument if rows differ
// in shape or there is none to pad with. REQUIRES: at least one part, all of one type.
StatusOr<Tensor> JoinRows(KernelContext& context, std::span<const Tensor* const> parts, int64_t padding = 0);

}  // namespace millrace
