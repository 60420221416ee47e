// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contract/gemm.h"

#include <algorithm>
#include <complex>
#include <type_traits>

#include "kernels/cpu/contract/conv_geometry.h"
#include "kernels/cpu/contract/conv_winograd.h"
#include "kernels/cpu/contract/scratch.h"
#include "kernels/cpu/contract/simd_table.h"

namespace millrace::cpu {
namespace {

// Element (i, j) of an operand lies at data[i * row + j * col].
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

// The blocks that a product is cut into. They depend on the shape only: so does every rounding.
struct Grid {
  int64_t m_size, n_size;  // of a block
  int64_t m_blocks, n_blocks;
  bool halved = false;  // the last block, of four vectors, is two
};

// Below this a product isn't worth waking a thread.
constexpr double kSmallFlops = 1 << 19;
constexpr double kUnitFlops = 1 << 20;

Grid GridOf(const GemmShape& s, int64_t lanes) {
  const double flops = 2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
  if (flops <= kSmallFlops) return {s.m, s.n, 1, 1};
  const int64_t panel = 3 * lanes;
  Grid grid;
  const double units = flops / kUnitFlops;
  const int64_t panels = CeilDiv(s.n, panel);
  grid.n_size = CeilDiv(panels, std::clamp<int64_t>(static_cast<int64_t>(units), 1, panels)) * panel;
  const int64_t row_blocks = std::max<int64_t>(s.m / 192, 1);
  grid.m_size = CeilDiv(s.m, row_blocks);
  grid.n_size = std::min(grid.n_size, s.n);
  grid.m_blocks = CeilDiv(s.m, grid.m_size);
  grid.n_blocks = CeilDiv(s.n, grid.n_size);
  // A last panel of one vector belongs to those before.
  if (grid.n_blocks > 1 && s.n - (grid.n_blocks - 1) * grid.n_size <= lanes) --grid.n_blocks;
  const int64_t rest = s.n - (grid.n_blocks - 1) * grid.n_size;
  if (grid.n_size == panel && rest > panel) {
    grid.halved = true;
    ++grid.n_blocks;
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

// Needs no memory; used when there is none, and for products over nothing.
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

template <typename T>
void FastGemm(const GemmShape& s, const T* a, const T* b, T* c, Parallel& parallel,
              const GemmEpilogue<T>& epilogue, const T* packed) {
  if (s.m <= 0 || s.n <= 0) return;
  const Operands o = OperandsOf(s);
  const SimdKernels<T>& kernels = ActiveKernels<T>();
  const Grid grid = GridOf(s, kernels.lanes);
  const auto run = [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t i = unit / grid.n_blocks * grid.m_size;
      const auto [j, columns] = ColumnsOf(grid, unit % grid.n_blocks, s.n, kernels.lanes);
      GemmBlock<T> block{
          .m = std::min(grid.m_size, s.m - i),
          .n = columns,
          .k = std::max<int64_t>(s.k, 0),
          .a = a + i * o.a.row,
          .a_row = o.a.row,
          .a_col = o.a.col,
          .b = b + j * o.b.col,
          .b_row = o.b.row,
          .b_col = o.b.col,
          .c = c + i * o.ldc + j,
          .ldc = o.ldc,
          .accumulate = s.accumulate,
          .scale = epilogue.scale == nullptr ? nullptr : epilogue.scale + j,
          .bias = epilogue.bias == nullptr ? nullptr : epilogue.bias + j,
          .residual = epilogue.residual == nullptr ? nullptr : epilogue.residual + i * o.ldc + j,
          .rectify = epilogue.rectify,
          .packed = packed,
          .packed_n = RoundUp(s.n, kernels.lanes),
          .packed_column = j};
      const int64_t next = unit + 1;  // probably of this thread, too
      if (packed != nullptr && next < grid.m_blocks * grid.n_blocks) {
        block.then_packed = packed;
        block.then_column = ColumnsOf(grid, next % grid.n_blocks, s.n, kernels.lanes).begin;
      }
      RunBlock(kernels, block);
      if (epilogue.rows == nullptr) continue;
      for (int64_t row = 0; row < block.m; ++row) {
        T* const at = block.c + row * o.ldc;
        epilogue.rows(at, at, block.n);
      }
    }
  };
  const int64_t units = grid.m_blocks * grid.n_blocks;
  if (units == 1) {
    run(0, 1);
    return;
  }
  constexpr int64_t kFlopsPerNs = 64;
  parallel.For(units, 2 * grid.m_size * grid.n_size * s.k / kFlopsPerNs + 1, run);
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
