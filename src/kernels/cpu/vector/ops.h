// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The operations and the types of their loops. Units compiled for one instruction set include this: no header
// here may bring in inline code of the standard library.
#pragma once

#include <stdint.h>

#define MR_ONLY_BINARY_OPS
#include "kernels/cpu/vector/binary_real.inc.h"
#undef MR_ONLY_BINARY_OPS
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

// The list is in binary_real.inc.h. Those from kEqual to kLogicalOr write bool.
enum class BinaryOp : uint8_t {
#define MR_BINARY_ROW(name, types, ns, ...) k##name,
  MR_BINARY_OPS(MR_BINARY_ROW)
#undef MR_BINARY_ROW
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
