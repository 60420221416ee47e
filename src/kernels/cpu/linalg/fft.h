// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Discrete Fourier transforms of any length, in double precision.
#pragma once

#include <complex>
#include <cstdint>
#include <memory>
#include <vector>

namespace millrace::cpu {

// The tables for one length. Immutable, so that any number of threads may use it at the same time. Takes
// O(n log n) for every n: lengths with large prime factors become convolutions of a length that has none
// (Bluestein).
class Fft {
 public:
  using Number = std::complex<double>;

  explicit Fft(int64_t n);
  ~Fft();
  Fft(const Fft&) = delete;
  Fft& operator=(const Fft&) = delete;

  int64_t size() const { return n_; }
  // Numbers of scratch memory that Run needs.
  int64_t scratch_size() const;
  // In place: y[k] = sum of x[j] exp(-2 pi i j k / n); `inverse`: exp(+…), without the factor 1 / n.
  void Run(Number* x, bool inverse, Number* scratch) const;

  // kLanes lines side by side: number j of line l is x[j][0][l] + i x[j][1][l]. Gives each line what Run
  // gives it. REQUIRES: has_lanes(). `scratch` is as large as x: lanes_size() doubles.
  static constexpr int64_t kLanes = 8;
  bool has_lanes() const { return longer_ == nullptr && n_ <= kMostInLanes; }
  int64_t lanes_size() const { return n_ * 2 * kLanes; }
  void RunLanes(double* x, bool inverse, double* scratch) const;

 private:
  static constexpr int64_t kMostInLanes = 4096;  // so that x and scratch stay in the second cache

  void RunForward(Number* x, Number* scratch) const;
  void RunChirp(Number* x, Number* scratch) const;

  const int64_t n_;
  std::vector<int64_t> factors_;  // of n, none large; empty where the length has a large one
  std::vector<Number> roots_;     // exp(-2 pi i j / n); of the chirp exp(-pi i j j / n)
  // For lengths with a large prime factor.
  std::unique_ptr<Fft> longer_;
  std::vector<Number> kernel_;  // transform of the conjugate chirp
};

// Of real lines of an even length, by complex ones of half of it: the numbers at even places are real parts,
// those at odd places imaginary ones. A spectrum is the first n / 2 + 1 numbers, of which the others are
// conjugates.
class RealFft {
 public:
  explicit RealFft(int64_t n);  // REQUIRES: n is even and positive

  static constexpr int64_t kLeastLanes = 3;  // from so many lines on, places that are not used pay
  int64_t half() const { return half_.size(); }
  bool has_lanes() const { return half_.has_lanes(); }
  // Of x and of scratch, in doubles, for a number of lines side by side that is 1 or Fft::kLanes.
  int64_t line_size(int64_t lanes) const { return 2 * lanes * (half_.size() + 1); }
  int64_t scratch_size(int64_t lanes) const { return 2 * lanes * half_.scratch_size(); }
  // In place, from n / 2 pairs of samples to the spectrum.
  template <int kLanes>
  void Forward(double* x, double* scratch) const;
  // From the spectrum to n times the samples. The first and the last number count as real.
  template <int kLanes>
  void Inverse(double* x, double* scratch) const;

 private:
  template <int kLanes>
  void Run(double* x, bool inverse, double* scratch) const;

  const Fft half_;
  std::vector<Fft::Number> roots_;  // exp(-2 pi i k / n) for k <= n / 4
};

}  // namespace millrace::cpu
