// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Conversions between element types.
#pragma once

#include <cstdint>

#include "kernels/cpu/vector/unary.h"
#include "millrace/dtype.h"

namespace millrace::cpu {

// Null unless both types are among half, bfloat16, float, double, the eight integers, bool, complex64,
// complex128. Rules:
//   to bool: x != 0, so NaN is true (complex: the real part counts)
//   complex to real: the real part; real to complex: imaginary part 0
//   integer to integer: wraps; to floating: rounds to nearest even
//   floating to integer: truncates. NaN and values out of range are not undefined: int32 and int64 give
//   their lowest value; the 8- and 16-bit types take the low bits of the int32 result, uint32 those of the
//   int64 result; uint64 is right up to 2^64, wraps negative ones down to -2^63, and gives 2^63 for the rest.
//   half and bfloat16: by way of float
UnaryFn FindCast(DataType from, DataType to);

}  // namespace millrace::cpu
