// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Logarithms of small complex matrices in double precision. All real parts of a matrix lie before all
// imaginary ones, by rows of `stride` numbers; those behind the end of a row are zero.
#pragma once

#include "kernels/cpu/linalg/small_vectors.inc.h"

namespace millrace::cpu::MR_ISA {

struct ComplexMatrix {
  double *re, *im;
};
// Of all matrices of a computation.
struct ComplexShape {
  int64_t n, stride;
  int64_t size() const { return n * stride; }
};

MR_INLINE ComplexMatrix TakeMatrix(const ComplexShape& s, double** room) {
  // Not a multiple of pages, so that the same places of two of them do not wait for each other.
  const int64_t plane = s.size() + 17 * 8;
  const ComplexMatrix m = {*room, *room + plane};
  *room += 2 * plane;
  return m;
}

// Calls fn for each register of the planes: fn(offset).
template <typename Fn>
MR_INLINE void ForRegisters(const ComplexShape& s, const Fn& fn) {
  for (int64_t i = 0; i < s.size(); i += Fp<double>::kLanes) fn(i);
}
MR_INLINE void CopyMatrix(const ComplexShape& s, ComplexMatrix from, ComplexMatrix to) {
  ForRegisters(
      s, [&](int64_t i) __attribute__((always_inline)) {
        Store(to.re + i, Load(from.re + i));
        Store(to.im + i, Load(from.im + i));
      });
}
MR_INLINE void AddToDiagonal(const ComplexShape& s, ComplexMatrix m, double x) {
  for (int64_t i = 0; i < s.n; ++i) m.re[i * s.stride + i] += x;
}
MR_INLINE double NormOfMatrix(const ComplexShape& s, ComplexMatrix m) {
  VecD sum = {};
  ForRegisters(
      s, [&](int64_t i) __attribute__((always_inline)) {
        const VecD re = Load(m.re + i), im = Load(m.im + i);
        sum += re * re + im * im;
      });
  return RootOf(SumOfLanes<double>(sum));
}

// Rows [i, i + kRows) of a b, at columns [c, c + kLanes).
template <int kRows>
MR_INLINE void ProductBlock(const ComplexShape& s, ComplexMatrix a, ComplexMatrix b, int64_t i, int64_t c,
                            ComplexMatrix out) {
  VecD re[kRows] = {}, im[kRows] = {};
  for (int64_t k = 0; k < s.n; ++k) {
    const VecD x = Load(b.re + k * s.stride + c), y = Load(b.im + k * s.stride + c);
    for (int r = 0; r < kRows; ++r) {
      const VecD u = Set(a.re[(i + r) * s.stride + k]), v = Set(a.im[(i + r) * s.stride + k]);
      re[r] += u * x;
      im[r] += u * y;
      re[r] -= v * y;
      im[r] += v * x;
    }
  }
  for (int r = 0; r < kRows; ++r) {
    Store(out.re + (i + r) * s.stride + c, re[r]);
    Store(out.im + (i + r) * s.stride + c, im[r]);
  }
}
// out = a b; neither of them is out.
MR_OUTLINE void MultiplyComplex(const ComplexShape& s, ComplexMatrix a, ComplexMatrix b, ComplexMatrix out) {
  constexpr int kRows = kVectorBytes == 64 ? 8 : 4;
  for (int64_t c = 0; c < s.stride; c += Fp<double>::kLanes) {
    int64_t i = 0;
    for (; i + kRows <= s.n; i += kRows) ProductBlock<kRows>(s, a, b, i, c, out);
    for (; i < s.n; ++i) ProductBlock<1>(s, a, b, i, c, out);
  }
}

// Columns from `begin` on of row `to` lose (re + i im) times row `from`.
MR_INLINE void SubtractRow(const ComplexShape& s, double re, double im, ComplexMatrix m, int64_t from,
                           int64_t to, int64_t begin) {
  const VecD u = Set(re), v = Set(im);
  const double *const x = m.re + from * s.stride, *const y = m.im + from * s.stride;
  double *const p = m.re + to * s.stride, *const q = m.im + to * s.stride;
  for (int64_t c = begin; c < s.stride; c += Fp<double>::kLanes) {
    const VecD a = Load(x + c), b = Load(y + c);
    Store(p + c, Load(p + c) - u * a + v * b);
    Store(q + c, Load(q + c) - u * b - v * a);
  }
}

// Elimination with partial pivoting, which overwrites `a`; x = b / a, or nothing if `b` is null, which is
// overwritten. `log`: of the size of the determinant. False: a pivot is zero or no number.
MR_OUTLINE bool Eliminate(const ComplexShape& s, ComplexMatrix a, ComplexMatrix b, ComplexMatrix x,
                          double* log) {
  constexpr int64_t kLanes = Fp<double>::kLanes;
  const int64_t n = s.n;
  int64_t order[kMostSmall];
  double re[kMostSmall], im[kMostSmall];  // of the inverse pivots
  for (int64_t i = 0; i < n; ++i) order[i] = i;
  *log = 0;
  for (int64_t p = 0; p < n; ++p) {
    int64_t best = p;
    double most = -1;
    for (int64_t i = p; i < n; ++i) {
      const int64_t at = order[i] * s.stride + p;
      const double size = AbsOf(a.re[at]) + AbsOf(a.im[at]);
      if (size > most) {
        most = size;
        best = i;
      }
    }
    const int64_t row = order[best], at = row * s.stride + p;
    order[best] = order[p];
    order[p] = row;
    const double square = a.re[at] * a.re[at] + a.im[at] * a.im[at];
    if (!(square > 1e-280 && square < 1e280)) return false;
    re[p] = a.re[at] / square;
    im[p] = -a.im[at] / square;
    *log += __builtin_log(square) / 2;
    for (int64_t i = p + 1; i < n; ++i) {
      const int64_t to = order[i], under = to * s.stride + p;
      const double u = a.re[under] * re[p] - a.im[under] * im[p],
                   v = a.re[under] * im[p] + a.im[under] * re[p];
      SubtractRow(s, u, v, a, row, to, (p + 1) / kLanes * kLanes);
      if (b.re != nullptr) SubtractRow(s, u, v, b, row, to, 0);
    }
  }
  if (b.re == nullptr) return true;
  for (int64_t p = n; p-- > 0;) {
    const int64_t row = order[p];
    double *const to_re = x.re + p * s.stride, *const to_im = x.im + p * s.stride;
    const VecD u = Set(re[p]), v = Set(im[p]);
    for (int64_t c = 0; c < s.stride; c += kLanes) {
      const VecD y = Load(b.re + row * s.stride + c), z = Load(b.im + row * s.stride + c);
      const VecD scaled = u * y - v * z, turned = u * z + v * y;
      Store(to_re + c, scaled);
      Store(to_im + c, turned);
      Store(b.re + row * s.stride + c, scaled);
      Store(b.im + row * s.stride + c, turned);
    }
    for (int64_t i = 0; i < p; ++i) {
      const int64_t at = order[i] * s.stride + p;
      SubtractRow(s, a.re[at], a.im[at], b, row, order[i], 0);
    }
  }
  return true;
}

// The principal root of a by the iteration of Denman and Beavers for products, as that of SquareRootOf. False
// where it does not converge soon. The five matrices of `work` are overwritten.
MR_OUTLINE bool ComplexRoot(const ComplexShape& s, ComplexMatrix a, ComplexMatrix x,
                            const ComplexMatrix* work) {
  constexpr int kMostSteps = 16;
  const ComplexMatrix m = work[0], inverse = work[1], held = work[2], unit = work[3], product = work[4];
  CopyMatrix(s, a, x);
  CopyMatrix(s, a, m);
  bool near = false;
  for (int step = 0;; ++step) {
    if (step == kMostSteps) return false;
    CopyMatrix(s, m, held);
    ForRegisters(
        s, [&](int64_t i) __attribute__((always_inline)) {
          Store(unit.re + i, VecD{});
          Store(unit.im + i, VecD{});
        });
    AddToDiagonal(s, unit, 1);
    double log;
    if (!Eliminate(s, held, unit, inverse, &log)) return false;
    const double scale = near ? 1 : __builtin_exp(-log / static_cast<double>(2 * s.n));
    if (!(scale > 1e-15 && scale < 1e15)) return false;
    const double square = scale * scale, back = 1 / square;
    MultiplyComplex(s, x, inverse, product);
    ForRegisters(
        s, [&](int64_t i) __attribute__((always_inline)) {
          Store(x.re + i, (Load(x.re + i) + Load(product.re + i) * back) * (scale / 2));
          Store(x.im + i, (Load(x.im + i) + Load(product.im + i) * back) * (scale / 2));
          Store(m.re + i, (Load(m.re + i) * square + Load(inverse.re + i) * back) * 0.25);
          Store(m.im + i, (Load(m.im + i) * square + Load(inverse.im + i) * back) * 0.25);
        });
    AddToDiagonal(s, m, -0.5);
    const double change = NormOfMatrix(s, m);
    AddToDiagonal(s, m, 1);
    if (!(change < 1e15)) return false;
    // The next error is about the square of this one.
    if (change < 1e-8) break;
    near = change < 0.1;
  }
  // One more step for x alone: 1 / m is 2 - m.
  ForRegisters(
      s, [&](int64_t i) __attribute__((always_inline)) {
        Store(m.re + i, Load(m.re + i) * -0.5);
        Store(m.im + i, Load(m.im + i) * -0.5);
      });
  AddToDiagonal(s, m, 1.5);
  MultiplyComplex(s, x, m, product);
  CopyMatrix(s, product, x);
  // As exact as the root of a triangular factor.
  MultiplyComplex(s, x, x, product);
  const double size = NormOfMatrix(s, x);
  ForRegisters(
      s, [&](int64_t i) __attribute__((always_inline)) {
        Store(product.re + i, Load(product.re + i) - Load(a.re + i));
        Store(product.im + i, Load(product.im + i) - Load(a.im + i));
      });
  return NormOfMatrix(s, product) <= 4 * static_cast<double>(s.n) * EpsilonOf<double>() * size * size;
}

// With z = (a - 1) / (a + 1) the logarithm is twice the sum of z^(2 k + 1) / (2 k + 1). By the powers of z^2
// up to the fourth, whose norms determine the number of terms; 0: too many, or z is too large for exact sums.
MR_INLINE int TermsOf(const double* norms, double norm_of_z) {
  constexpr int kMost = 12;
  const double rest = 1 + norms[0] + norms[1] + norms[2];
  if (!(norms[3] < 0.1 && norm_of_z < 16 && norms[0] < 16)) return 0;
  double power = norms[3];
  for (int groups = 1; groups <= kMost; ++groups, power *= norms[3]) {
    if (power * rest <= EpsilonOf<double>() / 8 * static_cast<double>(8 * groups + 1)) return groups;
  }
  return 0;
}

static bool LogarithmOf(const double* a, int64_t n, double* out, double* room) {
  constexpr int kMostRoots = 5, kPowers = 4;
  const ComplexShape s = {n, StrideOf<double>(n)};
  const ComplexMatrix x = TakeMatrix(s, &room), z = TakeMatrix(s, &room), held = TakeMatrix(s, &room);
  ComplexMatrix powers[kPowers + 1];
  for (ComplexMatrix& p : powers) p = TakeMatrix(s, &room);
  double most = 0;
  bool finite = true;
  for (int64_t i = 0; i < 2 * n * n; ++i) {
    const double size = AbsOf(a[i]);
    finite &= size < 1e100;
    most = size > most ? size : most;
  }
  if (!finite || most < 1e-100) return false;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t c = 0; c < s.stride; ++c) {
      x.re[i * s.stride + c] = c < n ? a[2 * (i * n + c)] : 0;
      x.im[i * s.stride + c] = c < n ? a[2 * (i * n + c) + 1] : 0;
    }
  }
  // Divided by the geometric mean of the sizes of its eigenvalues.
  CopyMatrix(s, x, held);
  double log;
  if (!Eliminate(s, held, ComplexMatrix{}, ComplexMatrix{}, &log)) return false;
  log /= static_cast<double>(n);
  const VecD factor = Set(__builtin_exp(-log));
  ForRegisters(
      s, [&](int64_t i) __attribute__((always_inline)) {
        Store(x.re + i, Load(x.re + i) * factor);
        Store(x.im + i, Load(x.im + i) * factor);
      });
  int roots = 0, groups = 0;
  for (;; ++roots) {
    CopyMatrix(s, x, held);
    CopyMatrix(s, x, powers[0]);
    AddToDiagonal(s, held, 1);
    AddToDiagonal(s, powers[0], -1);
    double unused;
    if (Eliminate(s, held, powers[0], z, &unused)) {
      double norms[kPowers];
      for (int k = 0; k < kPowers; ++k) {
        MultiplyComplex(s, k == 0 ? z : powers[0], k == 0 ? z : powers[k - 1], powers[k]);
        norms[k] = NormOfMatrix(s, powers[k]);
      }
      groups = TermsOf(norms, NormOfMatrix(s, z));
      if (groups > 0) break;
    }
    const ComplexMatrix work[] = {z, powers[0], powers[1], powers[2], powers[3]};
    if (roots == kMostRoots || !ComplexRoot(s, x, held, work)) return false;
    CopyMatrix(s, held, x);
  }
  // The sum in groups of kPowers terms, from the last on.
  ComplexMatrix sum = held, next = powers[kPowers];
  for (int g = groups; g-- > 0;) {
    const bool first = g == groups - 1;
    if (!first) MultiplyComplex(s, sum, powers[kPowers - 1], next);
    double terms[kPowers];
    for (int k = 0; k < kPowers; ++k) terms[k] = 1 / static_cast<double>(2 * (kPowers * g + k) + 1);
    const auto add = [&](const double* old, double* to, const double* w1, const double* w2, const double* w3)
        __attribute__((always_inline)) {
      ForRegisters(
          s, [&](int64_t i) __attribute__((always_inline)) {
            const VecD start = first ? VecD{} : Load(old + i);
            Store(to + i,
                  start + Load(w1 + i) * terms[1] + Load(w2 + i) * terms[2] + Load(w3 + i) * terms[3]);
          });
    };
    add(next.re, next.re, powers[0].re, powers[1].re, powers[2].re);
    add(next.im, next.im, powers[0].im, powers[1].im, powers[2].im);
    AddToDiagonal(s, next, terms[0]);
    const ComplexMatrix swapped = sum;
    sum = next;
    next = swapped;
  }
  MultiplyComplex(s, z, sum, next);
  double scale = 2;
  for (int i = 0; i < roots; ++i) scale *= 2;
  finite = true;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t c = 0; c < n; ++c) {
      double* const to = out + 2 * (i * n + c);
      to[0] = next.re[i * s.stride + c] * scale + (i == c ? log : 0);
      to[1] = next.im[i * s.stride + c] * scale;
      finite &= AbsOf(to[0]) < Fp<double>::kInf && AbsOf(to[1]) < Fp<double>::kInf;
    }
  }
  return finite;
}

const SmallComplexTable kSmallComplex = {
    .logarithm = LogarithmOf,
};

}  // namespace millrace::cpu::MR_ISA
