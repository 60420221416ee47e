// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/vector/ops.h"
#include "millrace/dtype.h"

namespace millrace::cpu {

// The unary functions that are plain loops: rare ones without a vectorised form, those of integers, and of
// complex numbers. Null if there is none.
UnaryFn FindScalarUnary(UnaryOp op, DataType type);

}  // namespace millrace::cpu
