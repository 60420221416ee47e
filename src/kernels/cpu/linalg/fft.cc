// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/linalg/fft.h"

#include <algorithm>
#include <bit>
#include <numbers>

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
    RunStages(x, scratch);
  } else {
    RunChirp(x, scratch);
  }
}

void Fft::RunStages(Number* x, Number* scratch) const {
  Number *from = x, *to = scratch;
  int64_t length = n_, stride = 1;
  for (const int64_t p : factors_) {
    const Stage stage{p, length / p, stride, roots_.data(), n_, stride};
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
  if (from != x) std::copy_n(from, n_, x);
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
