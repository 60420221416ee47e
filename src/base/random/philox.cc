// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "base/random/philox.h"

#include <sys/random.h>

#include <atomic>
#include <chrono>

namespace millrace {

uint64_t RandomSeed64() {
  uint64_t seed = 0;
  if (getrandom(&seed, sizeof(seed), 0) == static_cast<ssize_t>(sizeof(seed))) return seed;
  // No entropy source: clock and a count, mixed by the generator itself. Relaxed: only uniqueness matters.
  static std::atomic<uint64_t> calls{0};
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  PhiloxRandom mixer(static_cast<uint64_t>(now), calls.fetch_add(1, std::memory_order_relaxed));
  const PhiloxRandom::Block block = mixer();
  return (uint64_t{block[0]} << 32) | block[1];
}

void GuardedPhilox::Init(int64_t seed, int64_t seed2) {
  auto lo = static_cast<uint64_t>(seed);
  auto hi = static_cast<uint64_t>(seed2);
  if (lo == 0 && hi == 0) {
    lo = RandomSeed64();
    hi = RandomSeed64();
  }
  MutexLock lock(mu_);
  generator_ = PhiloxRandom(lo, hi);
}

PhiloxRandom GuardedPhilox::ReserveBlocks(uint64_t blocks) {
  MutexLock lock(mu_);
  const PhiloxRandom start = generator_;
  generator_.Skip(blocks);
  return start;
}

}  // namespace millrace
