// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/linalg/fft.h"

#include <algorithm>
#include <bit>
#include <numbers>

#include "kernels/cpu/lanes.h"
#include "kernels/cpu/loop.h"

namespace millrace::cpu {
namespace {

using Number = Fft::Number;

constexpr int64_t kLargestFactor = 13;

// The product without the care for infinities that the operator takes.
inline Number Times(Number a, Number b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}
inline Number TimesMinusI(Number a) { return {a.imag(), -a.real()}; }

// exp(-2 pi i j / n), exact where it is on an axis.
Number Root(int64_t j, int64_t n) {
  const double angle = -2 * std::numbers::pi * static_cast<double>(j) / static_cast<double>(n);
  if (4 * j == n) return {0, -1};
  if (2 * j == n) return {-1, 0};
  if (4 * j == 3 * n) return {0, 1};
  return {std::cos(angle), std::sin(angle)};
}

// One stage of Stockham's algorithm: transforms of length p, m of them for each of `stride` positions, then
// rotations by w. `roots` has those of the whole length, whose part `step` belongs to this stage.
struct Stage {
  int64_t p, m, stride;
  const Number* roots;
  int64_t n, step;
};

void RunTwo(const Stage& s, const Number* x, Number* y) {
  for (int64_t q = 0; q < s.m; ++q) {
    const Number w = s.roots[q * s.step];
    const Number *a = x + s.stride * q, *b = a + s.stride * s.m;
    Number *to = y + s.stride * 2 * q, *next = to + s.stride;
    for (int64_t r = 0; r < s.stride; ++r) {
      const Number u = a[r], v = b[r];
      to[r] = u + v;
      next[r] = Times(u - v, w);
    }
  }
}

void RunFour(const Stage& s, const Number* x, Number* y) {
  for (int64_t q = 0; q < s.m; ++q) {
    const Number w1 = s.roots[q * s.step], w2 = s.roots[2 * q * s.step], w3 = s.roots[3 * q * s.step];
    const Number* from = x + s.stride * q;
    const int64_t gap = s.stride * s.m;
    Number* to = y + s.stride * 4 * q;
    for (int64_t r = 0; r < s.stride; ++r) {
      const Number a = from[r], b = from[r + gap], c = from[r + 2 * gap], d = from[r + 3 * gap];
      const Number even = a + c, odd = b + d, difference = a - c, turned = TimesMinusI(b - d);
      to[r] = even + odd;
      to[r + s.stride] = Times(difference + turned, w1);
      to[r + 2 * s.stride] = Times(even - odd, w2);
      to[r + 3 * s.stride] = Times(difference - turned, w3);
    }
  }
}

void RunAny(const Stage& s, const Number* x, Number* y) {
  const int64_t turn = s.n / s.p;  // the roots of order p lie so far apart
  for (int64_t q = 0; q < s.m; ++q) {
    for (int64_t j = 0; j < s.p; ++j) {
      const Number w = s.roots[j * q * s.step];
      Number* to = y + s.stride * (s.p * q + j);
      for (int64_t r = 0; r < s.stride; ++r) {
        const Number* from = x + s.stride * q + r;
        Number sum = from[0];
        for (int64_t k = 1; k < s.p; ++k) sum += Times(from[k * s.stride * s.m], s.roots[j * k % s.p * turn]);
        to[r] = Times(sum, w);
      }
    }
  }
}

// Lanes side by side; their loops are of a constant length so that the compiler makes registers of them.
constexpr int kLanes = Fft::kLanes;
struct Lanes {
  double re[kLanes], im[kLanes];
};
inline MR_INLINE_LAMBDA Lanes Plus(const Lanes& a, const Lanes& b) {
  Lanes sum;
  MR_LANES
  for (int l = 0; l < kLanes; ++l) sum.re[l] = a.re[l] + b.re[l];
  MR_LANES
  for (int l = 0; l < kLanes; ++l) sum.im[l] = a.im[l] + b.im[l];
  return sum;
}
inline MR_INLINE_LAMBDA Lanes Minus(const Lanes& a, const Lanes& b) {
  Lanes difference;
  MR_LANES
  for (int l = 0; l < kLanes; ++l) difference.re[l] = a.re[l] - b.re[l];
  MR_LANES
  for (int l = 0; l < kLanes; ++l) difference.im[l] = a.im[l] - b.im[l];
  return difference;
}
inline MR_INLINE_LAMBDA Lanes TimesMinusI(const Lanes& a) {
  Lanes turned;
  MR_LANES
  for (int l = 0; l < kLanes; ++l) turned.re[l] = a.im[l];
  MR_LANES
  for (int l = 0; l < kLanes; ++l) turned.im[l] = -a.re[l];
  return turned;
}
inline MR_INLINE_LAMBDA Lanes Times(const Lanes& a, double re, double im) {
  Lanes product;
  MR_LANES
  for (int l = 0; l < kLanes; ++l) product.re[l] = a.re[l] * re - a.im[l] * im;
  MR_LANES
  for (int l = 0; l < kLanes; ++l) product.im[l] = a.re[l] * im + a.im[l] * re;
  return product;
}

void RunTwo(const Stage& s, const Lanes* x, Lanes* y) {
  RunLoop([=]() MR_INLINE_LAMBDA {
    for (int64_t q = 0; q < s.m; ++q) {
      const double re = s.roots[q * s.step].real(), im = s.roots[q * s.step].imag();
      const Lanes *a = x + s.stride * q, *b = a + s.stride * s.m;
      Lanes *to = y + s.stride * 2 * q, *next = to + s.stride;
      for (int64_t r = 0; r < s.stride; ++r) {
        const Lanes u = a[r], v = b[r];
        to[r] = Plus(u, v);
        next[r] = Times(Minus(u, v), re, im);
      }
    }
  });
}

void RunFour(const Stage& s, const Lanes* x, Lanes* y) {
  RunLoop([=]() MR_INLINE_LAMBDA {
    for (int64_t q = 0; q < s.m; ++q) {
      const Number w1 = s.roots[q * s.step], w2 = s.roots[2 * q * s.step], w3 = s.roots[3 * q * s.step];
      const Lanes* from = x + s.stride * q;
      const int64_t gap = s.stride * s.m;
      Lanes* to = y + s.stride * 4 * q;
      for (int64_t r = 0; r < s.stride; ++r) {
        const Lanes a = from[r], b = from[r + gap], c = from[r + 2 * gap], d = from[r + 3 * gap];
        const Lanes even = Plus(a, c), odd = Plus(b, d), difference = Minus(a, c);
        const Lanes turned = TimesMinusI(Minus(b, d));
        to[r] = Plus(even, odd);
        to[r + s.stride] = Times(Plus(difference, turned), w1.real(), w1.imag());
        to[r + 2 * s.stride] = Times(Minus(even, odd), w2.real(), w2.imag());
        to[r + 3 * s.stride] = Times(Minus(difference, turned), w3.real(), w3.imag());
      }
    }
  });
}

void RunAny(const Stage& s, const Lanes* x, Lanes* y) {
  RunLoop([=]() MR_INLINE_LAMBDA {
    const int64_t turn = s.n / s.p;
    for (int64_t q = 0; q < s.m; ++q) {
      for (int64_t j = 0; j < s.p; ++j) {
        const double re = s.roots[j * q * s.step].real(), im = s.roots[j * q * s.step].imag();
        Lanes* to = y + s.stride * (s.p * q + j);
        for (int64_t r = 0; r < s.stride; ++r) {
          const Lanes* from = x + s.stride * q + r;
          Lanes sum = from[0];
          for (int64_t k = 1; k < s.p; ++k) {
            const Number w = s.roots[j * k % s.p * turn];
            sum = Plus(sum, Times(from[k * s.stride * s.m], w.real(), w.imag()));
          }
          to[r] = Times(sum, re, im);
        }
      }
    }
  });
}

// The stages of a transform of n numbers in x, by way of `scratch`.
template <typename T>
void RunStages(const std::vector<int64_t>& factors, const Number* roots, int64_t n, T* x, T* scratch) {
  T *from = x, *to = scratch;
  int64_t length = n, stride = 1;
  for (const int64_t p : factors) {
    const Stage stage{p, length / p, stride, roots, n, stride};
    if (p == 4) {
      RunFour(stage, from, to);
    } else if (p == 2) {
      RunTwo(stage, from, to);
    } else {
      RunAny(stage, from, to);
    }
    std::swap(from, to);
    length /= p;
    stride *= p;
  }
  if (from != x) std::copy_n(from, n, x);
}

}  // namespace

Fft::Fft(int64_t n) : n_(n) {
  int64_t rest = n;
  for (const int64_t p : {4, 2, 3, 5, 7, 11, 13}) {
    for (; rest > 1 && rest % p == 0; rest /= p) factors_.push_back(p);
  }
  roots_.resize(static_cast<size_t>(std::max<int64_t>(n, 0)));
  if (rest <= 1) {
    for (int64_t j = 0; j < n; ++j) roots_[static_cast<size_t>(j)] = Root(j, n);
    return;
  }
  static_assert(kLargestFactor == 13);
  factors_.clear();
  // j * j modulo 2 n, by differences, as it would overflow.
  int64_t square = 0;
  for (int64_t j = 0; j < n; ++j) {
    roots_[static_cast<size_t>(j)] = Root(square, 2 * n);
    square = (square + 2 * j + 1) % (2 * n);
  }
  const auto m = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(2 * n - 1)));
  longer_ = std::make_unique<Fft>(m);
  kernel_.assign(static_cast<size_t>(m), Number(0));
  for (int64_t j = 0; j < n; ++j) {
    const Number value = std::conj(roots_[static_cast<size_t>(j)]) / static_cast<double>(m);
    kernel_[static_cast<size_t>(j)] = value;
    if (j > 0) kernel_[static_cast<size_t>(m - j)] = value;
  }
  std::vector<Number> scratch(static_cast<size_t>(longer_->scratch_size()));
  longer_->Run(kernel_.data(), /*inverse=*/false, scratch.data());
}

Fft::~Fft() = default;

int64_t Fft::scratch_size() const {
  return longer_ == nullptr ? n_ : longer_->size() + longer_->scratch_size();
}

void Fft::Run(Number* x, bool inverse, Number* scratch) const {
  if (n_ <= 1) return;
  if (!inverse) return RunForward(x, scratch);
  for (int64_t j = 0; j < n_; ++j) x[j] = std::conj(x[j]);
  RunForward(x, scratch);
  for (int64_t j = 0; j < n_; ++j) x[j] = std::conj(x[j]);
}

void Fft::RunForward(Number* x, Number* scratch) const {
  if (longer_ == nullptr) {
    RunStages(factors_, roots_.data(), n_, x, scratch);
  } else {
    RunChirp(x, scratch);
  }
}

void Fft::RunLanes(double* x, bool inverse, double* scratch) const {
  static_assert(sizeof(Lanes) == 2 * kLanes * sizeof(double));
  if (n_ <= 1) return;
  auto* const lanes = reinterpret_cast<Lanes*>(x);
  const auto conjugate = [=, n = inverse ? n_ : 0]() MR_INLINE_LAMBDA {
    for (int64_t j = 0; j < n; ++j) {
      MR_LANES
      for (int l = 0; l < kLanes; ++l) lanes[j].im[l] = -lanes[j].im[l];
    }
  };
  RunLoop(conjugate);
  RunStages(factors_, roots_.data(), n_, lanes, reinterpret_cast<Lanes*>(scratch));
  RunLoop(conjugate);
}

// j k = (j j + k k - (k - j)(k - j)) / 2 makes a convolution of the transform.
void Fft::RunChirp(Number* x, Number* scratch) const {
  const int64_t m = longer_->size();
  Number *a = scratch, *rest = scratch + m;
  for (int64_t j = 0; j < n_; ++j) a[j] = Times(x[j], roots_[static_cast<size_t>(j)]);
  std::fill(a + n_, a + m, Number(0));
  longer_->Run(a, /*inverse=*/false, rest);
  for (int64_t j = 0; j < m; ++j) a[j] = Times(a[j], kernel_[static_cast<size_t>(j)]);
  longer_->Run(a, /*inverse=*/true, rest);
  for (int64_t j = 0; j < n_; ++j) x[j] = Times(a[j], roots_[static_cast<size_t>(j)]);
}

}  // namespace millrace::cpu
