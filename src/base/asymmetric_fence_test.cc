// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "base/asymmetric_fence.h"

#include <gtest/gtest.h>

#include <barrier>
#include <thread>
#include <vector>

#include "base/thread_slot.h"

namespace millrace {
namespace {

// Both threads write, fence and read. How often neither saw what the other had written.
int TimesNeitherSaw(int rounds) {
  std::atomic<int> x{0}, y{0};
  int seen_by_light = 0, seen_by_heavy = 0, neither = 0;
  std::barrier meet(2);
  std::thread light([&] {
    for (int i = 1; i <= rounds; ++i) {
      meet.arrive_and_wait();
      x.store(i, std::memory_order_relaxed);
      LightFence();
      seen_by_light = y.load(std::memory_order_relaxed);
      meet.arrive_and_wait();
    }
  });
  for (int i = 1; i <= rounds; ++i) {
    meet.arrive_and_wait();
    y.store(i, std::memory_order_relaxed);
    HeavyFence();
    seen_by_heavy = x.load(std::memory_order_relaxed);
    meet.arrive_and_wait();
    if (seen_by_light != i && seen_by_heavy != i) ++neither;
  }
  light.join();
  return neither;
}

TEST(AsymmetricFenceTest, OneOfTwoThreadsSeesTheOther) { EXPECT_EQ(TimesNeitherSaw(20'000), 0); }

TEST(AsymmetricFenceTest, TheSameWithoutHelpOfTheSystem) {
  const bool before = heavy_fences_reach_all_threads.exchange(false);
  EXPECT_EQ(TimesNeitherSaw(20'000), 0);
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
