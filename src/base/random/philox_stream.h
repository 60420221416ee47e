// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Numbers from the bits of a Philox generator, one for one those of TensorFlow 1.x's distributions.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "base/random/philox.h"

namespace millrace {

// In [0, 1), from as many bits as the fraction of the type has.
inline float UnitFloat(uint32_t x) { return std::bit_cast<float>((x & 0x7fffffu) | 0x3f800000u) - 1.0f; }
inline double UnitDouble(uint32_t x0, uint32_t x1) {
  const uint64_t mantissa = (uint64_t{x0 & 0xfffffu} << 32) | x1;
  return std::bit_cast<double>(mantissa | (uint64_t{1023} << 52)) - 1.0;
}

// Box and Muller's transform of two uniforms into two normals, rounded where TensorFlow rounds: the angle is
// computed in double.
inline std::array<float, 2> NormalFloats(uint32_t x0, uint32_t x1) {
  const float u = std::max(UnitFloat(x0), 1.0e-7f);
  const auto angle = static_cast<float>(2.0 * M_PI * UnitFloat(x1));
  const float radius = std::sqrt(-2.0f * std::log(u));
  return {std::sin(angle) * radius, std::cos(angle) * radius};
}
inline std::array<double, 2> NormalDoubles(uint32_t x0, uint32_t x1, uint32_t x2, uint32_t x3) {
  const double u = std::max(UnitDouble(x0, x1), 1.0e-7);
  const double angle = 2.0 * M_PI * UnitDouble(x2, x3);
  const double radius = std::sqrt(-2.0 * std::log(u));
  return {std::sin(angle) * radius, std::cos(angle) * radius};
}

// The generator of a stateless op: both seeds are mixed, so that it does not matter which of them varies.
inline PhiloxRandom PhiloxOfSeeds(uint64_t seed0, uint64_t seed1) {
  PhiloxRandom mixer(0x02461e293ec8f720u, seed1);
  mixer.Skip(seed0);
  const PhiloxRandom::Block x = mixer();
  return PhiloxRandom(x[0] | (uint64_t{x[1]} << 32), x[2] | (uint64_t{x[3]} << 32));
}

// The generator's 32-bit words one after the other.
class PhiloxStream {
 public:
  // Starts at word `word` of the generator.
  explicit PhiloxStream(PhiloxRandom generator, uint64_t word = 0) : generator_(generator) {
    generator_.Skip(word / 4);
    block_ = generator_();
    used_ = word % 4;
  }

  uint32_t Next32() {
    if (used_ == block_.size()) {
      block_ = generator_();
      used_ = 0;
    }
    return block_[used_++];
  }
  uint64_t Next64() {
    const uint64_t low = Next32();
    return low | (uint64_t{Next32()} << 32);
  }
  float NextFloat() { return UnitFloat(Next32()); }
  double NextDouble() {
    const uint32_t high = Next32();
    return UnitDouble(high, Next32());
  }
  // In [0, n), all equally likely: words that would favour small numbers are drawn again.
  uint32_t Uniform(uint32_t n) {
    return Exact<uint32_t>(n, [this] { return Next32(); });
  }
  uint64_t Uniform64(uint64_t n) {
    return Exact<uint64_t>(n, [this] { return Next64(); });
  }

 private:
  template <typename T, typename Next>
  static T Exact(T n, Next next) {
    if (n == 0) return next() * n;
    if ((n & (n - 1)) == 0) return next() & (n - 1);
    const T remainder = ~T{0} % n + 1;
    T x = next();
    while (x < remainder) x = next();
    return x % n;
  }

  PhiloxRandom generator_;
  PhiloxRandom::Block block_;
  size_t used_ = 0;
};

}  // namespace millrace
