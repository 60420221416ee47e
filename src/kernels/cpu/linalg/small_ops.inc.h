// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Systems of small matrices: the functions of small.h that take a fixed number of steps.
#pragma once

#include "kernels/cpu/linalg/small_jacobi.inc.h"
#include "kernels/cpu/linalg/small_lu.inc.h"
#include "kernels/cpu/linalg/small_qr.inc.h"
#include "kernels/cpu/linalg/small_solve.inc.h"

namespace millrace::cpu::MR_ISA {

template <typename T>
static bool LuOf(const T* a, int64_t n, T* factors, int32_t* rows) {
  SmallLu<T> lu;
  FactorLu(a, n, false, &lu);
  if (!lu.regular) return false;
  StoreTransposed(lu.columns.values, lu.stride, n, n, lu.place, factors);
  for (int64_t i = 0; i < n; ++i) rows[i] = lu.order[i];
  return true;
}

template <typename T>
static bool PivotsOf(const T* a, int64_t n, T* pivots) {
  SmallLu<T> lu;
  FactorLu(a, n, false, &lu);
  for (int64_t i = 0; i < n; ++i) pivots[i] = lu.columns.values[i * lu.stride + lu.order[i]];
  return lu.odd;
}

// The inverses of the numbers on the diagonal; false if one is zero or no number.
template <typename T>
MR_INLINE bool InvertDiagonal(const Factor<T>& factor, int64_t n, T* inverses) {
  bool regular = true;
  for (int64_t i = 0; i < n; ++i) {
    const T pivot = factor.Row(i)[i * factor.step];
    regular &= AbsOf(pivot) > 0;
    inverses[i] = 1 / pivot;
  }
  return regular;
}

// x, whose rows are in the order of the pivots, becomes the solution.
template <typename T>
MR_INLINE void SolveLu(const SmallLu<T>& lu, const T* inverses, T* x, int64_t stride, int64_t n) {
  const Factor<T> factor{lu.columns.values, 1, lu.stride, lu.order};
  SolveFactor<T, false>(factor, nullptr, x, stride, n);
  SolveFactor<T, true>(factor, inverses, x, stride, n);
}

template <typename T>
static bool InverseOf(const T* a, int64_t n, bool adjoint, T* out) {
  SmallLu<T> lu;
  FactorLu(a, n, adjoint, &lu);
  if (!lu.regular) return false;
  T inverses[kMostSmall];
  InvertDiagonal(Factor<T>{lu.columns.values, 1, lu.stride, lu.order}, n, inverses);
  Scratch<T> x;
  const int64_t stride = StrideOf<T>(n);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t c = 0; c < stride; c += Fp<T>::kLanes) Store(x.values + i * stride + c, VecOf<T>{});
    x.values[i * stride + lu.order[i]] = 1;
  }
  SolveLu(lu, inverses, x.values, stride, n);
  StoreMatrix(x.values, stride, n, n, out);
  return true;
}

// Calls fn(x, stride, first column, columns) for the panels of right sides.
template <typename T, typename Fn>
MR_INLINE void ForPanels(int64_t k, const Fn& fn) {
  Scratch<T> x;
  for (int64_t c = 0; c < k; c += kMostSmall) {
    const int64_t columns = Smaller(k - c, kMostSmall);
    fn(x.values, StrideOf<T>(columns), c, columns);
  }
}
template <typename T>
MR_INLINE void LoadPanelRow(const T* from, int64_t columns, T* to, int64_t stride) {
  for (int64_t c = 0; c < stride; c += Fp<T>::kLanes) Store(to + c, LoadLanes(from, c, columns));
}
template <typename T>
MR_INLINE void StorePanelRow(const T* from, int64_t columns, T* to) {
  for (int64_t c = 0; c < columns; c += Fp<T>::kLanes) StoreLanes(to, c, columns, Load(from + c));
}

template <typename T>
static bool SolveSystem(const T* a, int64_t n, bool adjoint, const T* b, int64_t k, T* out) {
  SmallLu<T> lu;
  FactorLu(a, n, adjoint, &lu);
  if (!lu.regular) return false;
  T inverses[kMostSmall];
  InvertDiagonal(Factor<T>{lu.columns.values, 1, lu.stride, lu.order}, n, inverses);
  ForPanels<T>(
      k, [&](T * x, int64_t stride, int64_t first, int64_t columns) __attribute__((always_inline)) {
        for (int64_t i = 0; i < n; ++i)
          LoadPanelRow(b + lu.order[i] * k + first, columns, x + i * stride, stride);
        SolveLu(lu, inverses, x, stride, n);
        for (int64_t i = 0; i < n; ++i) StorePanelRow(x + i * stride, columns, out + i * k + first);
      });
  return true;
}

template <typename T>
static bool SolveTriangle(const T* a, int64_t n, bool lower, bool adjoint, const T* b, int64_t k, T* out) {
  const Factor<T> factor{a, adjoint ? 1 : n, adjoint ? n : 1};
  T inverses[kMostSmall];
  if (!InvertDiagonal(factor, n, inverses)) return false;
  ForPanels<T>(
      k, [&](T * x, int64_t stride, int64_t first, int64_t columns) __attribute__((always_inline)) {
        for (int64_t i = 0; i < n; ++i) LoadPanelRow(b + i * k + first, columns, x + i * stride, stride);
        if (lower != adjoint) {
          SolveFactor<T, false>(factor, inverses, x, stride, n);
        } else {
          SolveFactor<T, true>(factor, inverses, x, stride, n);
        }
        for (int64_t i = 0; i < n; ++i) StorePanelRow(x + i * stride, columns, out + i * k + first);
      });
  return true;
}

template <typename T>
static bool CholeskyOf(const T* a, int64_t n, T* out) {
  Scratch<T> columns;
  const int64_t stride = ColumnStride<T>(n);
  LoadTransposed<T, true>(a, n, n, n, columns.values, stride);
  if (!FactorCholesky(columns.values, n)) return false;
  StoreTransposed<T, true>(columns.values, stride, n, n, nullptr, out);
  return true;
}

// Zeros behind the diagonal.
template <typename T>
MR_INLINE void KeepLower(T* a, int64_t stride, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    T* const row = a + i * stride;
    int64_t c = (i + 1) / Fp<T>::kLanes * Fp<T>::kLanes;
    if (c <= i) {
      Store(row + c, FirstLanes(Load(row + c), VecOf<T>{}, i + 1 - c));
      c += Fp<T>::kLanes;
    }
    for (; c < stride; c += Fp<T>::kLanes) Store(row + c, VecOf<T>{});
  }
}

template <typename T>
static void CholeskyGradOf(const T* l, const T* grad, int64_t n, T* out) {
  const int64_t stride = StrideOf<T>(n);
  Scratch<T> first, second;
  LoadMatrix(grad, n, n, first.values, stride);
  KeepLower(first.values, stride, n);
  const Factor<T> upper{l, 1, n};  // L transposed
  T inverses[kMostSmall];
  InvertDiagonal(upper, n, inverses);
  // The lower half of the product, with half of the diagonal, between the inverses of L transposed and of L.
  T lower[kMostSmall * kMostSmall];
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t k = 0; k < n; ++k) lower[i * n + k] = k <= i ? l[i * n + k] : T(0);
  }
  Multiply(Factor<T>{lower, 1, n}, n, n, first.values, stride, second.values);
  for (int64_t i = 0; i < n; ++i) second.values[i * stride + i] *= T(0.5);
  KeepLower(second.values, stride, n);
  SolveFactor<T, true>(upper, inverses, second.values, stride, n);
  LoadTransposed(second.values, stride, n, n, first.values, stride);
  SolveFactor<T, true>(upper, inverses, first.values, stride, n);
  LoadTransposed(first.values, stride, n, n, second.values, stride);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t c = 0; c < stride; c += Fp<T>::kLanes) {
      T* const at = first.values + i * stride + c;
      Store(at, (Load(at) + Load(second.values + i * stride + c)) * T(0.5));
    }
  }
  StoreMatrix(first.values, stride, n, n, out);
}

template <typename T>
static bool QrOf(const T* a, int64_t m, int64_t n, int64_t columns, T* q, T* r) {
  Scratch<T> rows;
  SmallReflections<T> reflections;
  const int64_t stride = StrideOf<T>(n), width = StrideOf<T>(columns);
  LoadMatrix(a, m, n, rows.values, stride);
  if (!FactorQr(rows.values, stride, m, n, &reflections)) return false;
  for (int64_t i = 0; i < columns; ++i) {
    T* const row = rows.values + i * stride;
    for (int64_t c = 0; c < n; c += Fp<T>::kLanes) {
      VecOf<T> v = Load(row + c);
      if (c < i) v = FirstLanes(VecOf<T>{}, v, Smaller(i - c, Fp<T>::kLanes));
      StoreLanes(r + i * n, c, n, v);
    }
  }
  FormQ(reflections, m, Smaller(m, n), columns, rows.values, width);
  StoreMatrix(rows.values, width, m, columns, q);
  return true;
}

template <typename T>
static bool LeastSquaresOf(const T* a, int64_t m, int64_t n, T weight, const T* b, int64_t k, T* out) {
  const bool tall = m >= n;
  const int64_t size = tall ? n : m, stride = ColumnStride<T>(size);
  // The product with the transposed matrix is symmetric: rows are columns.
  Scratch<T> x, gram;
  if (tall) {
    LoadMatrix(a, m, n, x.values, stride);
    Multiply(Factor<T>{a, 1, n}, n, m, x.values, stride, gram.values);
  } else {
    LoadTransposed(a, n, m, n, x.values, stride);
    Multiply(Factor<T>{a, n, 1}, m, n, x.values, stride, gram.values);
  }
  for (int64_t i = 0; i < size; ++i) gram.values[i * stride + i] += weight;
  if (!FactorCholesky(gram.values, size)) return false;
  const Factor<T> lower{gram.values, 1, stride}, upper{gram.values, stride, 1};
  T inverses[kMostSmall];
  InvertDiagonal(lower, size, inverses);
  Scratch<T> y;
  ForPanels<T>(
      k, [&](T * z, int64_t width, int64_t first, int64_t columns) __attribute__((always_inline)) {
        for (int64_t i = 0; i < m; ++i) LoadPanelRow(b + i * k + first, columns, z + i * width, width);
        T* at = z;
        if (tall) {
          at = y.values;
          Multiply(Factor<T>{a, 1, n}, n, m, z, width, at);
        }
        SolveFactor<T, false>(lower, inverses, at, width, size);
        SolveFactor<T, true>(upper, inverses, at, width, size);
        if (!tall) {
          at = y.values;
          Multiply(Factor<T>{a, 1, n}, n, m, z, width, at);
        }
        for (int64_t i = 0; i < n; ++i) StorePanelRow(at + i * width, columns, out + i * k + first);
      });
  return true;
}

}  // namespace millrace::cpu::MR_ISA
