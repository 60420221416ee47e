// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Discrete Fourier transforms of any length, in single or double precision.
#pragma once

#include <complex>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cpu/linalg/fft_lines.h"

namespace millrace::cpu {

// Whether no prime factor of a length is large: in single precision, the convolutions for other lengths are
// less exact than transforms.
bool HasSmallFactors(int64_t n);

// The tables for one length. Immutable, so that any number of threads may use it at the same time. Takes O(n
// log n) for every n: lengths with large prime factors are computed as convolutions of a length without them
// (Bluestein).
template <typename T>
class BasicFft {
 public:
  using Real = T;
  using Number = std::complex<T>;

  explicit BasicFft(int64_t n);
  ~BasicFft();
  BasicFft(const BasicFft&) = delete;
  BasicFft& operator=(const BasicFft&) = delete;

  int64_t size() const { return n_; }
  // The size of Run's scratch memory, in numbers.
  int64_t scratch_size() const;
  // In place: y[k] = sum of x[j] exp(-2 pi i j k / n); `inverse`: exp(+…), without the factor 1 / n.
  void Run(Number* x, bool inverse, Number* scratch) const;

  // Whether a line on its own is faster than kLanes of them side by side; then its results, times `scale`,
  // can be written to another place. `in` may be `out`.
  bool has_line() const { return !turns_.empty(); }
  void RunLine(const Number* in, bool inverse, T scale, Number* out, Number* scratch) const;
  FftLine<T> line() const { return {n_, reinterpret_cast<const T*>(roots_.data()), turns_.data()}; }

  // kLanes lines side by side: number j of line l is x[j][0][l] + i x[j][1][l]. The results of each line are
  // those of Run. REQUIRES: has_lanes(). `scratch` is as large as x: lanes_size() numbers.
  static constexpr int64_t kLanes = 64 / sizeof(T);
  // The least number of lines for which this is faster, although lanes are unused: for real lines, and for
  // complex ones, which are faster one by one.
  static constexpr int64_t kLeastReal = kLanes * 3 / 8, kLeastLanes = kLanes / 2;
  bool has_lanes() const { return longer_ == nullptr && n_ <= kMostInLanes; }
  int64_t lanes_size() const { return n_ * 2 * kLanes; }
  void RunLanes(T* x, bool inverse, T* scratch) const;

 private:
  static constexpr int64_t kMostInLanes = 4096;  // so that x and scratch stay in the second cache

  void RunForward(Number* x, Number* scratch) const;
  void RunChirp(Number* x, Number* scratch) const;

  const int64_t n_;
  std::vector<int64_t> factors_;  // of n, none large; empty where the length has a large one
  std::vector<Number> roots_;     // exp(-2 pi i j / n); of the chirp exp(-pi i j j / n)
  std::vector<T> turns_;          // see FftLine
  // For lengths with a large prime factor.
  std::unique_ptr<BasicFft> longer_;
  std::vector<Number> kernel_;  // transform of the conjugate chirp
};

// Transforms of real lines of an even length, by complex ones of half of it: the numbers at even indices are
// real parts, those at odd indices imaginary ones. A spectrum is the first n / 2 + 1 numbers; the others are
// their conjugates.
template <typename T>
class BasicRealFft {
 public:
  using Real = T;
  using Number = std::complex<T>;
  static constexpr int64_t kLanes = BasicFft<T>::kLanes, kLeastLanes = BasicFft<T>::kLeastReal;

  explicit BasicRealFft(int64_t n);  // REQUIRES: n is even and positive

  int64_t half() const { return half_.size(); }
  bool has_lanes() const { return half_.has_lanes(); }
  // The size of x and of scratch, in numbers of T, for 1 or BasicFft::kLanes lines side by side.
  int64_t line_size(int64_t lanes) const { return 2 * lanes * (half_.size() + 1); }
  int64_t scratch_size(int64_t lanes) const {
    return 2 * (lanes == 1 ? half_.scratch_size() : lanes * half_.size());
  }
  // In place, from n / 2 pairs of samples to the spectrum.
  template <int kLanes>
  void Forward(T* x, T* scratch) const;
  // From the spectrum to n times the samples. The first and the last number are taken as real.
  template <int kLanes>
  void Inverse(T* x, T* scratch) const;

  // See BasicFft.
  bool has_line() const { return half_.has_line(); }
  void ForwardLine(const T* in, Number* out, T* scratch) const;
  void InverseLine(const Number* in, T scale, T* out, T* scratch) const;

 private:
  template <int kLanes>
  void Run(T* x, bool inverse, T* scratch) const;

  const BasicFft<T> half_;
  std::vector<Number> roots_;  // exp(-2 pi i k / n) for k <= n / 4
};

using Fft = BasicFft<double>;
using RealFft = BasicRealFft<double>;

}  // namespace millrace::cpu
