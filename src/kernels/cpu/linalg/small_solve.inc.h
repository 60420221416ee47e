// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Products and triangular systems: blocks of rows by registers of columns.
#pragma once

#include "kernels/cpu/linalg/small_vectors.inc.h"

namespace millrace::cpu::MR_ISA {

// Number k of row i is at values[(order == null ? i : order[i]) * row + k * step].
template <typename T>
struct Factor {
  const T* values;
  int64_t row, step;
  const int32_t* order = nullptr;

  __attribute__((always_inline)) const T* Row(int64_t i) const {
    return values + (order == nullptr ? i : order[i]) * row;
  }
};

constexpr int kBlockRows = 4;
constexpr int kBlockRegisters = kVectorBytes == 64 ? 4 : 2;

// sums[r][w] -= the sum of rows[r][k * step] * x[k * stride …] for k in [begin, end).
template <typename T, int kRows, int kW>
MR_INLINE void SubtractProducts(VecOf<T> (&sums)[kRows][kW], const T* const (&rows)[kRows], int64_t step,
                                const T* x, int64_t stride, int64_t begin, int64_t end) {
  for (int64_t k = begin; k < end; ++k) {
    VecOf<T> from[kW];
    for (int w = 0; w < kW; ++w) from[w] = Load(x + k * stride + w * Fp<T>::kLanes);
    for (int r = 0; r < kRows; ++r) {
      const VecOf<T> by = Set(rows[r][k * step]);
      for (int w = 0; w < kW; ++w) sums[r][w] -= by * from[w];
    }
  }
}

// Rows [i, i + kRows) of x where l x = b, or u x = b with kUpper.
template <typename T, bool kUpper, int kRows, int kW>
MR_INLINE void SolveRows(const Factor<T>& factor, const T* inverses, T* x, int64_t stride, int64_t i,
                         int64_t n) {
  constexpr int kLanes = Fp<T>::kLanes;
  VecOf<T> sums[kRows][kW];
  const T* rows[kRows];
  for (int r = 0; r < kRows; ++r) {
    rows[r] = factor.Row(i + r);
    for (int w = 0; w < kW; ++w) sums[r][w] = Load(x + (i + r) * stride + w * kLanes);
  }
  SubtractProducts<T, kRows, kW>(sums, rows, factor.step, x, stride, kUpper ? i + kRows : 0, kUpper ? n : i);
  for (int at = 0; at < kRows; ++at) {
    const int r = kUpper ? kRows - 1 - at : at;
    for (int w = 0; w < kW; ++w) {
      if (inverses != nullptr) sums[r][w] *= inverses[i + r];
      Store(x + (i + r) * stride + w * kLanes, sums[r][w]);
    }
    for (int then = at + 1; then < kRows; ++then) {
      const int other = kUpper ? kRows - 1 - then : then;
      const VecOf<T> by = Set(rows[other][(i + r) * factor.step]);
      for (int w = 0; w < kW; ++w) sums[other][w] -= by * sums[r][w];
    }
  }
}

template <typename T, bool kUpper, int kW>
MR_INLINE void SolvePanel(const Factor<T>& factor, const T* inverses, T* x, int64_t stride, int64_t n) {
  if constexpr (kUpper) {
    int64_t i = n;
    for (; i >= kBlockRows; i -= kBlockRows)
      SolveRows<T, true, kBlockRows, kW>(factor, inverses, x, stride, i - kBlockRows, n);
    for (; i > 0; --i) SolveRows<T, true, 1, kW>(factor, inverses, x, stride, i - 1, n);
  } else {
    int64_t i = 0;
    for (; i + kBlockRows <= n; i += kBlockRows)
      SolveRows<T, false, kBlockRows, kW>(factor, inverses, x, stride, i, n);
    for (; i < n; ++i) SolveRows<T, false, 1, kW>(factor, inverses, x, stride, i, n);
  }
}

// In the place of b, which has rows of `stride` numbers. Inverses: of the diagonal, or null for ones.
template <typename T, bool kUpper>
MR_OUTLINE void SolveFactor(const Factor<T>& factor, const T* inverses, T* x, int64_t stride, int64_t n) {
  const Factor<T> local = factor;
  constexpr int kWidth = kBlockRegisters * Fp<T>::kLanes;
  int64_t c = 0;
  for (; c + kWidth <= stride; c += kWidth)
    SolvePanel<T, kUpper, kBlockRegisters>(local, inverses, x + c, stride, n);
  if constexpr (kBlockRegisters > 2) {
    if (c + 2 * Fp<T>::kLanes <= stride) {
      SolvePanel<T, kUpper, 2>(local, inverses, x + c, stride, n);
      c += 2 * Fp<T>::kLanes;
    }
  }
  for (; c < stride; c += Fp<T>::kLanes) SolvePanel<T, kUpper, 1>(local, inverses, x + c, stride, n);
}

template <typename T, int kRows, int kW>
MR_INLINE void MultiplyRows(const Factor<T>& factor, int64_t inner, const T* x, int64_t stride, int64_t i,
                            T* out) {
  VecOf<T> sums[kRows][kW];
  const T* rows[kRows];
  for (int r = 0; r < kRows; ++r) {
    rows[r] = factor.Row(i + r);
    for (int w = 0; w < kW; ++w) sums[r][w] = VecOf<T>{};
  }
  SubtractProducts<T, kRows, kW>(sums, rows, factor.step, x, stride, 0, inner);
  for (int r = 0; r < kRows; ++r) {
    for (int w = 0; w < kW; ++w) Store(out + (i + r) * stride + w * Fp<T>::kLanes, -sums[r][w]);
  }
}
template <typename T, int kW>
MR_INLINE void MultiplyPanel(const Factor<T>& factor, int64_t rows, int64_t inner, const T* x, int64_t stride,
                             T* out) {
  int64_t i = 0;
  for (; i + kBlockRows <= rows; i += kBlockRows)
    MultiplyRows<T, kBlockRows, kW>(factor, inner, x, stride, i, out);
  for (; i < rows; ++i) MultiplyRows<T, 1, kW>(factor, inner, x, stride, i, out);
}

// out = factor * x, both with rows of `stride` numbers.
template <typename T>
MR_OUTLINE void Multiply(const Factor<T>& factor, int64_t rows, int64_t inner, const T* x, int64_t stride,
                         T* out) {
  const Factor<T> local = factor;
  constexpr int kWidth = kBlockRegisters * Fp<T>::kLanes;
  int64_t c = 0;
  for (; c + kWidth <= stride; c += kWidth)
    MultiplyPanel<T, kBlockRegisters>(local, rows, inner, x + c, stride, out + c);
  if constexpr (kBlockRegisters > 2) {
    if (c + 2 * Fp<T>::kLanes <= stride) {
      MultiplyPanel<T, 2>(local, rows, inner, x + c, stride, out + c);
      c += 2 * Fp<T>::kLanes;
    }
  }
  for (; c < stride; c += Fp<T>::kLanes) MultiplyPanel<T, 1>(local, rows, inner, x + c, stride, out + c);
}

}  // namespace millrace::cpu::MR_ISA
