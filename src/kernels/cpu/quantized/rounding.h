// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Rounding for loops over elements, and constants by channel for such loops.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace millrace::quantized {

// The integer nearest to a number below 2^31, ties away from 0. The conversion drops the fraction, so no
// instruction has to round.
inline int32_t RoundAway(double value) {
  return static_cast<int32_t>(value + std::copysign(0x1.fffffffffffffp-2, value));
}
// Ties to even: the rounding of the sum does that, and its low bits are the integer.
inline int32_t RoundEven(double value) {
  return static_cast<int32_t>(std::bit_cast<int64_t>(value + 0x1.8p52));
}

// Clamps numbers to the range of T, of at most 32 bits. REQUIRES: not NaN. The ends are variables, so that
// the compiler selects among doubles, by one instruction, and not among the results.
template <typename T>
struct Bounds {
  double Within(double value) const {
    const double above = value > least ? value : least;
    return above < most ? above : most;
  }
  T operator()(double value) const { return static_cast<T>(static_cast<int32_t>(Within(value))); }
  // The nearest integer, ties to even.
  T Nearest(double value) const { return static_cast<T>(RoundEven(Within(value))); }
  double least = static_cast<double>(std::numeric_limits<T>::lowest());
  double most = static_cast<double>(std::numeric_limits<T>::max());
};

// A factor for integers of 32 bits whose products are never NaN. A NaN factor becomes 0, as Saturated(NaN) is
// 0, and infinity a factor that saturates.
inline double UsableFactor(double factor) {
  constexpr double kMost = 1e200;
  return factor == factor ? std::clamp(factor, -kMost, kMost) : 0;
}

// Repeats constants of channels until a row of them is at least as long as the vectors of any loop: rows of
// few channels would not be vectorised. `rows`: how many rows of channels there are.
template <typename T>
void RepeatChannels(int64_t rows, std::vector<T>* values) {
  constexpr size_t kLength = 256;
  const size_t depth = values->size();
  if (depth == 0) return;
  const size_t copies =
      std::clamp<size_t>(kLength / depth, 1, static_cast<size_t>(std::max<int64_t>(rows, 1)));
  values->resize(copies * depth);
  for (size_t i = depth; i < values->size(); ++i) (*values)[i] = (*values)[i - depth];
}

// Calls fn(first element, count) for parts of [0, size), each of which begins at the first constant.
// `repeated`: the number of constants.
template <typename Fn>
inline __attribute__((always_inline)) void ForRepeated(int64_t size, int64_t repeated, const Fn& fn) {
  for (int64_t i = 0; i < size; i += repeated) fn(i, size - i < repeated ? size - i : repeated);
}

}  // namespace millrace::quantized
