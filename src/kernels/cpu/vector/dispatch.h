// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Maps the active instruction set and an element type to the loops. Only the files of this folder include
// this.
#pragma once

#include <cstdint>

#include "kernels/cpu/contract/isa.h"
#include "kernels/cpu/contract/parallel.h"
#include "kernels/cpu/vector/tables.h"
#include "millrace/dtype.h"

namespace millrace::cpu {

struct IsaTables {
  const UnaryTable& unary;
  const BinaryRealTable& binary_real;
  const BinaryPlainTable& binary_plain;
  const ReduceTable& reduce;
  const NeuralTable& neural;
  const CastTable& cast;
  const MoveTable& move;
  const UpdateTable& update;
};

// The tables for ActiveIsa().
const IsaTables& ActiveTables();

// kCount for types that are not plain.
PlainType PlainTypeOf(DataType type);

inline bool IsIntegerPlainType(PlainType type) {
  return type >= PlainType::kInt8 && type <= PlainType::kUint64;
}

inline bool IsComplex(DataType type) { return type == DataType::kComplex64 || type == DataType::kComplex128; }

// The size in bytes of a numeric type or bool.
int64_t ElementSize(DataType type);

inline bool IsHalfType(DataType type) { return type == DataType::kHalf || type == DataType::kBfloat16; }

// Convert between half or bfloat16 and float.
void HalfToFloat(DataType type, const void* in, float* out, int64_t n);
void FloatToHalf(DataType type, const float* in, void* out, int64_t n);

// How many elements of half or bfloat16 are converted at a time, on the stack.
inline constexpr int64_t kHalfBlock = 512;

// parallel.For over units of a fractional cost.
void ForUnits(Parallel& parallel, int64_t units, double cost_ns, ShardFn fn);

// parallel.For over n elements in blocks, so that shards begin at block boundaries; fn gets element ranges.
void ForElements(Parallel& parallel, int64_t n, double cost_ns, ShardFn fn);

}  // namespace millrace::cpu
