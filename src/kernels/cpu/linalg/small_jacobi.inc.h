// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Singular values and eigenvalues by rotations of pairs of columns until they are orthogonal (Jacobi,
// Hestenes). The columns are paired in a round robin, so that the rotations of a round are independent: their
// angles are lanes of registers.
#pragma once

#include "kernels/cpu/linalg/small_lu.inc.h"
#include "kernels/cpu/linalg/small_qr.inc.h"
#include "kernels/cpu/linalg/small_solve.inc.h"

#define MR_INLINE_MEMBER inline __attribute__((always_inline))

namespace millrace::cpu::MR_ISA {

constexpr int kMostPairs = kMostSmall / 2;

// The squares and angles of the pairs of a round.
template <typename T>
struct Positions {
  alignas(64) T top_squares[kMostPairs];
  alignas(64) T bottom_squares[kMostPairs];
  alignas(64) T cosines[kMostPairs];
  alignas(64) T sines[kMostPairs];
};

// Round-robin pairing of columns: column 0 is fixed, the others rotate by one position in each round.
struct Ring {
  int64_t pairs;
  int32_t columns[4 * kMostPairs];  // of the ring, twice
  const int32_t* positions;         // of this round, in `columns`

  MR_INLINE_MEMBER explicit Ring(int64_t n) : pairs(n / 2) {
    const int64_t others = n - 1;
    for (int64_t i = 1; i < pairs; ++i) columns[i - 1] = static_cast<int32_t>(2 * i);
    for (int64_t i = 0; i < pairs; ++i) columns[others - 1 - i] = static_cast<int32_t>(2 * i + 1);
    for (int64_t i = 0; i < others; ++i) columns[others + i] = columns[i];
    Start();
  }
  MR_INLINE_MEMBER void Start() { positions = columns + 2 * pairs - 1; }
  MR_INLINE_MEMBER void MoveOn() { --positions; }
  MR_INLINE_MEMBER int64_t Top(int64_t i) const { return i == 0 ? 0 : positions[i - 1]; }
  MR_INLINE_MEMBER int64_t Bottom(int64_t i) const { return positions[2 * pairs - 2 - i]; }
};

template <typename V, int... kLane>
MR_INLINE V LanesFrom(V a, V b, LaneList<kLane...>) {
  return __builtin_shufflevector(a, b, (kLane + 1)...);  // all but the first of a, and the first of b
}
template <typename V, int... kLane>
MR_INLINE V LanesUpTo(V a, V b, LaneList<kLane...>) {
  return __builtin_shufflevector(a, b, (kLane + static_cast<int>(sizeof...(kLane)) - 1)...);
}

// The squares move with their columns, in registers: loads of parts that were just stored would wait.
template <typename T>
MR_INLINE void MoveSquares(Positions<T>* positions, int64_t pairs) {
  using Lanes = typename ListOf<Fp<T>::kLanes>::Lanes;
  using Number = decltype(+IntOf<T>{}[0]);
  constexpr int kLanes = Fp<T>::kLanes, kRegisters = (kMostPairs + kLanes - 1) / kLanes;
  if (pairs < 2) return;
  const IntOf<T> lanes = LaneNumbers<T>();
  const T first = positions->bottom_squares[0], last = positions->top_squares[pairs - 1],
          stays = positions->top_squares[0];
  VecOf<T> top[kRegisters + 1] = {}, bottom[kRegisters + 1] = {};
  const int64_t count = (pairs + kLanes - 1) / kLanes;
  for (int64_t r = 0; r < count; ++r) {
    top[r + 1] = Load(positions->top_squares + r * kLanes);
    bottom[r] = Load(positions->bottom_squares + r * kLanes);
  }
  for (int64_t r = 0; r < count; ++r) {
    const IntOf<T> place = lanes + (Number)(r * kLanes);
    VecOf<T> moved = LanesUpTo(top[r], top[r + 1], Lanes());
    moved = place == Number{0} ? Set(stays) : place == Number{1} ? Set(first) : moved;
    Store(positions->top_squares + r * kLanes, place < (Number)pairs ? moved : VecOf<T>{});
    const VecOf<T> rest = LanesFrom(bottom[r], bottom[r + 1], Lanes());
    Store(positions->bottom_squares + r * kLanes, place == (Number)(pairs - 1) ? Set(last) : rest);
  }
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

// 1 / sqrt(x) and 1 / x of positive numbers, to a part in 10^4 or better.
#if defined(__AVX512F__)
MR_INLINE VecF NearInverseRoot(VecF x) { return (VecF)_mm512_rsqrt14_ps((__m512)x); }
MR_INLINE VecF NearInverse(VecF x) { return (VecF)_mm512_rcp14_ps((__m512)x); }
MR_INLINE VecD NearInverseRoot(VecD x) {
  const VecD y = (VecD)_mm512_rsqrt14_pd((__m512d)x);
  return y * (1.5 - 0.5 * x * y * y);
}
MR_INLINE VecD NearInverse(VecD x) {
  const VecD y = (VecD)_mm512_rcp14_pd((__m512d)x);
  return y * (2 - x * y);
}
// To the precision of the type.
template <typename V>
MR_INLINE V InverseRoot(V x) {
  using T = typename ElementOf<V>::T;
  const V y = NearInverseRoot(x);
  return y * (T(1.5) - T(0.5) * x * y * y);
}
#else
template <typename V>
MR_INLINE V NearInverseRoot(V x) {
  return 1 / Sqrt(x);
}
template <typename V>
MR_INLINE V NearInverse(V x) {
  return 1 / x;
}
template <typename V>
MR_INLINE V InverseRoot(V x) {
  return 1 / Sqrt(x);
}
#endif

// What a round did: whether it rotated, and whether by more than a little.
struct Turns {
  bool any = false, large = false;
};

// Angles of a round. Columns are orthogonal if the square of their product is below `limit` times their
// squares. A rotation is a little one if both its tangent and the product, in the same way, are below
// `little`.
template <typename T>
MR_INLINE void Angles(VecOf<T> gamma, T limit, T little, int64_t begin, Positions<T>* positions,
                      Turns* turns) {
  using Vec = VecOf<T>;
  constexpr T kLeast = sizeof(T) == 4 ? static_cast<T>(1e-35) : static_cast<T>(1e-300);
  const Vec alpha = Load(positions->top_squares + begin), beta = Load(positions->bottom_squares + begin);
  const Vec difference = beta - alpha, twice = gamma + gamma;
  const Vec square = difference * difference + twice * twice, product = alpha * beta;
  // Columns whose squares vanish beside the largest, 1, are as they are.
  const auto wanted = (gamma * gamma > product * limit) & (square > kLeast);
  if (Bits((IntOf<T>)wanted) == 0) {
    Store(positions->cosines + begin, Vec{} + 1);
    Store(positions->sines + begin, Vec{});
    return;
  }
  const Vec safe = wanted ? square : Vec{} + 1;
  // The tangent may be inexact: rotations are not.
  const Vec below = Abs(difference) + safe * NearInverseRoot(safe);
  const Vec size = CopySign(twice, (Vec)((IntOf<T>)difference ^ (IntOf<T>)twice));
  const Vec tangent = wanted ? size * NearInverse(below) : Vec{};
  const Vec cosine = wanted ? InverseRoot(1 + tangent * tangent) : Vec{} + 1;
  Store(positions->cosines + begin, cosine);
  Store(positions->sines + begin, cosine * tangent);
  Store(positions->top_squares + begin, alpha - tangent * gamma);
  Store(positions->bottom_squares + begin, beta + tangent * gamma);
  turns->any = true;
  const auto large = ((gamma * gamma > product * little) | (tangent * tangent > little)) & wanted;
  turns->large |= Bits((IntOf<T>)large) != 0;
}

// (p, q) = (c p - s q, s p + c q) of registers, in memory too.
template <typename T, int kW>
MR_INLINE void RotateRegisters(T* p, T* q, T cosine, T sine, VecOf<T>* top, VecOf<T>* bottom) {
  constexpr int kLanes = Fp<T>::kLanes;
  const VecOf<T> c = Set(cosine), s = Set(sine);
  for (int w = 0; w < kW; ++w) {
    const VecOf<T> a = Load(p + w * kLanes), b = Load(q + w * kLanes);
    top[w] = c * a - s * b;
    bottom[w] = s * a + c * b;
    Store(p + w * kLanes, top[w]);
    Store(q + w * kLanes, bottom[w]);
  }
}
template <typename T, int kW>
MR_INLINE VecOf<T> ProductOfRegisters(const VecOf<T>* a, const VecOf<T>* b) {
  VecOf<T> sum = a[0] * b[0];
  for (int w = 1; w < kW; ++w) sum += a[w] * b[w];
  return sum;
}

// Rotates the pairs of a round, at most kLanes of them; the products of the pairs of the next one.
template <typename T, int kW>
MR_INLINE VecOf<T> RotateForNext(const Ring& ring, const Positions<T>& positions, T* g, int64_t stride) {
  constexpr int kLanes = Fp<T>::kLanes;
  const int64_t pairs = ring.pairs;
  VecOf<T> block[kLanes];
  for (int64_t i = pairs; i < kLanes; ++i) block[i] = VecOf<T>{};
  // The one that is paired with the bottom of this pair in the next round, and that of the next pair.
  VecOf<T> held[kW], last[kW], bottom[kW];
  RotateRegisters<T, kW>(g, g + ring.Bottom(0) * stride, positions.cosines[0], positions.sines[0], held,
                         last);
  const int32_t *const tops = ring.positions - 1, *const bottoms = ring.positions + 2 * pairs - 2;
  for (int64_t i = 1; i < pairs; ++i) {
    VecOf<T> top[kW];
    RotateRegisters<T, kW>(g + tops[i] * stride, g + bottoms[-i] * stride, positions.cosines[i],
                           positions.sines[i], top, bottom);
    block[i - 1] = ProductOfRegisters<T, kW>(held, bottom);
    for (int w = 0; w < kW; ++w) {
      held[w] = last[w];
      last[w] = top[w];
    }
  }
  block[pairs - 1] = ProductOfRegisters<T, kW>(held, last);
  return SumsOfRegisters<T>(block);
}

template <typename T, int kW>
MR_INLINE VecOf<T> ProductsOfPairs(const Ring& ring, int64_t begin, const T* g, int64_t stride,
                                   int64_t length) {
  constexpr int kLanes = Fp<T>::kLanes;
  VecOf<T> block[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) {
    block[i] = begin + i < ring.pairs ? PartialProduct<T, kW>(g + ring.Top(begin + i) * stride,
                                                              g + ring.Bottom(begin + i) * stride, length)
                                      : VecOf<T>{};
  }
  return SumsOfRegisters<T>(block);
}

// The columns of g (n of them, n being even, g + j * stride, of `length` numbers, a multiple of lanes) become
// orthogonal; those of v, if it is not null, are rotated with them. The largest number of g is about 1.
template <typename T, int kW>
MR_INLINE bool Orthogonalise(T* g, int64_t stride, int64_t length, T* v, int64_t v_stride, int64_t v_length,
                             int64_t n, T tolerance) {
  constexpr int kLanes = Fp<T>::kLanes;
  constexpr int kMostSweeps = 30;
  const int64_t pairs = n / 2;
  // After a sweep of rotations by a little the products are below the tolerance: each was changed 2 n times
  // by a little of another.
  const T limit = tolerance * tolerance, little = tolerance / static_cast<T>(2 * n);
  Positions<T> positions = {};
  Ring ring(n);
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    for (int64_t i = 0; i < pairs; ++i) {
      const T *const p = g + ring.Top(i) * stride, *const q = g + ring.Bottom(i) * stride;
      positions.top_squares[i] = SumOfLanes<T>(PartialProduct<T, kW>(p, p, length));
      positions.bottom_squares[i] = SumOfLanes<T>(PartialProduct<T, kW>(q, q, length));
    }
    Turns all;
    VecOf<T> next;
    bool known = false;
    for (int64_t round = 0; round + 1 < n; ++round) {
      Turns turns;
      for (int64_t begin = 0; begin < pairs; begin += kLanes) {
        const VecOf<T> products = known ? next : ProductsOfPairs<T, kW>(ring, begin, g, stride, length);
        Angles<T>(products, limit, little, begin, &positions, &turns);
      }
      known = false;
      if (turns.any) {
        all.any = true;
        all.large |= turns.large;
        if constexpr (kW > 0) {
          if (pairs <= kLanes && pairs > 1) {
            next = RotateForNext<T, kW>(ring, positions, g, stride);
            known = true;
          }
        }
        for (int64_t i = 0; i < pairs; ++i) {
          const T c = positions.cosines[i], s = positions.sines[i];
          const int64_t top = ring.Top(i), bottom = ring.Bottom(i);
          if (!known) RotatePair<T, kW>(g + top * stride, g + bottom * stride, c, s, length);
          if (v != nullptr) RotatePair<T, kW>(v + top * v_stride, v + bottom * v_stride, c, s, v_length);
        }
      }
      ring.MoveOn();
      MoveSquares(&positions, pairs);
    }
    ring.Start();
    if (!all.large) return true;
  }
  return false;
}

}  // namespace millrace::cpu::MR_ISA
