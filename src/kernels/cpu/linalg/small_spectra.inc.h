// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Singular values, eigenvalues and square roots of small matrices.
#pragma once

#include "kernels/cpu/linalg/small_ops.inc.h"

namespace millrace::cpu::MR_ISA {

// The power of two by which the largest size of n numbers becomes one of [0.5, 1]; 0 if that is not finite
// or too small for its inverse.
template <typename T>
MR_INLINE T ScaleOf(const T* a, int64_t n) {
  constexpr int kLanes = Fp<T>::kLanes;
  constexpr T kMost = sizeof(T) == 4 ? static_cast<T>(1e37) : static_cast<T>(1e307);
  VecOf<T> found = {};
  IntOf<T> inside = IntOf<T>{} - 1;
  const auto add = [&](VecOf<T> v) __attribute__((always_inline)) {
    inside &= (IntOf<T>)(Abs(v) <= kMost);
    found = Max(Abs(v), found);
  };
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) add(Load(a + i));
  if (i < n) add(LoadPart(a + i, n - i));
  const bool finite = Bits((IntOf<T>)~inside) == 0;
  const T most = Across(
      found, [](VecOf<T> x, VecOf<T> y) __attribute__((always_inline)) { return Max(x, y); });
  if (!finite || most < (sizeof(T) == 4 ? static_cast<T>(1e-36) : static_cast<T>(1e-300))) return 0;
  using Bits = typename Fp<T>::Bits;
  constexpr int kMantissa = Fp<T>::kMantissa;
  Bits bits;
  memcpy(&bits, &most, sizeof(bits));
  bits = static_cast<Bits>(2 * Fp<T>::kBias - 1 - static_cast<int>(bits >> kMantissa)) << kMantissa;
  T scale;
  memcpy(&scale, &bits, sizeof(scale));
  return scale;
}

// Orthogonalise for the registers of a column.
template <typename T>
MR_OUTLINE bool OrthogonaliseColumns(T* g, int64_t stride, int64_t length, T* v, int64_t v_stride,
                                     int64_t n) {
  // Rounding errors of a product of columns are below this.
  const T tolerance = EpsilonOf<T>() * RootOf(static_cast<T>(length)) / 2;
  if (length == 2 * Fp<T>::kLanes && (v == nullptr || v_stride == length))
    return Orthogonalise<T, 2>(g, stride, length, v, v_stride, length, n, tolerance);
  return Orthogonalise<T, 0>(g, stride, length, v, v_stride, v_stride, n, tolerance);
}

// Sorts the places [0, n) by values, the smallest first with kIncreasing, and keeps the order of equal ones.
template <typename T, bool kIncreasing>
MR_INLINE void SortPlaces(const T* values, int64_t n, int32_t* places) {
  for (int32_t i = 0; i < n; ++i) {
    int32_t at = i;
    for (; at > 0; --at) {
      const T before = values[places[at - 1]];
      if (kIncreasing ? !(values[i] < before) : !(values[i] > before)) break;
      places[at] = places[at - 1];
    }
    places[at] = i;
  }
}

template <typename T>
MR_INLINE T NormOf(const T* v, int64_t length) {
  return RootOf(SumOfLanes<T>(PartialProduct<T, 0>(v, v, length)));
}

// m >= n; left: m x n, right: n x n, or both null.
template <typename T>
MR_OUTLINE bool TallSvd(const T* a, bool transposed, int64_t m, int64_t n, T* values, T* left, T* right) {
  const T scale = ScaleOf(a, m * n);
  if (scale == 0) return false;
  // With a = Q R, the columns of transposed(R) nearly are orthogonal, so that few rotations remain:
  // transposed(R) J = V S, and Q J = U.
  Scratch<T> g, q;
  SmallReflections<T> reflections;
  const int64_t stride = StrideOf<T>(n), long_stride = StrideOf<T>(m), even = n + n % 2;
  if (transposed) {
    LoadTransposed(a, m, n, m, g.values, stride);
  } else {
    LoadMatrix(a, m, n, g.values, stride);
  }
  for (int64_t i = 0; i < m * stride; i += Fp<T>::kLanes) Store(g.values + i, Load(g.values + i) * scale);
  if (!FactorQr(g.values, stride, m, n, &reflections)) return false;
  if (left != nullptr) {
    Scratch<T> rows;
    FormQ(reflections, m, n, n, rows.values, stride);
    LoadTransposed(rows.values, stride, m, n, q.values, long_stride);
  }
  for (int64_t i = 1; i < n; ++i) {
    T* const row = g.values + i * stride;
    for (int64_t c = 0; c < i; ++c) row[c] = 0;
  }
  if (even > n) {
    for (int64_t c = 0; c < stride; c += Fp<T>::kLanes) Store(g.values + n * stride + c, VecOf<T>{});
    for (int64_t c = 0; c < long_stride; c += Fp<T>::kLanes)
      Store(q.values + n * long_stride + c, VecOf<T>{});
  }
  if (!OrthogonaliseColumns(g.values, stride, stride, left != nullptr ? q.values : nullptr, long_stride,
                            even))
    return false;
  T norms[kMostSmall];
  int32_t places[kMostSmall];
  T most = 0;
  for (int64_t j = 0; j < n; ++j) {
    norms[j] = NormOf(g.values + j * stride, stride);
    most = norms[j] > most ? norms[j] : most;
  }
  for (int64_t j = 0; j < n; ++j) {
    if (!(norms[j] > most * EpsilonOf<T>() * static_cast<T>(m))) return false;
  }
  SortPlaces<T, false>(norms, n, places);
  for (int64_t j = 0; j < n; ++j) values[j] = norms[places[j]] / scale;
  if (left == nullptr) return true;
  for (int64_t j = 0; j < n; ++j) {
    T *const u = q.values + places[j] * long_stride, *const v = g.values + places[j] * stride;
    const T inverse = 1 / norms[places[j]];
    for (int64_t i = 0; i < n; ++i) right[i * n + j] = v[i] * inverse;
    for (int64_t i = 0; i < m; ++i) left[i * n + j] = u[i];
  }
  return true;
}

template <typename T>
static bool SvdOf(const T* a, int64_t m, int64_t n, T* values, T* u, T* v) {
  return m >= n ? TallSvd(a, false, m, n, values, u, v) : TallSvd(a, true, n, m, values, v, u);
}

template <typename T>
static bool SelfAdjointEigOf(const T* a, int64_t n, T* values, T* vectors) {
  constexpr int kLanes = Fp<T>::kLanes;
  Scratch<T> g, whole, products;
  const int64_t stride = ColumnStride<T>(n), even = n + n % 2;
  LoadMatrix(a, n, n, whole.values, stride);
  LoadTransposed(a, n, n, n, products.values, stride);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t c = 0; c < stride; c += kLanes) {
      const IntOf<T> below = LaneNumbers<T>() <= IntOf<T>{} + (decltype(+IntOf<T>{}[0]))(i - c);
      const int64_t at = i * stride + c;
      Store(whole.values + at, below ? Load(whole.values + at) : Load(products.values + at));
    }
  }
  const T scale = ScaleOf(whole.values, n * stride);
  if (scale == 0) return false;
  // Eigenvectors are those of the matrix plus `shift`, which is positive: with the factors L of that, L J =
  // V S.
  T shift = 0;
  for (int64_t i = 0; i < n; ++i) {
    VecOf<T> sum = {};
    for (int64_t c = 0; c < stride; c += kLanes) {
      const VecOf<T> row = Load(whole.values + i * stride + c) * scale;
      Store(whole.values + i * stride + c, row);
      sum += Abs(row);
    }
    const T size = SumOfLanes<T>(sum);
    shift = size > shift ? size : shift;
  }
  shift *= static_cast<T>(1.25);
  for (int64_t i = 0; i < n * stride; i += Fp<T>::kLanes) Store(g.values + i, Load(whole.values + i));
  for (int64_t i = 0; i < n; ++i) g.values[i * stride + i] += shift;
  if (!FactorCholesky(g.values, n)) return false;
  for (int64_t i = 1; i < n; ++i) {
    for (int64_t c = 0; c < i; ++c) g.values[i * stride + c] = 0;
  }
  if (even > n) {
    for (int64_t c = 0; c < stride; c += Fp<T>::kLanes) Store(g.values + n * stride + c, VecOf<T>{});
  }
  if (!OrthogonaliseColumns<T>(g.values, stride, stride, nullptr, 0, even)) return false;
  for (int64_t j = 0; j < n; ++j) {
    T* const column = g.values + j * stride;
    const T inverse = 1 / NormOf(column, stride);
    for (int64_t c = 0; c < stride; c += Fp<T>::kLanes) Store(column + c, Load(column + c) * inverse);
  }
  // The quotients of Rayleigh have no error of the shift.
  T quotients[kMostSmall];
  int32_t places[kMostSmall];
  Multiply(Factor<T>{g.values, stride, 1}, n, n, whole.values, stride, products.values);
  for (int64_t j = 0; j < n; ++j) {
    quotients[j] =
        SumOfLanes<T>(PartialProduct<T, 0>(products.values + j * stride, g.values + j * stride, stride));
  }
  SortPlaces<T, true>(quotients, n, places);
  for (int64_t j = 0; j < n; ++j) values[j] = quotients[places[j]] / scale;
  if (vectors == nullptr) return true;
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t c = 0; c < stride; c += kLanes)
      Store(products.values + j * stride + c, Load(g.values + places[j] * stride + c));
  }
  StoreTransposed(products.values, stride, n, n, nullptr, vectors);
  return true;
}

template <typename T>
MR_INLINE T FrobeniusNorm(const T* a, int64_t stride, int64_t n) {
  T sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t c = 0; c < n; ++c) sum += a[i * stride + c] * a[i * stride + c];
  }
  return RootOf(sum);
}

// By the iteration of Denman and Beavers for products: with m = x^2 / a, which becomes one, x = x (1 + 1 / m)
// / 2 and m = (1 + (m + 1 / m) / 2) / 2, scaled by determinants until m is near one.
template <typename T>
static bool SquareRootOf(const T* a, int64_t n, T* out) {
  constexpr int kMostSteps = 16;
  constexpr int kLanes = Fp<T>::kLanes;
  const T end = sizeof(T) == 4 ? static_cast<T>(2e-4) : static_cast<T>(1e-8);
  if (ScaleOf(a, n * n) == 0) return false;
  const int64_t stride = StrideOf<T>(n);
  Scratch<T> x, m, inverse, products;
  T dense[kMostSmall * kMostSmall];
  LoadMatrix(a, n, n, x.values, stride);
  LoadMatrix(a, n, n, m.values, stride);
  for (int64_t i = 0; i < n * n; ++i) dense[i] = a[i];
  bool near = false;
  for (int step = 0;; ++step) {
    if (step == kMostSteps) return false;
    SmallLu<T> lu;
    FactorLu(dense, n, false, &lu);
    if (!lu.regular) return false;
    T diagonal[kMostSmall];
    const Factor<T> factor{lu.columns.values, 1, lu.stride, lu.order};
    InvertDiagonal(factor, n, diagonal);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t c = 0; c < stride; c += kLanes) Store(inverse.values + i * stride + c, VecOf<T>{});
      inverse.values[i * stride + lu.order[i]] = 1;
    }
    SolveLu(lu, diagonal, inverse.values, stride, n);
    // The determinant of m to the power of -1 / (2 n).
    T scale = 1;
    if (!near) {
      double log = 0;
      for (int64_t i = 0; i < n; ++i) log += __builtin_log(static_cast<double>(AbsOf(diagonal[i])));
      scale = static_cast<T>(__builtin_exp(log / static_cast<double>(2 * n)));
      if (!(scale > static_cast<T>(1e-15) && scale < static_cast<T>(1e15))) return false;
    }
    // x becomes scale (x + x / (scale^2 m)) / 2.
    const T square = scale * scale, back = 1 / square;
    Multiply(Factor<T>{x.values, stride, 1}, n, n, inverse.values, stride, products.values);
    T change = 0;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t c = 0; c < stride; c += kLanes) {
        T *const at = x.values + i * stride + c, *const mean = m.values + i * stride + c;
        Store(at, (Load(at) + Load(products.values + i * stride + c) * back) * (scale / 2));
        Store(mean, (Load(mean) * square + Load(inverse.values + i * stride + c) * back) * T(0.25));
      }
      m.values[i * stride + i] += T(0.5);
      for (int64_t c = 0; c < n; ++c) {
        const T value = m.values[i * stride + c], rest = value - (c == i ? T(1) : T(0));
        dense[i * n + c] = value;
        change += rest * rest;
      }
    }
    if (!(change < static_cast<T>(1e30))) return false;
    // The next error is about the square of this one.
    if (RootOf(change) < end) break;
    near = RootOf(change) < static_cast<T>(0.1);
  }
  // One more step for x alone: 1 / m is 2 - m.
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t c = 0; c < stride; c += kLanes)
      Store(inverse.values + i * stride + c, Load(m.values + i * stride + c) * T(-0.5));
    inverse.values[i * stride + i] += T(1.5);
  }
  Multiply(Factor<T>{x.values, stride, 1}, n, n, inverse.values, stride, products.values);
  // As exact as the root of a triangular factor.
  Multiply(Factor<T>{products.values, stride, 1}, n, n, products.values, stride, x.values);
  const T size = FrobeniusNorm(products.values, stride, n);
  T rest = 0;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t c = 0; c < n; ++c) {
      const T difference = x.values[i * stride + c] - a[i * n + c];
      rest += difference * difference;
    }
  }
  if (!(RootOf(rest) <= 4 * static_cast<T>(n) * EpsilonOf<T>() * size * size)) return false;
  StoreMatrix(products.values, stride, n, n, out);
  return true;
}

}  // namespace millrace::cpu::MR_ISA
