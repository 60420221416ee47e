// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Element-wise functions of two arguments on raw arrays, vectorised for the active instruction set.
#pragma once

#include <cstdint>

#include "kernels/cpu/vector/ops.h"
#include "millrace/dtype.h"

namespace millrace::cpu {

// Null if the op does not support the type. half and bfloat16 are computed in float.
const BinaryFns* FindBinary(BinaryOp op, DataType type);

// kBool for comparisons, else the argument type.
DataType BinaryResultType(BinaryOp op, DataType type);

double BinaryCostNs(BinaryOp op, DataType type);

}  // namespace millrace::cpu
