// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Q and R by reflections (Householder), on rows.
#pragma once

#include "kernels/cpu/linalg/small_vectors.inc.h"

namespace millrace::cpu::MR_ISA {

template <typename T>
struct SmallReflections {
  Scratch<T> vectors;          // row k: vector k from its number k on
  T factors[kMostSmall] = {};  // 1 - factor * v * transposed(v)
};

// Reflects registers [0, kW) of rows [begin, m).
template <typename T, int kW>
MR_INLINE void ReflectColumns(const T* v, T factor, T* a, int64_t stride, int64_t begin, int64_t m) {
  constexpr int kLanes = Fp<T>::kLanes;
  constexpr int kParts = 4;
  VecOf<T> sums[kParts][kW] = {};
  int64_t i = begin;
  for (; i + kParts <= m; i += kParts) {
    for (int p = 0; p < kParts; ++p) {
      const VecOf<T> by = Set(v[i + p]);
      for (int w = 0; w < kW; ++w) sums[p][w] += by * Load(a + (i + p) * stride + w * kLanes);
    }
  }
  for (; i < m; ++i) {
    const VecOf<T> by = Set(v[i]);
    for (int w = 0; w < kW; ++w) sums[0][w] += by * Load(a + i * stride + w * kLanes);
  }
  VecOf<T> sum[kW];
  for (int w = 0; w < kW; ++w) sum[w] = ((sums[0][w] + sums[1][w]) + (sums[2][w] + sums[3][w])) * factor;
  for (i = begin; i < m; ++i) {
    const VecOf<T> by = Set(v[i]);
    for (int w = 0; w < kW; ++w) {
      T* const to = a + i * stride + w * kLanes;
      Store(to, Load(to) - by * sum[w]);
    }
  }
}

// Reflects the registers of rows [begin, m) from that of column `from` on.
template <typename T>
MR_INLINE void Reflect(const T* v, T factor, T* a, int64_t stride, int64_t from, int64_t begin, int64_t m) {
  constexpr int kLanes = Fp<T>::kLanes;
  int64_t c = from / kLanes * kLanes;
  for (; c + 2 * kLanes <= stride; c += 2 * kLanes) ReflectColumns<T, 2>(v, factor, a + c, stride, begin, m);
  if (c < stride) ReflectColumns<T, 1>(v, factor, a + c, stride, begin, m);
}

// a (m x n) becomes R, of which the parts below the diagonal have no meaning. False: sums of squares leave
// the range of T.
template <typename T>
MR_OUTLINE bool FactorQr(T* a, int64_t stride, int64_t m, int64_t n, SmallReflections<T>* reflections) {
  constexpr T kLeast = sizeof(T) == 4 ? static_cast<T>(1e-30) : static_cast<T>(1e-290);
  const int64_t count = Smaller(m, n);
  for (int64_t k = 0; k < count; ++k) {
    T* const v = reflections->vectors.values + k * kMostSmall;
    T sums[4] = {}, rest = 0;
    int64_t i = k + 1;
    for (; i + 4 <= m; i += 4) {
      for (int p = 0; p < 4; ++p) {
        const T x = a[(i + p) * stride + k];
        v[i + p] = x;
        sums[p] += x * x;
      }
    }
    for (; i < m; ++i) {
      const T x = a[i * stride + k];
      v[i] = x;
      rest += x * x;
    }
    const T tail = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + rest, first = a[k * stride + k];
    v[k] = 0;
    reflections->factors[k] = 0;
    const T squares = first * first + tail;
    if (!(squares < 1 / kLeast)) return false;
    if (tail < kLeast) {
      if (tail > 0) return false;
      for (i = k + 1; i < m; ++i) {
        if (a[i * stride + k] != 0) return false;
      }
      continue;
    }
    const T norm = RootOf(squares), beta = first >= 0 ? -norm : norm;
    v[k] = first - beta;
    const T factor = -1 / (beta * v[k]);
    reflections->factors[k] = factor;
    if (k + 1 < n) Reflect(v, factor, a, stride, k + 1, k, m);
    a[k * stride + k] = beta;
  }
  return true;
}

// `columns` columns of Q.
template <typename T>
MR_OUTLINE void FormQ(const SmallReflections<T>& reflections, int64_t m, int64_t count, int64_t columns, T* q,
                      int64_t stride) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t c = 0; c < stride; c += Fp<T>::kLanes) Store(q + i * stride + c, VecOf<T>{});
    if (i < columns) q[i * stride + i] = 1;
  }
  for (int64_t k = count; k-- > 0;) {
    if (reflections.factors[k] == 0) continue;
    Reflect(reflections.vectors.values + k * kMostSmall, reflections.factors[k], q, stride, k, k, m);
  }
}

}  // namespace millrace::cpu::MR_ISA
