// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// One number at a time from a PhiloxRandom.
#ifndef TENSORFLOW_CORE_LIB_RANDOM_SIMPLE_PHILOX_H_
#define TENSORFLOW_CORE_LIB_RANDOM_SIMPLE_PHILOX_H_

#include "tensorflow/core/lib/random/random_distributions.h"

namespace tensorflow {
namespace random {

// Not thread-safe. The generator must outlive it.
class SimplePhilox {
 public:
  explicit SimplePhilox(PhiloxRandom* generator) : single_(generator) {}
  uint32 Rand32() { return single_(); }
  uint64 Rand64() {
    const uint32 low = single_(), high = single_();
    return low | static_cast<uint64>(high) << 32;
  }
  float RandFloat() { return Uint32ToFloat(single_()); }
  double RandDouble() {
    const uint32 first = single_(), second = single_();
    return Uint64ToDouble(first, second);
  }
  // In [0, n), with equal probability. REQUIRES: n > 0.
  uint32 Uniform(uint32 n) {
    return Below<uint32>(n, [this] { return Rand32(); });
  }
  uint64 Uniform64(uint64 n) {
    return Below<uint64>(n, [this] { return Rand64(); });
  }
  bool OneIn(uint32 n) { return Uniform(n) == 0; }
  // Below a power of two that is drawn first: small numbers are more frequent.
  uint32 Skewed(int max_log) { return Uniform(1u << (Rand32() % static_cast<uint32>(max_log + 1))); }

 private:
  // Numbers below the remainder are drawn again, so that all results are equally probable.
  template <typename Unsigned, typename Draw>
  static Unsigned Below(Unsigned n, Draw draw) {
    if ((n & (n - 1)) == 0) return draw() & (n - 1);
    const Unsigned rest = static_cast<Unsigned>(~static_cast<Unsigned>(0) % n + 1);
    Unsigned drawn = draw();
    while (drawn < rest) drawn = draw();
    return drawn % n;
  }
  SingleSampleAdapter<PhiloxRandom> single_;
};

}  // namespace random
}  // namespace tensorflow

#endif
