// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The counter-based generator Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel Random Numbers: As Easy
// as 1, 2, 3", SC 2011), keyed and stepped as TensorFlow 1.x does, so that equal seeds give equal numbers.
#pragma once

#include <array>
#include <cstdint>

#include "base/mutex.h"

namespace millrace {

// A position in a stream of 128-bit blocks. A value: copy it and Skip() to any block in constant time.
class PhiloxRandom {
 public:
  static constexpr int kResultElementCount = 4;
  using Block = std::array<uint32_t, 4>;

  constexpr PhiloxRandom() = default;
  // The key is seed_lo; the upper half of the counter is seed_hi.
  constexpr PhiloxRandom(uint64_t seed_lo, uint64_t seed_hi)
      : counter_lo_(0), counter_hi_(seed_hi), key_(seed_lo) {}

  constexpr uint64_t counter_lo() const { return counter_lo_; }
  constexpr uint64_t counter_hi() const { return counter_hi_; }
  constexpr uint64_t key() const { return key_; }

  // Passes over `count` blocks.
  constexpr void Skip(uint64_t count) {
    counter_lo_ += count;
    if (counter_lo_ < count) ++counter_hi_;
  }

  // The block at the position; moves on by one.
  constexpr Block operator()() {
    Block c = {static_cast<uint32_t>(counter_lo_), static_cast<uint32_t>(counter_lo_ >> 32),
               static_cast<uint32_t>(counter_hi_), static_cast<uint32_t>(counter_hi_ >> 32)};
    auto k0 = static_cast<uint32_t>(key_);
    auto k1 = static_cast<uint32_t>(key_ >> 32);
    for (int round = 0; round < kRounds; ++round) {
      const uint64_t p0 = uint64_t{kMultiplier0} * c[0];
      const uint64_t p1 = uint64_t{kMultiplier1} * c[2];
      c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
           static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
      k0 += kWeyl0;
      k1 += kWeyl1;
    }
    Skip(1);
    return c;
  }

  static constexpr int kRounds = 10;
  static constexpr uint32_t kMultiplier0 = 0xD2511F53;
  static constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
  static constexpr uint32_t kWeyl0 = 0x9E3779B9;
  static constexpr uint32_t kWeyl1 = 0xBB67AE85;

 private:
  uint64_t counter_lo_ = 0;
  uint64_t counter_hi_ = 0;
  uint64_t key_ = 0;
};

// 64 bits from the operating system.
uint64_t RandomSeed64();

// The generator of one random op: each run reserves its own part of the stream. Thread-safe, never blocks for
// long.
class GuardedPhilox {
 public:
  GuardedPhilox() = default;
  // Both seeds zero means: choose them at random.
  GuardedPhilox(int64_t seed, int64_t seed2) { Init(seed, seed2); }
  GuardedPhilox(const GuardedPhilox&) = delete;
  GuardedPhilox& operator=(const GuardedPhilox&) = delete;

  void Init(int64_t seed, int64_t seed2);

  // The position at which this run starts; the next run starts `blocks` later.
  PhiloxRandom ReserveBlocks(uint64_t blocks);

  // What TensorFlow's random kernels reserve for that many outputs: a block for each of `multiplier` (256 in
  // all of its kernels) samples per output.
  PhiloxRandom Reserve(int64_t outputs, int multiplier = 256) {
    return ReserveBlocks(static_cast<uint64_t>(outputs) * static_cast<uint64_t>(multiplier));
  }

 private:
  Mutex mu_;
  PhiloxRandom generator_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace
