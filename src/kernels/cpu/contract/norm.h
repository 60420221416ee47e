// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Batch normalisation over the rows of a matrix [rows, cols], on raw pointers: columns are channels. Results
// are the same bits for every number of threads.
#pragma once

#include <cstdint>

#include "kernels/cpu/contract/parallel.h"

namespace millrace::cpu {

// y = x * scale + other * other_scale + shift; scales and shift have a value per column. y may be x or other.
template <typename T>
struct AffineBlock {
  const T* x;
  const T* scale;
  const T* other = nullptr;  // null: not added
  const T* other_scale = nullptr;
  const T* shift;
  int64_t rows, cols;
  T* y;
};
void AffineColumns(const AffineBlock<float>& block, Parallel& parallel);

// Mean and biased variance of each column. False: no memory. REQUIRES: rows > 0.
[[nodiscard]] bool ColumnMoments(const float* x, int64_t rows, int64_t cols, float* mean, float* variance,
                                 Parallel& parallel);

// sums = sum of dy, products = sum of dy * (x - mean), over the rows. False: no memory.
[[nodiscard]] bool ColumnProducts(const float* dy, const float* x, const float* mean, int64_t rows,
                                  int64_t cols, float* sums, float* products, Parallel& parallel);

}  // namespace millrace::cpu
