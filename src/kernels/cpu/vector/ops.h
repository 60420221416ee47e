// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The operations and the types of their loops. Units compiled for one instruction set include this: no header
// here may bring in inline code of the standard library.
#pragma once

#include <stdint.h>

#define MR_ONLY_UNARY_OPS
#include "kernels/cpu/vector/unary.inc.h"
#undef MR_ONLY_UNARY_OPS

namespace millrace::cpu {

// The list is in unary.inc.h.
enum class UnaryOp : uint8_t {
#define MR_UNARY_ROW(name, types, ns, ...) k##name,
  MR_UNARY_OPS(MR_UNARY_ROW)
#undef MR_UNARY_ROW
      kCount,
};

// out[i] = f(in[i]) for n elements of the type it was found for. in == out is allowed if the element sizes
// are equal; other overlaps are not. The value of an element doesn't depend on its position, so any
// split of an array into calls gives the same bits.
using UnaryFn = void (*)(const void* in, void* out, int64_t n);

enum class BinaryOp : uint8_t {
  kAdd,  // integers wrap on overflow, here and below
  kSub,
  kMul,
  kDiv,  // Div, RealDiv, TruncateDiv: integers truncate; lowest / -1 wraps to lowest
  kFloorDiv,
  kMod,  // Mod, TruncateMod: the sign of the dividend
  kFloorMod,
  kPow,      // integers: false where an exponent is negative
  kMaximum,  // a < b ? b : a, so that a NaN in a is kept and one in b is ignored
  kMinimum,  // b < a ? b : a
  kSquaredDifference,
  kAtan2,
  kDivNoNan,  // 0 where b is 0
  kXdivy,     // 0 where a is 0
  kXlogy,     // 0 where a is 0
  kMulNoNan,  // 0 where b is 0
  kNextAfter,
  kIgamma,  // this and the next five: special.h
  kIgammac,
  kIgammaGradA,
  kGammaSampleGrad,
  kPolygamma,
  kZeta,
  kBitwiseAnd,  // integers only, as are the next four
  kBitwiseOr,
  kBitwiseXor,
  kLeftShift,   // the distance is clamped to [0, bits - 1]
  kRightShift,  // arithmetic: keeps the sign
  kEqual,       // this and the next five write bool
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kLogicalAnd,  // bool only
  kLogicalOr,
  // Gradients; equal shapes only. Arguments in the order of the ops' inputs: (y, dy) for the first five,
  // (gradients, features or outputs) for the others. For complex numbers, y is conjugated first in the third
  // to the fifth.
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

// Reads a and b, writes out. Returns false if an integer was divided by zero (the quotient is then 0) or had
// a negative exponent (the power is then 0); all n elements are written nevertheless. out may equal a or b
// exactly if the element sizes are equal. Bits don't depend on how an array is split into calls.
using BinaryFn = bool (*)(const void* a, const void* b, void* out, int64_t n);

struct BinaryFns {
  BinaryFn same = nullptr;          // a[i] op b[i]
  BinaryFn scalar_left = nullptr;   // a[0] op b[i]
  BinaryFn scalar_right = nullptr;  // a[i] op b[0]
};

enum class ReduceOp : uint8_t {
  kSum,  // integers wrap
  kProd,
  kMax,  // a NaN in any place gives NaN
  kMin,
  kMean,  // integers: the wrapped sum divided, truncating; of no elements: NaN, or 0 for integers
  kAll,   // bool only
  kAny,
  kCount,
};

// The steps of the optimizers: update_rules.inc.h has the formulas under these names.
enum class UpdateRule : uint8_t {
  kGradientDescent,
  kMomentum,
  kMomentumNesterov,
  kKerasMomentum,
  kKerasMomentumNesterov,
  kAdam,
  kAdamNesterov,
  kAdamWithAmsgrad,
  kAdaMax,
  kAdagrad,
  kAdagradFixed,
  kAdagradV2,
  kAdagradV2Fixed,
  kAdagradDualAveraging,
  kAdadelta,
  kRmsProp,
  kCenteredRmsProp,
  kFtrl,
  kFtrlV2,
  kProximalGradientDescent,
  kProximalAdagrad,
  kAddSign,
  kPowerSign,
  kCount,
};
inline constexpr int kMaxUpdateSlots = 4;  // including the variable
inline constexpr int kMaxUpdateScalars = 6;

}  // namespace millrace::cpu
