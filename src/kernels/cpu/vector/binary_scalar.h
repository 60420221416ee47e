// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/vector/ops.h"
#include "millrace/dtype.h"

namespace millrace::cpu {

// The binary functions that are plain loops: divisions and powers of integers, remainders and powers of
// floats, complex numbers. Null if there is none.
const BinaryFns* FindScalarBinary(BinaryOp op, DataType type);

}  // namespace millrace::cpu
