// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contract/norm.h"

#include <algorithm>

#include "kernels/cpu/contract/conv_geometry.h"
#include "kernels/cpu/contract/scratch.h"
#include "kernels/cpu/contract/simd_table.h"

namespace millrace::cpu {
namespace {

constexpr int64_t kMaxBlocks = 64;  // of rows, whose sums are added at the end
constexpr int64_t kMinRows = 16;
constexpr int64_t kValuesPerNs = 8;
constexpr int64_t kCachedValues = 64 << 10;  // of a block that is read twice

// fn(first row, rows, sums of the block) for blocks of rows; then their sums, `width` each, become `out`.
template <typename Fn>
bool SumBlocks(int64_t rows, int64_t width, float* out, int64_t cost_ns, Parallel& parallel, const Fn& fn) {
  const int64_t size = std::max(CeilDiv(rows, kMaxBlocks), kMinRows);
  const int64_t blocks = CeilDiv(rows, size);
  const Scratch partials = Scratch::Of<float>(blocks * width);
  if (!partials.ok()) return false;
  parallel.For(blocks, size * cost_ns, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      fn(i * size, std::min(size, rows - i * size), partials.data<float>() + i * width);
    }
  });
  ActiveKernels<float>().add_rows(partials.data<float>(), blocks, width, width, out);
  return true;
}

}  // namespace

void AffineColumns(const AffineBlock<float>& block, Parallel& parallel) {
  if (block.cols == 0) return;
  parallel.For(block.rows, block.cols / kValuesPerNs + 1, [&](int64_t begin, int64_t end) {
    AffineBlock<float> part = block;
    part.x += begin * block.cols;
    if (part.other != nullptr) part.other += begin * block.cols;
    part.y += begin * block.cols;
    part.rows = end - begin;
    ActiveKernels<float>().affine_columns(part);
  });
}

// Each block of rows has a mean and squared differences from it, which are computed while the block is in the
// cache, and are then combined (Chan, Golub and LeVeque 1979).
bool ColumnMoments(const float* x, int64_t rows, int64_t cols, float* mean, float* variance,
                   Parallel& parallel) {
  const int64_t cached = std::max(kCachedValues / std::max<int64_t>(cols, 1), kMinRows);
  const int64_t size = std::min(std::max(CeilDiv(rows, kMaxBlocks), kMinRows), cached);
  const int64_t blocks = CeilDiv(rows, size);
  const Scratch moments = Scratch::Of<float>(2 * blocks * cols);
  if (!moments.ok()) return false;
  const auto rows_of = [&](int64_t i) { return static_cast<float>(std::min(size, rows - i * size)); };
  parallel.For(blocks, size * (2 * cols / kValuesPerNs + 1), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float* const center = moments.data<float>() + 2 * i * cols;
      const int64_t count = std::min(size, rows - i * size);
      const float* const block = x + i * size * cols;
      ActiveKernels<float>().column_sums(block, nullptr, count, cols, center);
      for (int64_t c = 0; c < cols; ++c) center[c] /= static_cast<float>(count);
      ActiveKernels<float>().column_sums(block, center, count, cols, center + cols);
    }
  });
  std::fill_n(mean, cols, 0.0f);
  std::fill_n(variance, cols, 0.0f);
  for (int64_t i = 0; i < blocks; ++i) {
    const float* const center = moments.data<float>() + 2 * i * cols;
    const float share = rows_of(i) / static_cast<float>(rows);
    for (int64_t c = 0; c < cols; ++c) mean[c] += center[c] * share;
  }
  for (int64_t i = 0; i < blocks; ++i) {
    const float* const center = moments.data<float>() + 2 * i * cols;
    const float count = rows_of(i);
    for (int64_t c = 0; c < cols; ++c) {
      const float distance = center[c] - mean[c];
      variance[c] += center[cols + c] + count * distance * distance;
    }
  }
  for (int64_t c = 0; c < cols; ++c) variance[c] /= static_cast<float>(rows);
  return true;
}

bool ColumnProducts(const float* dy, const float* x, const float* mean, int64_t rows, int64_t cols,
                    float* sums, float* products, Parallel& parallel) {
  const Scratch both = Scratch::Of<float>(2 * cols);
  if (!both.ok()) return false;
  const bool ok = SumBlocks(rows, 2 * cols, both.data<float>(), 2 * cols / kValuesPerNs + 1, parallel,
                            [&](int64_t first, int64_t count, float* at) {
                              ActiveKernels<float>().column_products(dy + first * cols, x + first * cols,
                                                                     mean, count, cols, at, at + cols);
                            });
  if (!ok) return false;
  std::copy_n(both.data<float>(), cols, sums);
  std::copy_n(both.data<float>() + cols, cols, products);
  return true;
}

}  // namespace millrace::cpu
