// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector/dispatch.h"

#include <algorithm>
#include <cmath>

namespace millrace::cpu {
namespace {

constexpr int64_t kElementBlock = 4096;

constexpr IsaTables kTables[] = {
    {baseline::kUnaryTable, baseline::kBinaryRealTable, baseline::kBinaryPlainTable, baseline::kReduceTable,
     baseline::kNeuralTable, baseline::kCastTable, baseline::kMoveTable, baseline::kUpdateTable},
    {avx2::kUnaryTable, avx2::kBinaryRealTable, avx2::kBinaryPlainTable, avx2::kReduceTable,
     avx2::kNeuralTable, avx2::kCastTable, avx2::kMoveTable, avx2::kUpdateTable},
    {avx512::kUnaryTable, avx512::kBinaryRealTable, avx512::kBinaryPlainTable, avx512::kReduceTable,
     avx512::kNeuralTable, avx512::kCastTable, avx512::kMoveTable, avx512::kUpdateTable},
};

}  // namespace

const IsaTables& ActiveTables() { return kTables[static_cast<int>(ActiveIsa())]; }

PlainType PlainTypeOf(DataType type) {
  switch (type) {
    case DataType::kFloat:
      return PlainType::kFloat;
    case DataType::kDouble:
      return PlainType::kDouble;
    case DataType::kInt8:
      return PlainType::kInt8;
    case DataType::kInt16:
      return PlainType::kInt16;
    case DataType::kInt32:
      return PlainType::kInt32;
    case DataType::kInt64:
      return PlainType::kInt64;
    case DataType::kUint8:
      return PlainType::kUint8;
    case DataType::kUint16:
      return PlainType::kUint16;
    case DataType::kUint32:
      return PlainType::kUint32;
    case DataType::kUint64:
      return PlainType::kUint64;
    case DataType::kBool:
      return PlainType::kBool;
    default:
      return PlainType::kCount;
  }
}

int64_t ElementSize(DataType type) {
  switch (type) {
    case DataType::kBool:
    case DataType::kInt8:
    case DataType::kUint8:
      return 1;
    case DataType::kInt16:
    case DataType::kUint16:
    case DataType::kHalf:
    case DataType::kBfloat16:
      return 2;
    case DataType::kInt32:
    case DataType::kUint32:
    case DataType::kFloat:
      return 4;
    case DataType::kComplex128:
      return 16;
    default:
      return 8;
  }
}

void HalfToFloat(DataType type, const void* in, float* out, int64_t n) {
  const CastTable& table = ActiveTables().cast;
  (type == DataType::kHalf ? table.half_to_float : table.bfloat16_to_float)(in, out, n);
}

void FloatToHalf(DataType type, const float* in, void* out, int64_t n) {
  const CastTable& table = ActiveTables().cast;
  (type == DataType::kHalf ? table.float_to_half : table.float_to_bfloat16)(in, out, n);
}

void ForUnits(Parallel& parallel, int64_t units, double cost_ns, ShardFn fn) {
  parallel.For(units, std::max<int64_t>(1, std::llround(cost_ns)), fn);
}

void ForElements(Parallel& parallel, int64_t n, double cost_ns, ShardFn fn) {
  if (n <= 0) return;
  if (n <= kElementBlock) {
    fn(0, n);
    return;
  }
  const int64_t blocks = (n - 1) / kElementBlock + 1;
  ForUnits(parallel, blocks, cost_ns * kElementBlock,
           [&](int64_t begin, int64_t end) { fn(begin * kElementBlock, std::min(n, end * kElementBlock)); });
}

}  // namespace millrace::cpu
