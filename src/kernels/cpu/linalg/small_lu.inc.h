// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Triangular factors. Matrices are held by columns, so that the search for a pivot and the factors of a step
// are in registers; rows are not moved but marked as done.
#pragma once

#include "kernels/cpu/linalg/small_vectors.inc.h"

namespace millrace::cpu::MR_ISA {

template <typename T>
struct SmallLu {
  Scratch<T> columns;  // as those of the input, row order[i] being row i of both factors
  int64_t stride = 0;
  int32_t order[kMostSmall];
  int32_t place[kMostSmall];  // the inverse of order
  bool odd = false, regular = true;
};

// The one of the rows that is first in the order so far.
MR_INLINE int FirstPlaced(uint64_t rows, const int32_t* place) {
  int first = __builtin_ctzll(rows);
  for (rows &= rows - 1; rows != 0; rows &= rows - 1) {
    const int row = __builtin_ctzll(rows);
    if (place[row] < place[first]) first = row;
  }
  return first;
}

// The pivot of column k, and the factors of a step in the rows that are left; zero in the others.
template <typename T, int kV>
struct LuStep {
  int pivot;
  VecOf<T> factors[kV];
};

template <typename T, int kV>
MR_INLINE void ChoosePivot(T* column, int64_t k, IntOf<T>* live, SmallLu<T>* lu, LuStep<T, kV>* step) {
  using Vec = VecOf<T>;
  using Int = IntOf<T>;
  constexpr int kLanes = Fp<T>::kLanes;
  // Sizes by their bits: NaN is larger than numbers.
  Int keys[kV], most = Int{} - 1;
  for (int v = 0; v < kV; ++v) {
    keys[v] = (Int)Abs(Load(column + v * kLanes)) | ~live[v];
    most = Larger<T>(most, keys[v]);
  }
  most = LargestLane<T>(most);
  uint64_t found = 0;
  for (int v = 0; v < kV; ++v) found |= Bits((Int)(keys[v] == most)) << (v * kLanes);
  int pivot = __builtin_ctzll(found);
  if ((found & (found - 1)) != 0) pivot = FirstPlaced(found, lu->place);
  const T divisor = column[pivot];
  // Quotients by the size of the pivot do not wait for its place, on which only their sign depends.
  const Vec size = (Vec)most;
  const auto sign = (Int)(VecOf<T>)(Set(divisor)) & (Int)(-Vec{});
  const Int lanes = LaneNumbers<T>();
  for (int v = 0; v < kV; ++v) {
    live[v] = lanes == Int{} + (decltype(+lanes[0]))(pivot - v * kLanes) ? Int{} : live[v];
    const Vec old = Load(column + v * kLanes);
    const Vec factor = divisor == 0 ? old : (Vec)((Int)(old / size) ^ sign);
    Store(column + v * kLanes, live[v] ? factor : old);
    step->factors[v] = live[v] && divisor != 0 ? factor : Vec{};
  }
  step->pivot = pivot;
  const int32_t moved = lu->order[k], hole = lu->place[pivot];
  lu->order[hole] = moved;
  lu->place[moved] = hole;
  lu->order[k] = pivot;
  lu->place[pivot] = static_cast<int32_t>(k);
  lu->odd ^= hole != k;
  lu->regular &= AbsOf(divisor) > 0;
}

template <typename T, int kV>
MR_INLINE void Eliminate(const LuStep<T, kV>& step, T* column) {
  const VecOf<T> by = Set(column[step.pivot]);
  for (int v = 0; v < kV; ++v) {
    T* const to = column + v * Fp<T>::kLanes;
    Store(to, Load(to) - step.factors[v] * by);
  }
}

template <typename T, int kV>
MR_INLINE void FactorColumns(T* a, int64_t n, SmallLu<T>* lu) {
  using Int = IntOf<T>;
  constexpr int kLanes = Fp<T>::kLanes;
  constexpr int64_t kStride = kV * kLanes;
  const Int lanes = LaneNumbers<T>();
  Int live[kV];
  for (int v = 0; v < kV; ++v) live[v] = lanes < Int{} + (decltype(+lanes[0]))(n - v * kLanes);
  for (int i = 0; i < n; ++i) lu->order[i] = lu->place[i] = i;
  LuStep<T, kV> step;
  ChoosePivot<T, kV>(a, 0, live, lu, &step);
  for (int64_t k = 0; k + 1 < n; ++k) {
    // The next pivot is searched for before the other columns follow, which hide how long it takes.
    LuStep<T, kV> next;
    T* const column = a + (k + 1) * kStride;
    Eliminate(step, column);
    ChoosePivot<T, kV>(column, k + 1, live, lu, &next);
    for (int64_t j = k + 2; j < n; ++j) Eliminate(step, a + j * kStride);
    step = next;
  }
}

template <typename T>
MR_OUTLINE void FactorLu(const T* a, int64_t n, bool adjoint, SmallLu<T>* lu) {
  WithRegisters<T>(
      n, [=]<int kV>() __attribute__((always_inline)) {
        lu->stride = kV * Fp<T>::kLanes;
        T* const to = lu->columns.values;
        if (adjoint) {
          LoadMatrix(a, n, n, to, lu->stride);
        } else {
          LoadTransposed(a, n, n, n, to, lu->stride);
        }
        FactorColumns<T, kV>(to, n, lu);
      });
}

// Subtracts the factors, of which those from register kFrom on count, times column[j] from the columns j that
// begin in that register.
template <typename T, int kV, int kFrom>
MR_INLINE void SubtractColumns(T* a, const T* column, const VecOf<T>* factors, int64_t begin, int64_t n) {
  constexpr int kLanes = Fp<T>::kLanes;
  const int64_t end = Smaller(n, (kFrom + 1) * kLanes);
  for (int64_t j = begin; j < end; ++j) {
    const VecOf<T> by = Set(column[j]);
    T* const to = a + j * kV * kLanes;
    for (int v = kFrom; v < kV; ++v) Store(to + v * kLanes, Load(to + v * kLanes) - factors[v] * by);
  }
  if constexpr (kFrom + 1 < kV) {
    if (end < n) SubtractColumns<T, kV, kFrom + 1>(a, column, factors, begin > end ? begin : end, n);
  }
}

// a = L D transposed(L): the columns become those of L D, without the parts above the diagonal, which lose
// their meaning. False if a pivot is not positive.
template <typename T, int kV>
MR_INLINE bool EliminateSymmetric(T* a, int64_t n) {
  constexpr int kLanes = Fp<T>::kLanes;
  constexpr int64_t kStride = kV * kLanes;
  VecOf<T> factors[kV];
  for (int v = 0; v < kV; ++v) factors[v] = Load(a + v * kLanes) * (1 / a[0]);
  for (int64_t k = 0; k + 1 < n; ++k) {
    if (a[k * kStride + k] <= 0) return false;
    // The next pivot is divided by before the other columns follow, which hide how long it takes.
    T *const column = a + k * kStride, *const to = column + kStride;
    const VecOf<T> by = Set(column[k + 1]);
    VecOf<T> next[kV];
    for (int v = 0; v < kV; ++v) {
      next[v] = Load(to + v * kLanes) - factors[v] * by;
      Store(to + v * kLanes, next[v]);
    }
    const T inverse = 1 / to[k + 1];
    if (k + 2 < n) SubtractColumns<T, kV, 0>(a, column, factors, k + 2, n);
    for (int v = 0; v < kV; ++v) factors[v] = next[v] * inverse;
  }
  return !(a[(n - 1) * kStride + n - 1] <= 0);
}

// L of the columns of L D, with zeros above the diagonal.
template <typename T, int kV>
MR_INLINE void ScaleColumns(T* columns, int64_t n) {
  constexpr int kLanes = Fp<T>::kLanes;
  using Lane = decltype(+IntOf<T>{}[0]);
  alignas(64) T roots[kMostSmall + kLanes], inverses[kMostSmall + kLanes];
  for (int64_t k = 0; k < n; ++k) roots[k] = columns[k * (kV * kLanes + 1)];
  for (int64_t k = n; k < n + kLanes; ++k) roots[k] = 1;
  for (int64_t k = 0; k < n; k += kLanes) {
    const VecOf<T> root = Sqrt(Load(roots + k));
    Store(roots + k, root);
    Store(inverses + k, 1 / root);
  }
  const IntOf<T> lanes = LaneNumbers<T>();
  for (int64_t k = 0; k < n; ++k) {
    const IntOf<T> place = IntOf<T>{} + static_cast<Lane>(k);
    for (int v = 0; v < kV; ++v) {
      T* const at = columns + (k * kV + v) * kLanes;
      const IntOf<T> rows = lanes + static_cast<Lane>(v * kLanes);
      const VecOf<T> scaled = rows < place ? VecOf<T>{} : Load(at) * inverses[k];
      Store(at, rows == place ? Set(roots[k]) : scaled);
    }
  }
}

// Of columns of ColumnStride(n) numbers, the lower half of which counts: the columns of L. False if a pivot
// is not positive.
template <typename T>
MR_OUTLINE bool FactorCholesky(T* columns, int64_t n) {
  return WithRegisters<T>(
      n, [=]<int kV>() __attribute__((always_inline)) {
        if (!EliminateSymmetric<T, kV>(columns, n)) return false;
        ScaleColumns<T, kV>(columns, n);
        return true;
      });
}

// The stride of columns that the functions above require.
template <typename T>
MR_INLINE int64_t ColumnStride(int64_t n) {
  return WithRegisters<T>(
      n, []<int kV>() __attribute__((always_inline)) { return int64_t{kV * Fp<T>::kLanes}; });
}

}  // namespace millrace::cpu::MR_ISA
