// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "session/reclaimer.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <vector>

namespace millrace {
namespace {

TEST(ReclaimerTest, FreesAtOnceWithoutReaders) {
  Reclaimer reclaimer;
  auto object = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = object;
  reclaimer.Retire(std::move(object));
  EXPECT_TRUE(watch.expired());
  EXPECT_EQ(reclaimer.num_retired(), 0u);
}

TEST(ReclaimerTest, AReaderThatBeganBeforeKeepsAnObject) {
  Reclaimer reclaimer;
  auto object = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = object;
  std::optional<Reclaimer::Reader> reader(reclaimer);
  reclaimer.Retire(std::move(object));
  for (int i = 0; i < 10; ++i) reclaimer.Retire(std::make_shared<int>(2));
  EXPECT_FALSE(watch.expired());
  reader.reset();
  reclaimer.Retire(std::make_shared<int>(3));
  EXPECT_TRUE(watch.expired());
  EXPECT_EQ(reclaimer.num_retired(), 0u);
}

TEST(ReclaimerTest, ALaterReaderDoesNotKeepAnEarlierObject) {
  Reclaimer reclaimer;
  auto first = std::make_shared<int>(1);
  auto second = std::make_shared<int>(2);
  const std::weak_ptr<int> watch_first = first, watch_second = second;
  std::optional<Reclaimer::Reader> early(reclaimer);
  reclaimer.Retire(std::move(first));
  const Reclaimer::Reader late(reclaimer);
  early.reset();
  reclaimer.Retire(std::move(second));
  EXPECT_TRUE(watch_first.expired());
  EXPECT_FALSE(watch_second.expired());
}

TEST(ReclaimerTest, ReadersThatOverlapWithoutEndDoNotKeepObjects) {
  Reclaimer reclaimer;
  auto object = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = object;
  std::optional<Reclaimer::Reader> readers[2];
  readers[0].emplace(reclaimer);
  reclaimer.Retire(std::move(object));
  for (size_t i = 1; i < 8; ++i) {  // one always exists
    readers[i % 2].emplace(reclaimer);
    readers[(i + 1) % 2].reset();
    reclaimer.Retire(nullptr);
  }
  EXPECT_TRUE(watch.expired());
}

TEST(ReclaimerTest, DestructionFreesWhatIsLeft) {
  auto object = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = object;
  {
    Reclaimer reclaimer;
    {
      const Reclaimer::Reader reader(reclaimer);
      reclaimer.Retire(std::move(object));
    }
    EXPECT_FALSE(watch.expired());
  }
  EXPECT_TRUE(watch.expired());
}

// Records its destruction, before its memory is freed.
struct Value {
  explicit Value(int n) : number(n) {}
  ~Value() { number.store(-1); }
  std::atomic<int> number;
};

// `shared`: on threads without a separate slot.
void ReadWhileObjectsAreRetired(bool shared) {
  for (unsigned slot = 0; shared && slot < kOwnedSlots;) std::thread([&] { slot = ThreadSlot(); }).join();

  Reclaimer reclaimer;
  auto current = std::make_shared<Value>(0);
  std::atomic<const Value*> linked{current.get()};
  std::atomic<bool> stop{false};
  std::atomic<int> bad{0};
  std::vector<std::thread> threads;
  threads.reserve(3);
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (!stop.load()) {
        const Reclaimer::Reader reader(reclaimer);
        if (linked.load(std::memory_order_acquire)->number.load() < 0) ++bad;
      }
    });
  }
  for (int i = 1; i < 5000; ++i) {
    auto next = std::make_shared<Value>(i);
    linked.store(next.get(), std::memory_order_release);
    reclaimer.Retire(std::exchange(current, std::move(next)));
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bad.load(), 0);
  reclaimer.Retire(nullptr);
  EXPECT_EQ(reclaimer.num_retired(), 0u);
}

TEST(ReclaimerTest, ReadersOnManyThreadsNeverSeeFreedObjects) { ReadWhileObjectsAreRetired(false); }

TEST(ReclaimerTest, ReadersWithSharedSlotsNeverSeeFreedObjects) { ReadWhileObjectsAreRetired(true); }

}  // namespace
}  // namespace millrace
