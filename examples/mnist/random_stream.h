// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace millrace::mnist {

// A small counter-free random stream (splitmix64). Its numbers depend on the seed alone: no libm, no standard
// distribution, so every machine and compiler draws the same. One thread at a time.
class RandomStream {
 public:
  explicit RandomStream(uint64_t seed) : state_(seed) {}

  // An independent stream for item `index` of purpose `purpose`, whatever the order in which items are made.
  RandomStream(uint64_t seed, uint64_t purpose, uint64_t index)
      : state_(Mix(Mix(Mix(seed) ^ purpose) + index)) {}

  uint64_t Next() { return Mix(state_ += 0x9e3779b97f4a7c15ULL); }

  // Uniform in [0, 1).
  float Uniform() { return static_cast<float>(Next() >> 40) * 0x1p-24f; }
  float Uniform(float low, float high) { return low + (high - low) * Uniform(); }

  // Uniform in [0, n). REQUIRES: n > 0. The bias is below n / 2^64.
  uint64_t Below(uint64_t n) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(Next()) * n) >> 64);
  }

  // Mean 0, variance 1, within +-3.47: the sum of four uniforms, close enough to a normal for drawing digits.
  float Bell() {
    const uint64_t bits = Next();
    const uint64_t sum =
        (bits & 0xffff) + ((bits >> 16) & 0xffff) + ((bits >> 32) & 0xffff) + ((bits >> 48) & 0xffff);
    return (static_cast<float>(sum) * 0x1p-16f - 2.0f) * 1.7320508f;
  }

 private:
  static uint64_t Mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

  uint64_t state_;
};

}  // namespace millrace::mnist
