// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector/reduce.h"

#include <algorithm>
#include <complex>
#include <cstring>
#include <limits>
#include <memory>

#include "base/small_vector.h"
#include "kernels/cpu/vector/dispatch.h"

namespace millrace::cpu {
namespace {

// A longer row is reduced in pieces, and then the row of their results: a tree that bounds rounding errors
// and that threads can share. Columns are likewise cut by rows, and by blocks of columns.
constexpr int64_t kRowPiece = 8192;
constexpr int64_t kPieceElements = 16384;
constexpr int64_t kMinPieceRows = 32;
constexpr int64_t kMaxPieceRows = 128;
constexpr int64_t kColumnBlock = 512;  // a multiple of the width that any columns() works in
constexpr double kCostNs = 0.15;       // of an element

// The operands of a reduction, after half types were converted to float.
struct Work {
  ReduceFns fns;
  int64_t size;  // bytes per element
  Parallel& parallel;
};

std::unique_ptr<char[]> Scratch(int64_t bytes) {
  return std::unique_ptr<char[]>(new char[static_cast<size_t>(bytes)]);
}

void ReduceRows(const Work& work, int64_t rows, int64_t n, const char* in, char* out) {
  const int64_t pieces = (n - 1) / kRowPiece + 1;
  const std::unique_ptr<char[]> partial = pieces == 1 ? nullptr : Scratch(rows * pieces * work.size);
  char* to = pieces == 1 ? out : partial.get();
  const int64_t row_block = std::max<int64_t>(1, 2048 / n);
  const int64_t units = pieces == 1 ? (rows - 1) / row_block + 1 : rows * pieces;
  const int64_t per_unit = pieces == 1 ? row_block : 1;
  ForUnits(work.parallel, units, kCostNs * static_cast<double>(per_unit * std::min(n, kRowPiece)) + 5,
           [&](int64_t begin, int64_t end) {
             const int64_t last = std::min(rows * pieces, end * per_unit);
             for (int64_t i = begin * per_unit; i < last; ++i) {
               const int64_t at = i % pieces * kRowPiece;
               work.fns.row(in + (i / pieces * n + at) * work.size, std::min(kRowPiece, n - at),
                            to + i * work.size);
             }
           });
  if (pieces > 1) ReduceRows(work, rows, pieces, partial.get(), out);
}

void ReduceColumns(const Work& work, const ReduceShape& shape, const char* in, char* out) {
  const int64_t piece_rows = std::clamp(kPieceElements / shape.inner, kMinPieceRows, kMaxPieceRows);
  const int64_t pieces = (shape.reduce - 1) / piece_rows + 1;
  const int64_t blocks = (shape.inner - 1) / kColumnBlock + 1;
  const std::unique_ptr<char[]> partial =
      pieces == 1 ? nullptr : Scratch(shape.outer * pieces * shape.inner * work.size);
  char* to = pieces == 1 ? out : partial.get();
  const int64_t unit_elements = std::min(piece_rows, shape.reduce) * std::min(kColumnBlock, shape.inner);
  const int64_t total = shape.outer * pieces * blocks;
  const int64_t per_unit = std::max<int64_t>(1, 2048 / unit_elements);
  ForUnits(work.parallel, (total - 1) / per_unit + 1,
           kCostNs * static_cast<double>(per_unit * unit_elements) + 5, [&](int64_t begin, int64_t end) {
             const int64_t last = std::min(total, end * per_unit);
             for (int64_t i = begin * per_unit; i < last; ++i) {
               const int64_t column = i % blocks * kColumnBlock;
               const int64_t strip = i / blocks;  // outer and piece
               const int64_t row = strip % pieces * piece_rows;
               const int64_t from = (strip / pieces * shape.reduce + row) * shape.inner + column;
               work.fns.columns(in + from * work.size, std::min(piece_rows, shape.reduce - row), shape.inner,
                                std::min(kColumnBlock, shape.inner - column),
                                to + (strip * shape.inner + column) * work.size);
             }
           });
  if (pieces > 1) ReduceColumns(work, {shape.outer, pieces, shape.inner}, partial.get(), out);
}

void ReduceOnce(const Work& work, const ReduceShape& shape, const char* in, char* out) {
  if (shape.inner == 1) {
    ReduceRows(work, shape.outer, shape.reduce, in, out);
  } else {
    ReduceColumns(work, shape, in, out);
  }
}

template <typename T>
void ProductRow(const void* in, int64_t n, void* out) {
  const auto* x = static_cast<const T*>(in);
  T product = x[0];
  for (int64_t i = 1; i < n; ++i) product *= x[i];
  *static_cast<T*>(out) = product;
}
template <typename T>
void ProductColumns(const void* in, int64_t rows, int64_t stride, int64_t columns, void* out) {
  const auto* x = static_cast<const T*>(in);
  auto* y = static_cast<T*>(out);
  std::copy(x, x + columns, y);
  for (int64_t r = 1; r < rows; ++r) {
    for (int64_t j = 0; j < columns; ++j) y[j] *= x[r * stride + j];
  }
}

ReduceKind KindOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::kProd:
      return ReduceKind::kProd;
    case ReduceOp::kMax:
    case ReduceOp::kAny:
      return ReduceKind::kMax;
    case ReduceOp::kMin:
    case ReduceOp::kAll:
      return ReduceKind::kMin;
    default:
      return ReduceKind::kSum;
  }
}

ReduceFns FunctionsFor(ReduceOp op, DataType type) {
  if (type == DataType::kComplex64)
    return {ProductRow<std::complex<float>>, ProductColumns<std::complex<float>>};
  if (type == DataType::kComplex128) {
    return {ProductRow<std::complex<double>>, ProductColumns<std::complex<double>>};
  }
  return ActiveTables().reduce.of[static_cast<int>(PlainTypeOf(type))][static_cast<int>(KindOf(op))];
}

template <typename T>
T IdentityOf(ReduceOp op) {
  using Limits = std::numeric_limits<T>;
  const T highest = Limits::has_infinity ? Limits::infinity() : Limits::max();
  const T lowest = Limits::has_infinity ? static_cast<T>(-highest) : Limits::lowest();
  switch (op) {
    case ReduceOp::kProd:
    case ReduceOp::kAll:
      return T(1);
    case ReduceOp::kMax:
      return lowest;
    case ReduceOp::kMin:
      return highest;
    case ReduceOp::kMean:
      return Limits::has_quiet_NaN ? Limits::quiet_NaN() : T(0);
    default:
      return T(0);
  }
}

template <typename T>
void FillIdentity(ReduceOp op, T* out, int64_t n) {
  std::fill_n(out, n, IdentityOf<T>(op));
}
template <typename T>
void FillComplexIdentity(ReduceOp op, std::complex<T>* out, int64_t n) {
  std::fill_n(out, n, std::complex<T>(IdentityOf<T>(op), op == ReduceOp::kMean ? IdentityOf<T>(op) : T(0)));
}

// Divides the sums by the count; integers truncate.
template <typename T>
void Divide(T* sums, int64_t n, double count) {
  for (int64_t i = 0; i < n; ++i) sums[i] = static_cast<T>(sums[i] / static_cast<T>(count));
}
template <typename T>
void DivideIntegers(T* sums, int64_t n, int64_t count) {
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (sizeof(T) == 8 && !std::is_signed_v<T>) {
      sums[i] = sums[i] / static_cast<uint64_t>(count);
    } else {
      sums[i] = static_cast<T>(static_cast<int64_t>(sums[i]) / count);
    }
  }
}

// Calls f with a T* of the type's elements; not for complex numbers and half types.
template <typename F>
void WithType(DataType type, void* data, F f) {
  switch (type) {
    case DataType::kFloat:
      return f(static_cast<float*>(data));
    case DataType::kDouble:
      return f(static_cast<double*>(data));
    case DataType::kInt8:
      return f(static_cast<int8_t*>(data));
    case DataType::kInt16:
      return f(static_cast<int16_t*>(data));
    case DataType::kInt32:
      return f(static_cast<int32_t*>(data));
    case DataType::kInt64:
      return f(static_cast<int64_t*>(data));
    case DataType::kUint8:
    case DataType::kBool:
      return f(static_cast<uint8_t*>(data));
    case DataType::kUint16:
      return f(static_cast<uint16_t*>(data));
    case DataType::kUint32:
      return f(static_cast<uint32_t*>(data));
    default:
      return f(static_cast<uint64_t*>(data));
  }
}

// Runs of alternately kept and reduced dims, outermost first.
struct Run {
  int64_t size;
  bool reduced;
};
using Runs = SmallVector<Run, 8>;

Runs MergeDims(std::span<const int64_t> dims, std::span<const bool> reduced) {
  Runs runs;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 1) continue;
    if (!runs.empty() && runs.back().reduced == reduced[i]) {
      runs.back().size *= dims[i];
    } else {
      runs.push_back({dims[i], reduced[i]});
    }
  }
  return runs;
}

// There are elements. One pass for each reduced run, the innermost first, because it reduces the size of the
// data and reads it in order.
void ReduceRuns(const Work& work, Runs runs, const char* in, char* out) {
  std::unique_ptr<char[]> held;
  while (true) {
    ReduceShape shape;
    uint32_t passes = 0, at = 0;
    for (uint32_t i = 0; i < runs.size(); ++i) {
      if (!runs[i].reduced) continue;
      ++passes;
      at = i;
    }
    for (uint32_t i = 0; i < at; ++i) shape.outer *= runs[i].size;
    for (uint32_t i = at + 1; i < runs.size(); ++i) shape.inner *= runs[i].size;
    shape.reduce = runs[at].size;
    if (passes == 1) {
      ReduceOnce(work, shape, in, out);
      return;
    }
    std::unique_ptr<char[]> next = Scratch(shape.outer * shape.inner * work.size);
    ReduceOnce(work, shape, in, next.get());
    held = std::move(next);
    in = held.get();
    runs.EraseAt(at);
  }
}

void DivideMean(DataType type, void* out, int64_t n, int64_t count) {
  WithType(type, out, [&]<typename T>(T* sums) {
    if constexpr (std::is_floating_point_v<T>) {
      Divide(sums, n, static_cast<double>(count));
    } else {
      DivideIntegers(sums, n, count);
    }
  });
}

void FillEmpty(ReduceOp op, DataType type, void* out, int64_t n) {
  if (type == DataType::kComplex64) {
    FillComplexIdentity(op, static_cast<std::complex<float>*>(out), n);
  } else if (type == DataType::kComplex128) {
    FillComplexIdentity(op, static_cast<std::complex<double>*>(out), n);
  } else {
    WithType(type, out, [&]<typename T>(T* values) { FillIdentity(op, values, n); });
  }
}

// kept and count are the number of results and of elements for each. Not for half types.
void ReduceMerged(ReduceOp op, DataType type, Runs runs, int64_t kept, int64_t count, const void* in,
                  void* out, Parallel& parallel) {
  if (kept == 0) return;
  if (count == 0) {
    FillEmpty(op, type, out, kept);
    return;
  }
  const bool pass = std::any_of(runs.begin(), runs.end(), [](const Run& run) { return run.reduced; });
  if (!pass) {  // dims of size 1 only
    std::memcpy(out, in, static_cast<size_t>(kept * ElementSize(type)));
    return;
  }
  // Sums of complex numbers are computed as sums of their parts.
  if (IsComplex(type) && op != ReduceOp::kProd) {
    type = type == DataType::kComplex64 ? DataType::kFloat : DataType::kDouble;
    kept *= 2;
    if (runs.back().reduced) {
      runs.push_back({2, false});
    } else {
      runs.back().size *= 2;
    }
  }
  const Work work{.fns = FunctionsFor(op, type), .size = ElementSize(type), .parallel = parallel};
  ReduceRuns(work, runs, static_cast<const char*>(in), static_cast<char*>(out));
  if (op == ReduceOp::kMean) DivideMean(type, out, kept, count);
}

}  // namespace

bool HasReduce(ReduceOp op, DataType type) {
  const bool logical = op == ReduceOp::kAll || op == ReduceOp::kAny;
  if (type == DataType::kBool) return logical;
  if (logical) return false;
  const bool ordered = op == ReduceOp::kMax || op == ReduceOp::kMin;
  if (IsComplex(type)) return !ordered;
  return IsHalfType(type) || PlainTypeOf(type) != PlainType::kCount;
}

void ReduceAxes(ReduceOp op, DataType type, std::span<const int64_t> dims, std::span<const bool> reduced,
                const void* in, void* out, Parallel& parallel) {
  int64_t kept = 1, count = 1;
  for (size_t i = 0; i < dims.size(); ++i) (reduced[i] ? count : kept) *= dims[i];
  const Runs runs = MergeDims(dims, reduced);
  if (!IsHalfType(type)) {
    ReduceMerged(op, type, runs, kept, count, in, out, parallel);
    return;
  }
  const int64_t n = kept * count;
  const auto wide = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(n));
  const auto result = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(kept));
  ForElements(parallel, n, kCostNs, [&](int64_t begin, int64_t end) {
    HalfToFloat(type, static_cast<const uint16_t*>(in) + begin, wide.get() + begin, end - begin);
  });
  ReduceMerged(op, DataType::kFloat, runs, kept, count, wide.get(), result.get(), parallel);
  FloatToHalf(type, result.get(), static_cast<uint16_t*>(out), kept);
}

void Reduce(ReduceOp op, DataType type, const ReduceShape& shape, const void* in, void* out,
            Parallel& parallel) {
  const int64_t dims[] = {shape.outer, shape.reduce, shape.inner};
  const bool reduced[] = {false, true, false};
  ReduceAxes(op, type, dims, reduced, in, out, parallel);
}

}  // namespace millrace::cpu
