// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "base/asymmetric_fence.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/thread_slot.h"

namespace millrace {
namespace {

struct alignas(kCacheApart) Number {
  std::atomic<int> value{0};
};

void SpinUntil(const Number& number, int value) {
  for (int spins = 1; number.value.load(std::memory_order_acquire) != value; ++spins) {
    if (spins % 1000 == 0) std::this_thread::yield();  // one core may run both threads
  }
}

// Both threads write, execute a fence and read. Returns how often neither read the value that the other had
// written: never, unless a fence is missing. Without the heavy fence this happens in about ten of 100,000
// rounds on two cores: the cache lines that the light side writes first are in the other core's cache, so
// that its next store waits in the store buffer.
int TimesNeitherSaw(int rounds, void (*heavy_fence)() = HeavyFence) {
  Number x, y, begun, ended, before[8];
  std::atomic<int> seen_by_light{0}, work{0};
  std::thread light([&] {
    for (int i = 1; i <= rounds; ++i) {
      SpinUntil(begun, i);
      for (Number& number : before) number.value.store(i, std::memory_order_relaxed);
      x.value.store(i, std::memory_order_relaxed);
      LightFence();
      seen_by_light.store(y.value.load(std::memory_order_relaxed), std::memory_order_relaxed);
      ended.value.store(i, std::memory_order_release);
    }
  });
  int neither = 0;
  for (int i = 1; i <= rounds; ++i) {
    for (Number& number : before) number.value.store(-i, std::memory_order_relaxed);
    begun.value.store(i, std::memory_order_release);
    for (int wait = i % 64; wait > 0; --wait) work.store(wait, std::memory_order_relaxed);
    y.value.store(i, std::memory_order_relaxed);
    heavy_fence();
    const int seen_by_heavy = x.value.load(std::memory_order_relaxed);
    SpinUntil(ended, i);
    if (seen_by_light.load(std::memory_order_relaxed) != i && seen_by_heavy != i) ++neither;
  }
  light.join();
  return neither;
}

TEST(AsymmetricFenceTest, OneOfTwoThreadsSeesTheOther) { EXPECT_EQ(TimesNeitherSaw(50'000), 0); }

TEST(AsymmetricFenceTest, TheSameByProtectionOfAPage) {
  EXPECT_EQ(TimesNeitherSaw(30'000, FenceByProtection), 0);
}

TEST(AsymmetricFenceTest, TheSameWithoutHelpOfTheSystem) {
  const bool before = heavy_fences_reach_all_threads.exchange(false);
  EXPECT_EQ(TimesNeitherSaw(100'000), 0);
  heavy_fences_reach_all_threads = before;
}

TEST(ThreadSlotTest, OwnedSlotsHaveOneThread) {
  std::vector<unsigned> slots(3 * kOwnedSlots);
  for (unsigned& slot : slots) std::thread([&] { slot = ThreadSlot(); }).join();
  std::vector<int> owners(kOwnedSlots);
  for (const unsigned slot : slots) {
    if (slot < kOwnedSlots) ++owners[slot];
  }
  for (const int n : owners) EXPECT_LE(n, 1);
  for (const unsigned slot : {0u, kOwnedSlots - 1, kOwnedSlots, kOwnedSlots + 7, 0xffffu}) {
    const unsigned place = PlaceOfSlot(slot, 4);
    EXPECT_LT(place, kOwnedSlots + 4);
    EXPECT_EQ(place < kOwnedSlots, slot < kOwnedSlots);
  }
}

}  // namespace
}  // namespace millrace
