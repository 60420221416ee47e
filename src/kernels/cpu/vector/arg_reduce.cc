// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <vector>

#include "kernels/cpu/vector/dispatch.h"
#include "kernels/cpu/vector/reduce.h"

namespace millrace::cpu {
namespace {

constexpr double kCostNs = 0.6;        // of an element
constexpr int64_t kShortRow = 8;       // for shorter rows, one plain loop is faster than vectors
constexpr int64_t kRowBlock = 256;     // rows whose indices are held on the stack
constexpr int64_t kColumnBlock = 256;  // columns whose best values are held on the stack

template <bool kLargest, typename T>
bool Better(T x, T best) {
  // Any other value replaces a leading NaN.
  return (kLargest ? x > best : x < best) || (best != best && x == x);
}

template <bool kLargest, typename T>
int64_t PlainRow(const T* x, int64_t n) {
  int64_t index = 0;
  for (int64_t i = 1; i < n; ++i) {
    if (Better<kLargest>(x[i], x[index])) index = i;
  }
  return index;
}

void StoreIndex(DataType index_type, void* out, int64_t at, int64_t index) {
  if (index_type == DataType::kInt32) {
    static_cast<int32_t*>(out)[at] = static_cast<int32_t>(index);
  } else {
    static_cast<int64_t*>(out)[at] = index;
  }
}

// The rows of a block.
template <bool kLargest, typename T>
void Rows(const T* x, int64_t rows, int64_t n, int64_t* index) {
  const ReduceTable& table = ActiveTables().reduce;
  if constexpr (std::is_same_v<T, float>) {
    if (n >= kShortRow) return (kLargest ? table.arg_max_f32 : table.arg_min_f32)(x, rows, n, index);
  }
  if constexpr (std::is_same_v<T, double>) {
    if (n >= kShortRow) return (kLargest ? table.arg_max_f64 : table.arg_min_f64)(x, rows, n, index);
  }
  for (int64_t r = 0; r < rows; ++r) index[r] = PlainRow<kLargest>(x + r * n, n);
}

// One block of columns of one [reduce, inner] plane.
template <bool kLargest, typename T>
void Columns(const T* x, const ReduceShape& shape, int64_t columns, DataType index_type, void* out,
             int64_t at) {
  std::array<T, kColumnBlock> best;
  std::array<int64_t, kColumnBlock> index;
  std::copy(x, x + columns, best.begin());
  std::fill_n(index.begin(), columns, 0);
  for (int64_t r = 1; r < shape.reduce; ++r) {
    const T* row = x + r * shape.inner;
    for (int64_t j = 0; j < columns; ++j) {
      const auto k = static_cast<size_t>(j);
      const bool better = Better<kLargest>(row[j], best[k]);
      best[k] = better ? row[j] : best[k];
      index[k] = better ? r : index[k];
    }
  }
  for (int64_t j = 0; j < columns; ++j) StoreIndex(index_type, out, at + j, index[static_cast<size_t>(j)]);
}

template <bool kLargest, typename T>
void Run(const ReduceShape& shape, const T* in, DataType index_type, void* out, Parallel& parallel) {
  const int64_t results = shape.outer * shape.inner;
  if (results == 0) return;
  if (shape.inner == 1) {
    const int64_t block = std::max<int64_t>(1, 2048 / shape.reduce);
    ForUnits(parallel, (shape.outer - 1) / block + 1, kCostNs * static_cast<double>(block * shape.reduce),
             [&](int64_t begin, int64_t end) {
               const int64_t last = std::min(shape.outer, end * block);
               std::array<int64_t, kRowBlock> index;
               for (int64_t first = begin * block; first < last; first += kRowBlock) {
                 const int64_t rows = std::min(kRowBlock, last - first);
                 Rows<kLargest>(in + first * shape.reduce, rows, shape.reduce, index.data());
                 for (int64_t r = 0; r < rows; ++r)
                   StoreIndex(index_type, out, first + r, index[static_cast<size_t>(r)]);
               }
             });
    return;
  }
  const int64_t blocks = (shape.inner - 1) / kColumnBlock + 1;
  ForUnits(parallel, shape.outer * blocks,
           kCostNs * static_cast<double>(shape.reduce * std::min(kColumnBlock, shape.inner)),
           [&](int64_t begin, int64_t end) {
             for (int64_t i = begin; i < end; ++i) {
               const int64_t outer = i / blocks, column = i % blocks * kColumnBlock;
               Columns<kLargest>(in + outer * shape.reduce * shape.inner + column, shape,
                                 std::min(kColumnBlock, shape.inner - column), index_type, out,
                                 outer * shape.inner + column);
             }
           });
}

template <bool kLargest>
void RunHalf(DataType type, const ReduceShape& shape, const void* in, DataType index_type, void* out,
             Parallel& parallel) {
  const int64_t n = shape.outer * shape.reduce * shape.inner;
  std::vector<float> wide(static_cast<size_t>(n));
  HalfToFloat(type, in, wide.data(), n);
  Run<kLargest>(shape, wide.data(), index_type, out, parallel);
}

template <bool kLargest>
void ArgReduce(DataType type, const ReduceShape& shape, const void* in, DataType index_type, void* out,
               Parallel& parallel) {
  const auto run = [&]<typename T>(T) {
    Run<kLargest>(shape, static_cast<const T*>(in), index_type, out, parallel);
  };
  switch (type) {
    case DataType::kHalf:
    case DataType::kBfloat16:
      return RunHalf<kLargest>(type, shape, in, index_type, out, parallel);
    case DataType::kFloat:
      return run(float{});
    case DataType::kDouble:
      return run(double{});
    case DataType::kInt8:
      return run(int8_t{});
    case DataType::kInt16:
      return run(int16_t{});
    case DataType::kInt32:
      return run(int32_t{});
    case DataType::kInt64:
      return run(int64_t{});
    case DataType::kUint8:
    case DataType::kBool:
      return run(uint8_t{});
    case DataType::kUint16:
      return run(uint16_t{});
    case DataType::kUint32:
      return run(uint32_t{});
    default:
      return run(uint64_t{});
  }
}

}  // namespace

bool HasArgReduce(DataType type) { return IsHalfType(type) || PlainTypeOf(type) != PlainType::kCount; }

void ArgMax(DataType type, const ReduceShape& shape, const void* in, DataType index_type, void* out,
            Parallel& parallel) {
  ArgReduce<true>(type, shape, in, index_type, out, parallel);
}

void ArgMin(DataType type, const ReduceShape& shape, const void* in, DataType index_type, void* out,
            Parallel& parallel) {
  ArgReduce<false>(type, shape, in, index_type, out, parallel);
}

void ArgMaxRows(const float* in, int64_t rows, int64_t n, int64_t* out) { Rows<true>(in, rows, n, out); }

void ArgMaxRows(const double* in, int64_t rows, int64_t n, int64_t* out) { Rows<true>(in, rows, n, out); }

}  // namespace millrace::cpu
