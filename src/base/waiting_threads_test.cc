// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "base/waiting_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>

#include "base/notification.h"

namespace millrace {
namespace {

TEST(WaitingThreadsTest, WorkThatWaitsForOtherWorkEnds) {
  constexpr int kCount = 50;
  std::atomic<int> arrived{0};
  {
    WaitingThreads threads;
    for (int i = 0; i < kCount; ++i) {
      threads.ScheduleOrRun([&] {
        ++arrived;
        while (arrived < kCount) std::this_thread::yield();
      });
    }
  }
  EXPECT_EQ(arrived, kCount);
}

TEST(WaitingThreadsTest, RefusesWorkWhenAllThreadsAreTaken) {
  Notification go_on;
  std::atomic<int> ended{0};
  WaitingThreads threads(2);
  for (int i = 0; i < 2; ++i) {
    UniqueFunction<void()> waits = [&] {
      go_on.Wait();
      ++ended;
    };
    ASSERT_TRUE(threads.TrySchedule(waits));
  }
  bool ran = false;
  Notification end;
  UniqueFunction<void()> refused = [&] {
    ran = true;
    end.Notify();
  };
  EXPECT_FALSE(threads.TrySchedule(refused));
  ASSERT_TRUE(refused);  // as it was
  go_on.Notify();
  while (!threads.TrySchedule(refused)) std::this_thread::yield();
  end.Wait();
  EXPECT_TRUE(ran);
}

TEST(WaitingThreadsTest, WorkWithoutAThreadRunsWhereItIsScheduled) {
  WaitingThreads none(0);
  std::thread::id ran;
  none.ScheduleOrRun([&] { ran = std::this_thread::get_id(); });
  EXPECT_EQ(ran, std::this_thread::get_id());
}

TEST(WaitingThreadsTest, AnIdleThreadIsUsedAgain) {
  std::mutex mu;
  std::set<std::thread::id> ids;
  WaitingThreads threads;
  constexpr int kRounds = 20;
  for (int i = 0; i < kRounds; ++i) {
    Notification ran;
    threads.ScheduleOrRun([&] {
      {
        const std::lock_guard<std::mutex> lock(mu);
        ids.insert(std::this_thread::get_id());
      }
      ran.Notify();
    });
    ran.Wait();
    // On a busy machine a thread may not be idle after this time, but not each of them.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_LT(ids.size(), static_cast<size_t>(kRounds));
}

}  // namespace
}  // namespace millrace
