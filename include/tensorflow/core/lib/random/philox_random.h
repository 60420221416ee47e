// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The generator Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel Random Numbers: As Easy as 1, 2, 3",
// SC 2011) with TensorFlow's keys and counters: equal seeds give equal numbers.
#ifndef TENSORFLOW_CORE_LIB_RANDOM_PHILOX_RANDOM_H_
#define TENSORFLOW_CORE_LIB_RANDOM_PHILOX_RANDOM_H_

#include "tensorflow/core/platform/types.h"

namespace tensorflow {
namespace random {

template <typename T, int Size>
class Array {
 public:
  static const int kElementCount = Size;
  Array() : values_() {}
  const T& operator[](int i) const { return values_[i]; }
  T& operator[](int i) { return values_[i]; }
  int size() const { return Size; }

 private:
  T values_[Size];
};

class PhiloxRandom {
 public:
  using ResultType = Array<uint32, 4>;
  using ResultElementType = uint32;
  using Key = Array<uint32, 2>;
  static const int kResultElementCount = 4;
  static const int kElementCost = 10;

  PhiloxRandom() : lo_(0), hi_(0), key_(0) {}
  explicit PhiloxRandom(uint64 seed) : lo_(0), hi_(0), key_(seed) {}
  PhiloxRandom(uint64 seed_lo, uint64 seed_hi) : lo_(0), hi_(seed_hi), key_(seed_lo) {}

  // Skips `count` blocks of four numbers.
  void Skip(uint64 count) {
    lo_ += count;
    if (lo_ < count) ++hi_;
  }
  ResultType operator()() {
    ResultType c;
    c[0] = static_cast<uint32>(lo_);
    c[1] = static_cast<uint32>(lo_ >> 32);
    c[2] = static_cast<uint32>(hi_);
    c[3] = static_cast<uint32>(hi_ >> 32);
    uint32 k0 = static_cast<uint32>(key_), k1 = static_cast<uint32>(key_ >> 32);
    for (int round = 0; round < 10; ++round) {
      const uint64 p0 = static_cast<uint64>(0xD2511F53u) * c[0];
      const uint64 p1 = static_cast<uint64>(0xCD9E8D57u) * c[2];
      const uint32 c1 = c[1], c3 = c[3];
      c[0] = static_cast<uint32>(p1 >> 32) ^ c1 ^ k0;
      c[1] = static_cast<uint32>(p1);
      c[2] = static_cast<uint32>(p0 >> 32) ^ c3 ^ k1;
      c[3] = static_cast<uint32>(p0);
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    Skip(1);
    return c;
  }

 private:
  uint64 lo_, hi_, key_;
};

}  // namespace random
}  // namespace tensorflow

#endif
