// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Transforms of one line whose length is a power of two, on registers of the active instruction set: several
// numbers of the line are the lanes. The bits of the results are those of the plain stages of fft.cc. The
// unit fft_lines.inc.h is compiled once for each instruction set.
#pragma once

#include <stdint.h>

namespace millrace::cpu {

inline constexpr int64_t kLeastInLine = 64, kMostInLine = 1 << 20;

// Whether these functions transform lines of n numbers.
inline bool IsFftLine(int64_t n) { return n >= kLeastInLine && n <= kMostInLine && (n & (n - 1)) == 0; }

inline bool IsAdjacentFft(int64_t n) { return n >= 8 && n <= kMostInLine && (n & (n - 1)) == 0; }

// The tables of a length. Numbers are pairs of a real and an imaginary part.
template <typename T>
struct FftLine {
  int64_t n;
  const T* roots;  // exp(-2 pi i j / n)
  // The factors of the first and of the second stage, which has positions in groups of 4: for each of them,
  // and for j = 1, 2, 3, the real parts of the n / 4 positions, then the imaginary ones.
  const T* turns;
};

// REQUIRES for all: the length is that of IsFftLine. `in` may be `out`, and `scratch` has room for 2 n
// numbers.
template <typename T>
struct FftLineTable {
  // n numbers, the results times `scale`.
  void (*run)(const FftLine<T>& line, const T* in, bool inverse, T scale, T* out, T* scratch);
  // 2 n real numbers become the first n + 1 of their spectrum; `turns`: exp(-pi i k / n) for k <= n / 2.
  void (*forward)(const FftLine<T>& line, const T* turns, const T* in, T* out, T* scratch);
  // n + 1 numbers of a spectrum become 2 n real ones, times `scale`.
  void (*inverse)(const FftLine<T>& line, const T* turns, const T* in, T scale, T* out, T* scratch);
  // Between `count` adjacent numbers at `length` positions, `step` numbers apart, and the lanes from `first`
  // on of as many numbers of x, which is that of BasicFft::RunLanes. They are multiplied by `scale`.
  void (*spread)(const T* from, int64_t length, int64_t step, int64_t first, int64_t count, T* x);
  void (*collect)(const T* x, int64_t length, int64_t step, int64_t first, int64_t count, T scale, T* to);
  // Transforms `lines` adjacent lines, whose numbers are `in_step` and `out_step` apart, times `scale`.
  // REQUIRES IsAdjacentFft(n). `scratch` has room for 4 n registers of 64 bytes.
  void (*adjacent)(const FftLine<T>& line, const T* in, int64_t in_step, bool inverse, T scale, T* out,
                   int64_t out_step, int64_t lines, T* scratch);
};

namespace baseline {
extern const FftLineTable<float> kFftLineFloat;
extern const FftLineTable<double> kFftLineDouble;
}  // namespace baseline
namespace avx2 {
extern const FftLineTable<float> kFftLineFloat;
extern const FftLineTable<double> kFftLineDouble;
}  // namespace avx2
namespace avx512 {
extern const FftLineTable<float> kFftLineFloat;
extern const FftLineTable<double> kFftLineDouble;
}  // namespace avx512

// Of ActiveIsa(). T: float, double.
template <typename T>
const FftLineTable<T>& FftLines();

}  // namespace millrace::cpu
