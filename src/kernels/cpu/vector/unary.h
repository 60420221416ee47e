// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Element-wise functions of one argument on raw arrays, vectorised for the active instruction set.
#pragma once

#include <cstdint>

#include "kernels/cpu/contract/isa.h"
#include "kernels/cpu/contract/parallel.h"
#include "millrace/dtype.h"

namespace millrace::cpu {

enum class UnaryOp : uint8_t {
  kAbs,  // of a complex number: its real magnitude
  kNeg,
  kSign,
  kSquare,
  kSqrt,
  kRsqrt,
  kReciprocal,  // Inv and Reciprocal; integers: C++ division, 1/0 is 0
  kRound,       // half to even
  kRint,
  kFloor,
  kCeil,
  kExp,
  kExpm1,
  kLog,
  kLog1p,
  kTanh,
  kSigmoid,
  kErf,
  kErfc,
  kLgamma,
  kDigamma,
  kSin,
  kCos,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kAsinh,
  kAcosh,
  kAtanh,
  kRelu,
  kRelu6,
  kElu,
  kSelu,
  kSoftplus,
  kSoftsign,
  kIsNan,  // this and the next two write bool
  kIsInf,
  kIsFinite,
  kLogicalNot,  // bool only
  kConj,        // complex only
  kReal,        // complex only; writes the real type
  kImag,
  kAngle,
  kCount,
};

// out[i] = f(in[i]) for n elements of the type it was found for. in == out is allowed where the element sizes
// are equal; other overlaps are not. The value of an element doesn't depend on its position, so any
// split of an array into calls gives the same bits.
using UnaryFn = void (*)(const void* in, void* out, int64_t n);

// Null where the op has no such type. half and bfloat16 are computed in float.
UnaryFn FindUnary(UnaryOp op, DataType type, Isa isa = ActiveIsa());

// The element type that the function writes.
DataType UnaryResultType(UnaryOp op, DataType type);

// Rough cost of one element, to decide how to split work.
double UnaryCostNs(UnaryOp op, DataType type);

// Runs fn over n elements, split over threads where that pays. Sizes are bytes per element.
void RunUnary(UnaryFn fn, const void* in, int64_t in_size, void* out, int64_t out_size, int64_t n,
              double cost_ns, Parallel& parallel);

}  // namespace millrace::cpu
