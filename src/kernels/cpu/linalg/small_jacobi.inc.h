// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Singular values and eigenvalues by rotations of pairs of columns until they are orthogonal (Jacobi,
// Hestenes). The columns meet in a round robin, so that the rotations of a round are independent: their
// angles are lanes of registers.
#pragma once

#include "kernels/cpu/linalg/small_lu.inc.h"
#include "kernels/cpu/linalg/small_qr.inc.h"
#include "kernels/cpu/linalg/small_solve.inc.h"

namespace millrace::cpu::MR_ISA {

constexpr int kMostPairs = kMostSmall / 2;

// The columns of a round: number i of both arrays are a pair.
template <typename T>
struct Seats {
  int64_t pairs;  // rounded up to lanes; those behind are of columns that do not exist, and rest
  int32_t top[kMostPairs], bottom[kMostPairs];
  // Of the columns on these seats: sums of squares.
  alignas(64) T top_squares[kMostPairs];
  alignas(64) T bottom_squares[kMostPairs];
  alignas(64) T cosines[kMostPairs];
  alignas(64) T sines[kMostPairs];
};

template <typename X>
MR_INLINE void MoveSeats(X* top, X* bottom, int64_t pairs) {
  if (pairs < 2) return;
  const X last = top[pairs - 1], first = bottom[0];
  for (int64_t i = pairs - 1; i > 1; --i) top[i] = top[i - 1];
  top[1] = first;
  for (int64_t i = 0; i + 1 < pairs; ++i) bottom[i] = bottom[i + 1];
  bottom[pairs - 1] = last;
}

template <typename T, int kW>
MR_INLINE VecOf<T> PartialProduct(const T* p, const T* q, int64_t length) {
  constexpr int kLanes = Fp<T>::kLanes;
  VecOf<T> sum = Load(p) * Load(q);
  if constexpr (kW > 0) {
    for (int w = 1; w < kW; ++w) sum += Load(p + w * kLanes) * Load(q + w * kLanes);
  } else {
    for (int64_t i = kLanes; i < length; i += kLanes) sum += Load(p + i) * Load(q + i);
  }
  return sum;
}

// (p, q) = (c p - s q, s p + c q)
template <typename T, int kW>
MR_INLINE void RotatePair(T* p, T* q, T c, T s, int64_t length) {
  constexpr int kLanes = Fp<T>::kLanes;
  const VecOf<T> cosine = Set(c), sine = Set(s);
  const int64_t end = kW > 0 ? kW * kLanes : length;
  for (int64_t i = 0; i < end; i += kLanes) {
    const VecOf<T> a = Load(p + i), b = Load(q + i);
    Store(p + i, cosine * a - sine * b);
    Store(q + i, sine * a + cosine * b);
  }
}

// Angles of a round; whether any is not zero.
template <typename T>
MR_INLINE bool Angles(const T* products, T tolerance, int64_t begin, Seats<T>* seats) {
  using Vec = VecOf<T>;
  const Vec gamma = Load(products);
  const Vec alpha = Load(seats->top_squares + begin), beta = Load(seats->bottom_squares + begin);
  const Vec difference = beta - alpha, twice = gamma + gamma;
  const Vec below = Abs(difference) + Sqrt(difference * difference + twice * twice);
  // Columns whose squares vanish beside the largest, 1, are as they are.
  const auto wanted = (gamma * gamma > (alpha * beta) * (tolerance * tolerance)) & (below > Vec{});
  const Vec tangent = wanted ? CopySign(twice, (Vec)((IntOf<T>)difference ^ (IntOf<T>)twice)) / below : Vec{};
  const Vec cosine = 1 / Sqrt(1 + tangent * tangent);
  Store(seats->cosines + begin, cosine);
  Store(seats->sines + begin, cosine * tangent);
  Store(seats->top_squares + begin, alpha - tangent * gamma);
  Store(seats->bottom_squares + begin, beta + tangent * gamma);
  return Bits((IntOf<T>)wanted) != 0;
}

// The columns of g (n of them, n being even, g + j * stride, of `length` numbers, a multiple of lanes) become
// orthogonal; those of v, if it is not null, are rotated with them. The largest number of g is about 1.
template <typename T, int kW>
MR_INLINE bool Orthogonalise(T* g, int64_t stride, int64_t length, T* v, int64_t v_stride, int64_t v_length,
                             int64_t n, T tolerance) {
  constexpr int kLanes = Fp<T>::kLanes;
  constexpr int kMostSweeps = 30;
  const int64_t pairs = n / 2;
  Seats<T> seats = {};
  alignas(64) T products[kMostPairs];
  for (int64_t i = 0; i < pairs; ++i) {
    seats.top[i] = static_cast<int32_t>(2 * i);
    seats.bottom[i] = static_cast<int32_t>(2 * i + 1);
  }
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    for (int64_t i = 0; i < pairs; ++i) {
      const T *const p = g + seats.top[i] * stride, *const q = g + seats.bottom[i] * stride;
      seats.top_squares[i] = SumOfLanes<T>(PartialProduct<T, kW>(p, p, length));
      seats.bottom_squares[i] = SumOfLanes<T>(PartialProduct<T, kW>(q, q, length));
    }
    bool rotated = false;
    for (int64_t round = 0; round + 1 < n; ++round) {
      bool any = false;
      for (int64_t begin = 0; begin < pairs; begin += kLanes) {
        VecOf<T> block[kLanes];
        for (int64_t i = 0; i < kLanes; ++i) {
          block[i] = begin + i < pairs ? PartialProduct<T, kW>(g + seats.top[begin + i] * stride,
                                                               g + seats.bottom[begin + i] * stride, length)
                                       : VecOf<T>{};
        }
        Store(products + begin, SumsOfRegisters<T>(block));
        any |= Angles(products + begin, tolerance, begin, &seats);
      }
      if (any) {
        rotated = true;
        for (int64_t i = 0; i < pairs; ++i) {
          const T c = seats.cosines[i], s = seats.sines[i];
          RotatePair<T, kW>(g + seats.top[i] * stride, g + seats.bottom[i] * stride, c, s, length);
          if (v != nullptr)
            RotatePair<T, kW>(v + seats.top[i] * v_stride, v + seats.bottom[i] * v_stride, c, s, v_length);
        }
      }
      MoveSeats(seats.top, seats.bottom, pairs);
      MoveSeats(seats.top_squares, seats.bottom_squares, pairs);
    }
    if (!rotated) return true;
  }
  return false;
}

}  // namespace millrace::cpu::MR_ISA
