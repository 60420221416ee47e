// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contract/gemm.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <complex>
#include <type_traits>

#include "kernels/cpu/contract/conv_geometry.h"
#include "kernels/cpu/contract/conv_winograd.h"
#include "kernels/cpu/contract/scratch.h"
#include "kernels/cpu/contract/simd_table.h"

namespace millrace::cpu {
namespace {

// Element (i, j) of an operand is at data[i * row + j * col].
struct Strides {
  int64_t row, col;
};

Strides StridesOf(bool transposed, int64_t leading, int64_t dense) {
  const int64_t ld = leading == 0 ? dense : leading;
  return transposed ? Strides{1, ld} : Strides{ld, 1};
}

struct Operands {
  Strides a, b;
  int64_t ldc;
};

Operands OperandsOf(const GemmShape& s) {
  return {StridesOf(s.trans_a, s.lda, s.trans_a ? s.m : s.k),
          StridesOf(s.trans_b, s.ldb, s.trans_b ? s.k : s.n), s.ldc == 0 ? s.n : s.ldc};
}

// The division of a product into blocks. It does not affect rounding: every sum goes through the depth in
// order.
struct Grid {
  int64_t m_size, n_size;  // of a block
  int64_t m_blocks, n_blocks;
  bool halved = false;  // the last block, of four vectors, is split in two
};

// A smaller product isn't worth waking a thread.
constexpr double kSmallFlops = 1 << 19;
// Larger blocks have less overhead, but are harder to balance between threads.
constexpr double UnitFlops(int threads) { return threads == 1 ? 1 << 20 : 1 << 19; }
constexpr int64_t kFewBlocks = 8;
constexpr int64_t kLeastRows = 24;

Grid GridOf(const GemmShape& s, int64_t lanes, int threads) {
  const double flops = 2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
  if (flops <= kSmallFlops) return {s.m, s.n, 1, 1};
  const int64_t panel = 3 * lanes;
  Grid grid;
  const double units = flops / UnitFlops(threads);
  const int64_t panels = CeilDiv(s.n, panel);
  grid.n_size = CeilDiv(panels, std::clamp<int64_t>(static_cast<int64_t>(units), 1, panels)) * panel;
  const int64_t row_blocks = std::max<int64_t>(s.m / 192, 1);
  grid.m_size = CeilDiv(s.m, row_blocks);
  // One thread reads each part of the depth of A once, if the results stay in the first cache.
  constexpr int64_t kDeep = 512, kFewResults = 8 << 10;
  if (threads == 1 && s.k > kDeep && s.m * s.n <= kFewResults) grid.n_size = RoundUp(s.n, panel);
  grid.n_size = std::min(grid.n_size, s.n);
  grid.m_blocks = CeilDiv(s.m, grid.m_size);
  grid.n_blocks = CeilDiv(s.n, grid.n_size);
  // A last panel of one vector is added to the previous block.
  if (grid.n_blocks > 1 && s.n - (grid.n_blocks - 1) * grid.n_size <= lanes) --grid.n_blocks;
  const int64_t rest = s.n - (grid.n_blocks - 1) * grid.n_size;
  if (grid.n_size == panel && rest > panel) {
    grid.halved = true;
    ++grid.n_blocks;
  }
  // A few blocks would be unbalanced: their rows are cut, if columns need no packing.
  const int64_t blocks = grid.m_blocks * grid.n_blocks;
  if (threads > 1 && !s.trans_b && blocks < kFewBlocks) {
    const int64_t affordable = static_cast<int64_t>(units) / blocks;
    const int64_t parts = std::min({CeilDiv(kFewBlocks, blocks), affordable, grid.m_size / kLeastRows});
    grid.m_size = CeilDiv(s.m, grid.m_blocks * std::max<int64_t>(parts, 1));
    grid.m_blocks = CeilDiv(s.m, grid.m_size);
  }
  return grid;
}

// The columns of block i of a row of blocks.
struct Columns {
  int64_t begin, count;
};

Columns ColumnsOf(const Grid& grid, int64_t i, int64_t n, int64_t lanes) {
  if (grid.halved && i == grid.n_blocks - 1) {
    const int64_t begin = (i - 1) * grid.n_size + 2 * lanes;
    return {begin, n - begin};
  }
  if (grid.halved && i == grid.n_blocks - 2) return {i * grid.n_size, 2 * lanes};
  const int64_t begin = i * grid.n_size;
  return {begin, i == grid.n_blocks - 1 ? n - begin : grid.n_size};
}

// Needs no memory; used if memory is short, and for products over nothing.
template <typename T>
void PlainBlock(const GemmBlock<T>& g) {
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < g.n; ++j) {
      T sum = g.accumulate ? g.c[i * g.ldc + j] : T(0);
      for (int64_t k = 0; k < g.k; ++k)
        sum += g.a[i * g.a_row + k * g.a_col] * g.b[k * g.b_row + j * g.b_col];
      if (g.scale != nullptr) sum *= g.scale[j];
      if (g.bias != nullptr) sum += g.bias[j];
      if (g.residual != nullptr) sum += g.residual[i * g.ldc + j];
      g.c[i * g.ldc + j] = Rectified(sum, g.rectify);
    }
  }
}

template <typename T>
void RunBlock(const SimdKernels<T>& kernels, GemmBlock<T>& block) {
  if (block.k == 0) {
    PlainBlock(block);
    return;
  }
  const Scratch scratch = Scratch::Of<T>(kernels.gemm_scratch(block.k, block.segments));
  if (!scratch.ok()) {
    PlainBlock(block);
    return;
  }
  block.scratch = scratch.template data<T>();
  kernels.gemm(block);
}

// A product in progress: its operands, and its division into blocks.
template <typename T>
struct Job {
  GemmShape shape;
  const T *a, *b;
  T* c;
  Operands o;
  Grid grid;
  GemmEpilogue<T> epilogue;
  const T* packed = nullptr;  // all of B
};

// Multiplies block `j` of the columns with block `i` of the rows. `own`: these columns, packed, or null;
// `then`: the columns that this thread probably multiplies next, or null.
template <typename T>
void MultiplyBlock(const Job<T>& job, int64_t i, int64_t j, const T* own, const T* then,
                   bool shallow = false) {
  const SimdKernels<T>& kernels = ActiveKernels<T>();
  const GemmShape& s = job.shape;
  const int64_t row = i * job.grid.m_size;
  const auto [column, columns] = ColumnsOf(job.grid, j, s.n, kernels.lanes);
  const GemmEpilogue<T>& epilogue = job.epilogue;
  const int64_t at = row * job.o.ldc + column;
  GemmBlock<T> block{.m = std::min(job.grid.m_size, s.m - row),
                     .n = columns,
                     .k = std::max<int64_t>(s.k, 0),
                     .a = job.a + row * job.o.a.row,
                     .a_row = job.o.a.row,
                     .a_col = job.o.a.col,
                     .b = job.b + column * job.o.b.col,
                     .b_row = job.o.b.row,
                     .b_col = job.o.b.col,
                     .c = job.c + at,
                     .ldc = job.o.ldc,
                     .accumulate = s.accumulate,
                     .scale = epilogue.scale == nullptr ? nullptr : epilogue.scale + column,
                     .bias = epilogue.bias == nullptr ? nullptr : epilogue.bias + column,
                     .residual = epilogue.residual == nullptr ? nullptr : epilogue.residual + at,
                     .rectify = epilogue.rectify};
  if (shallow && job.o.ldc == s.n && i + 1 < job.grid.m_blocks) {
    block.next = block.c + block.m * s.n;
    block.next_bytes = std::min(block.m, s.m - row - block.m) * s.n * static_cast<int64_t>(sizeof(T));
  }
  if (own != nullptr) {
    block.packed = own;
    block.packed_n = RoundUp(columns, kernels.lanes);
    block.then_packed = then;
  } else if (job.packed != nullptr) {
    block.packed = job.packed;
    block.packed_n = RoundUp(s.n, kernels.lanes);
    block.packed_column = column;
    if (j + 1 < job.grid.n_blocks || i + 1 < job.grid.m_blocks) {
      block.then_packed = job.packed;
      block.then_column = ColumnsOf(job.grid, (j + 1) % job.grid.n_blocks, s.n, kernels.lanes).begin;
    }
  }
  RunBlock(kernels, block);
  if (epilogue.rows == nullptr) return;
  for (int64_t r = 0; r < block.m; ++r)
    epilogue.rows(block.c + r * job.o.ldc, block.c + r * job.o.ldc, columns);
}

// The cost of one block. The size of blocks is such that sharing them is worthwhile.
template <typename T>
int64_t BlockCostNs(const Job<T>& job) {
  constexpr int64_t kFlopsPerNs = 64, kWorthSharingNs = 30'000, kShareNs = 20'000;
  const Grid& grid = job.grid;
  const int64_t cost = 2 * grid.m_size * grid.n_size * job.shape.k / kFlopsPerNs + 1;
  return cost * grid.m_blocks * grid.n_blocks > kWorthSharingNs ? std::max(cost, kShareNs) : cost;
}

// Beyond these sizes operands are packed before the blocks are multiplied: otherwise blocks would pack the
// same columns repeatedly, and read rows at distances of a power of two, which collide in caches.
constexpr int64_t kManyRows = 256;
constexpr int64_t kLargeFactor = 128 << 10;
constexpr int64_t kVeryManyRows = 1024;
constexpr int64_t kLargeFactorOfMany = 32 << 10;
constexpr int64_t kMaxPackedColumns = 1 << 20;  // elements that are packed at a time
constexpr int64_t kLargeResult = 1 << 20;       // bytes, too many to stay in a cache
constexpr int64_t kMaxCopied = 2 << 20;         // elements of A
constexpr int64_t kMaxDepth = 1 << 14;          // deeper columns would not stay in the cache

bool IsLarge(const GemmShape& s) {
  if (s.m < kManyRows || s.n < kManyRows || s.k < 64 || s.k > kMaxDepth || s.accumulate) return false;
  return s.k * s.n >= (s.m >= kVeryManyRows ? kLargeFactorOfMany : kLargeFactor);
}

// Copies A if its elements are read across rows, or its rows are in few sets of the caches. Null: no copy.
template <typename T>
T* OrderedA(Job<T>* job, const Scratch& copy, int64_t stride, Parallel& parallel) {
  const GemmShape& s = job->shape;
  T* const to = copy.template data<T>();
  parallel.For(CeilDiv(s.m, 16), 4 * s.k, [&](int64_t begin, int64_t end) {
    const int64_t from = begin * 16, rows = std::min(end * 16, s.m) - from;
    const T* const a = job->a + from * job->o.a.row;
    if (job->o.a.col != 1) {
      ActiveKernels<T>().transpose(a, job->o.a.col, s.k, rows, to + from * stride, stride);
      return;
    }
    for (int64_t i = 0; i < rows; ++i) std::copy_n(a + i * job->o.a.row, s.k, to + (from + i) * stride);
  });
  return to;
}

// Packs columns of B, as many as stay in the caches, and multiplies them. False: memory is short.
template <typename T>
bool MultiplyLarge(Job<T> job, Parallel& parallel) {
  const SimdKernels<T>& kernels = ActiveKernels<T>();
  const GemmShape& s = job.shape;
  // The last block of columns may have one more vector.
  const int64_t place_size = s.k * (RoundUp(job.grid.n_size, kernels.lanes) + kernels.lanes);
  const int64_t most = std::clamp<int64_t>(kMaxPackedColumns / place_size, 1, job.grid.n_blocks);
  const int64_t together = CeilDiv(job.grid.n_blocks, CeilDiv(job.grid.n_blocks, most));
  const Scratch packed = Scratch::Of<T>(together * place_size);
  const bool across = job.o.a.col != 1;
  const bool meet = job.o.a.row * static_cast<int64_t>(sizeof(T)) % 1024 == 0;
  const int64_t stride = RoundUp(s.k, kernels.lanes) + kernels.lanes;
  const Scratch copy = Scratch::Of<T>((across || meet) && s.m * s.k <= kMaxCopied ? s.m * stride : 0);
  if (!packed.ok() || !copy.ok()) return false;
  if ((across || meet) && s.m * s.k <= kMaxCopied) {
    job.a = OrderedA(&job, copy, stride, parallel);
    job.o.a = {stride, 1};
  }
  // Blocks of rows cost no packing here: there are enough of them for many threads.
  constexpr int64_t kUnits = 32, kRows = 64;
  const int64_t wanted = std::max(s.m / 192, std::min(CeilDiv(kUnits, together), s.m / kRows));
  job.grid.m_size = CeilDiv(s.m, std::max<int64_t>(wanted, 1));
  job.grid.m_blocks = CeilDiv(s.m, job.grid.m_size);
  const auto place = [&](int64_t j) { return packed.template data<T>() + j * place_size; };
  for (int64_t first = 0; first < job.grid.n_blocks; first += together) {
    const int64_t count = std::min(together, job.grid.n_blocks - first);
    parallel.For(count, s.k * job.grid.n_size / 4 + 1, [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j) {
        const auto [column, columns] = ColumnsOf(job.grid, first + j, s.n, kernels.lanes);
        kernels.pack_matrix(job.b + column * job.o.b.col, job.o.b.row, job.o.b.col, s.k, 1, columns,
                            place(j));
      }
    });
    parallel.For(count * job.grid.m_blocks, BlockCostNs(job), [&](int64_t begin, int64_t end) {
      for (int64_t unit = begin; unit < end; ++unit)
        MultiplyBlock(job, unit / count, first + unit % count, place(unit % count),
                      place((unit + 1) % count));
    });
  }
  return true;
}

// Results of little depth cost more to write than to compute. They are written a few whole rows at a time,
// whose memory the processor prefetches; blocks of columns would jump from row to row. A last block may have
// one row: sums of this depth are not cut, so that packed columns give it the same bits.
constexpr int64_t kShallow = 64;
constexpr int64_t kShallowRows = 32;
constexpr int64_t kShallowResults = 64 << 10;  // of a block, and as many of the next one that it prefetches

template <typename T>
bool IsShallow(const Job<T>& job) {
  const GemmShape& s = job.shape;
  return job.packed == nullptr && s.k > 0 && s.k <= kShallow && s.m >= kManyRows && s.n >= kManyRows &&
         s.m * s.n * static_cast<int64_t>(sizeof(T)) >= kLargeResult && s.k * s.n <= kMaxPackedColumns / 8 &&
         !s.accumulate;
}

// False: memory is short.
template <typename T>
bool MultiplyShallow(Job<T> job, Parallel& parallel) {
  const SimdKernels<T>& kernels = ActiveKernels<T>();
  const GemmShape& s = job.shape;
  const Scratch packed = Scratch::Of<T>(s.k * RoundUp(s.n, kernels.lanes));
  if (!packed.ok()) return false;
  kernels.pack_matrix(job.b, job.o.b.row, job.o.b.col, s.k, 1, s.n, packed.template data<T>());
  job.packed = packed.template data<T>();
  const int64_t rows = std::clamp<int64_t>(kShallowResults / s.n / 8 * 8, 8, kShallowRows);
  job.grid = {.m_size = rows, .n_size = s.n, .m_blocks = CeilDiv(s.m, rows), .n_blocks = 1};
  parallel.For(job.grid.m_blocks, 2 * rows * s.n * s.k / 64 + 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) MultiplyBlock<T>(job, i, 0, nullptr, nullptr, true);
  });
  return true;
}

// Several threads share a deep product of few rows by its depth. Each of them then reads only some rows of B,
// which are in its cache if it wrote them as the variable of an optimizer, instead of all of B.
constexpr int64_t kDepth = 512;  // kMaxDepth of simd_gemm.inc.h, which adds the parts in the same order
constexpr int64_t kMaxRowsByDepth = 192;
constexpr int64_t kLeastFactorByDepth = 64 << 10;
constexpr int64_t kMaxColumnBlocks = 64;

template <typename T>
bool SharesDepth(const Job<T>& job, int threads) {
  const GemmShape& s = job.shape;
  return threads > 1 && s.k > kDepth && s.m > 8 && s.m <= kMaxRowsByDepth && s.m <= s.n &&
         s.k * s.n >= kLeastFactorByDepth && job.grid.n_blocks <= kMaxColumnBlocks && !s.accumulate &&
         job.packed == nullptr && job.epilogue.scale == nullptr;
}

// Adds the parts of some columns, each of which is a matrix of `size` elements, and applies the epilogue.
template <typename T>
void FinishColumns(const Job<T>& job, const T* sums, int64_t parts, int64_t size, Columns columns) {
  const GemmEpilogue<T>& epilogue = job.epilogue;
  const int64_t at = columns.begin;
  const SumBlock<T> block{.parts = sums + at,
                          .count = parts,
                          .part = size,
                          .m = job.shape.m,
                          .n = columns.count,
                          .row = job.shape.n,
                          .c = job.c + at,
                          .ldc = job.o.ldc,
                          .bias = epilogue.bias == nullptr ? nullptr : epilogue.bias + at,
                          .residual = epilogue.residual == nullptr ? nullptr : epilogue.residual + at,
                          .rectify = epilogue.rectify};
  ActiveKernels<T>().sum_parts(block);
  if (epilogue.rows == nullptr) return;
  for (int64_t r = 0; r < block.m; ++r)
    epilogue.rows(block.c + r * block.ldc, block.c + r * block.ldc, block.n);
}

// False: memory is short.
template <typename T>
bool MultiplyByDepth(Job<T> job, Parallel& parallel) {
  const GemmShape& s = job.shape;
  const int64_t depth = CeilDiv(s.k, CeilDiv(s.k, kDepth)), parts = CeilDiv(s.k, depth), size = s.m * s.n;
  const Scratch sums = Scratch::Of<T>(parts * size);
  if (!sums.ok()) return false;
  job.grid.m_size = s.m;
  job.grid.m_blocks = 1;
  std::array<std::atomic<int64_t>, kMaxColumnBlocks> left;                 // parts of a block of columns
  for (auto& count : left) count.store(parts, std::memory_order_relaxed);  // published by For
  const int64_t blocks = job.grid.n_blocks;
  parallel.For(parts * blocks, std::max<int64_t>(BlockCostNs(job) / parts, 20'000),
               [&](int64_t begin, int64_t end) {
                 for (int64_t unit = begin; unit < end; ++unit) {
                   const int64_t part = unit / blocks, j = unit % blocks, row = part * depth;
                   Job<T> one = job;
                   one.shape.k = std::min(depth, s.k - row);
                   one.a += row * job.o.a.col;
                   one.b += row * job.o.b.row;
                   one.c = sums.template data<T>() + part * size;
                   one.o.ldc = s.n;
                   one.epilogue = {};
                   MultiplyBlock<T>(one, 0, j, nullptr, nullptr);
                   // acq_rel: the last thread sees the other parts.
                   if (left[j].fetch_sub(1, std::memory_order_acq_rel) == 1) {
                     FinishColumns(job, sums.template data<T>(), parts, size,
                                   ColumnsOf(job.grid, j, s.n, ActiveKernels<T>().lanes));
                   }
                 }
               });
  return true;
}

template <typename T>
void FastGemm(const GemmShape& s, const T* a, const T* b, T* c, Parallel& parallel,
              const GemmEpilogue<T>& epilogue, const T* packed) {
  if (s.m <= 0 || s.n <= 0) return;
  const int threads = parallel.num_threads();
  const Job<T> job{s, a, b, c, OperandsOf(s), GridOf(s, ActiveKernels<T>().lanes, threads), epilogue, packed};
  if (packed == nullptr && IsLarge(s) && MultiplyLarge(job, parallel)) return;
  if (IsShallow(job) && MultiplyShallow(job, parallel)) return;
  if (SharesDepth(job, threads) && MultiplyByDepth(job, parallel)) return;
  const Grid& grid = job.grid;
  const auto run = [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit)
      MultiplyBlock<T>(job, unit / grid.n_blocks, unit % grid.n_blocks, nullptr, nullptr);
  };
  const int64_t units = grid.m_blocks * grid.n_blocks;
  if (units == 1) {
    run(0, 1);
    return;
  }
  parallel.For(units, BlockCostNs(job), run);
}

}  // namespace

void Gemm(const GemmShape& shape, const float* a, const float* b, float* c, Parallel& parallel,
          const GemmEpilogue<float>& epilogue, const float* packed) {
  FastGemm(shape, a, b, c, parallel, epilogue, packed);
}

void Gemm(const GemmShape& shape, const double* a, const double* b, double* c, Parallel& parallel,
          const GemmEpilogue<double>& epilogue, const double* packed) {
  FastGemm(shape, a, b, c, parallel, epilogue, packed);
}

bool AddsOnce(const GemmShape& shape) { return shape.m > 1 && shape.k <= kDepth; }

template <typename T>
int64_t PackedElements(const PackedShape& shape) {
  if (shape.winograd) return WinogradConv::PackedElements(shape);
  return shape.k * shape.runs * RoundUp(shape.n, ActiveKernels<T>().lanes);
}

template <typename T>
void PackMatrix(const PackedShape& shape, const T* b, int64_t ldb, bool transposed, T* packed) {
  if constexpr (std::is_same_v<T, float>) {
    if (shape.winograd) {
      WinogradConv::Pack(shape, b, packed);
      return;
    }
  }
  const Strides strides = StridesOf(transposed, ldb, ldb);
  ActiveKernels<T>().pack_matrix(b, strides.row, strides.col, shape.k, shape.runs, shape.n, packed);
}

template int64_t PackedElements<float>(const PackedShape&);
template int64_t PackedElements<double>(const PackedShape&);
template void PackMatrix(const PackedShape&, const float*, int64_t, bool, float*);
template void PackMatrix(const PackedShape&, const double*, int64_t, bool, double*);

template <typename T>
void GemmGeneric(const GemmShape& s, const T* a, const T* b, T* c, Parallel& parallel) {
  if (s.m <= 0 || s.n <= 0) return;
  const Operands o = OperandsOf(s);
  // Signed overflow wraps, as it does in the engine's other integer kernels.
  const auto multiply_add = [](T sum, T x, T y) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(sum) + static_cast<U>(x) * static_cast<U>(y));
    } else {
      return T(sum.real() + x.real() * y.real() - x.imag() * y.imag(),
               sum.imag() + x.real() * y.imag() + x.imag() * y.real());
    }
  };
  parallel.For(s.m, std::max<int64_t>(s.n * s.k, 1), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      T* const row = c + i * o.ldc;
      if (!s.accumulate) std::fill(row, row + s.n, T(0));
      for (int64_t k = 0; k < s.k; ++k) {
        const T x = a[i * o.a.row + k * o.a.col];
        for (int64_t j = 0; j < s.n; ++j) row[j] = multiply_add(row[j], x, b[k * o.b.row + j * o.b.col]);
      }
    }
  });
}

template void GemmGeneric(const GemmShape&, const int32_t*, const int32_t*, int32_t*, Parallel&);
template void GemmGeneric(const GemmShape&, const int64_t*, const int64_t*, int64_t*, Parallel&);
template void GemmGeneric(const GemmShape&, const std::complex<float>*, const std::complex<float>*,
                          std::complex<float>*, Parallel&);
template void GemmGeneric(const GemmShape&, const std::complex<double>*, const std::complex<double>*,
                          std::complex<double>*, Parallel&);

}  // namespace millrace::cpu
