// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Element-wise functions of two arguments on raw arrays, vectorised for the active instruction set.
#pragma once

#include <cstdint>

#include "kernels/cpu/contract/isa.h"
#include "millrace/dtype.h"

namespace millrace::cpu {

enum class BinaryOp : uint8_t {
  kAdd,  // integers wrap on overflow, here and below
  kSub,
  kMul,
  kDiv,  // Div, RealDiv, TruncateDiv: integers truncate; lowest / -1 wraps to lowest
  kFloorDiv,
  kMod,  // Mod, TruncateMod: the sign of the dividend
  kFloorMod,
  kPow,      // integers: false where an exponent is negative
  kMaximum,  // a < b ? b : a, so that a NaN in a stays and one in b is dropped
  kMinimum,  // b < a ? b : a
  kSquaredDifference,
  kAtan2,
  kDivNoNan,  // 0 where b is 0
  kXdivy,     // 0 where a is 0
  kXlogy,     // 0 where a is 0
  kEqual,     // this and the next five write bool
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kLogicalAnd,  // bool only
  kLogicalOr,
  // Gradients; same-shape only. Arguments in the order of the ops' inputs: (y, dy) for the first five,
  // (gradients, features or outputs) for the others.
  kSigmoidGrad,     // dy * y * (1 - y)
  kTanhGrad,        // dy * (1 - y * y)
  kSqrtGrad,        // dy * 0.5 / y
  kRsqrtGrad,       // dy * -0.5 * y^3
  kReciprocalGrad,  // -dy * y * y
  kReluGrad,        // g where f > 0, else 0
  kRelu6Grad,       // g where 0 < f < 6, else 0
  kEluGrad,         // by outputs: out < 0 ? (out + 1) * g : g
  kSeluGrad,        // by outputs: out < 0 ? (out + scale * alpha) * g : scale * g
  kSoftplusGrad,    // g / (exp(-f) + 1)
  kSoftsignGrad,    // g / (1 + |f|)^2
  kCount,
};

// Reads a and b, writes out. Returns false where an integer was divided by zero (the quotient is then 0) or
// had a negative exponent (the power is then 0); all n elements are written even so. out may equal a or b
// exactly where the element sizes are equal. Bits don't depend on how an array is split into calls.
using BinaryFn = bool (*)(const void* a, const void* b, void* out, int64_t n);

struct BinaryFns {
  BinaryFn same = nullptr;          // a[i] op b[i]
  BinaryFn scalar_left = nullptr;   // a[0] op b[i]
  BinaryFn scalar_right = nullptr;  // a[i] op b[0]
};

// Null where the op has no such type. half and bfloat16 are computed in float.
const BinaryFns* FindBinary(BinaryOp op, DataType type, Isa isa = ActiveIsa());

// kBool for comparisons, else the argument type.
DataType BinaryResultType(BinaryOp op, DataType type);

double BinaryCostNs(BinaryOp op, DataType type);

}  // namespace millrace::cpu
