// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/ready_queue.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/notification.h"
#include "exec/walker.h"

namespace millrace {
namespace {

// Says which thread ran it.
class ThreadWalker final : public Walker {
 public:
  void Start(uint32_t /*first*/) override {}
  void RunFrom(const ReadyItem& /*item*/) override { ran_on = std::this_thread::get_id(); }
  Status Finish(bool /*ok*/) override { return Status(); }
  std::thread::id ran_on;
};

TEST(ReadyQueueTest, TheOwnThreadTakesWhatIsHandedOverWhileItWaits) {
  ThreadPool pool("test", 2);
  const RefPtr<ReadyQueue> queue = MakeRef<ReadyQueue>(&pool);
  ThreadWalker walker;
  const ReadyItem item{.walker = &walker};
  EXPECT_FALSE(queue->HandOver(item));  // no thread waits
  queue->BeginAsync();
  std::thread worker([&] {
    while (!queue->HandOver(item)) std::this_thread::yield();
    queue->EndAsync();
  });
  queue->WorkUntilDone();
  EXPECT_EQ(walker.ran_on, std::this_thread::get_id());
  worker.join();
}

// Runs what it is told to.
class CallingWalker final : public Walker {
 public:
  explicit CallingWalker(UniqueFunction<void()> run) : run_(std::move(run)) {}
  void Start(uint32_t /*first*/) override {}
  void RunFrom(const ReadyItem& /*item*/) override { run_(); }
  Status Finish(bool /*ok*/) override { return Status(); }

 private:
  UniqueFunction<void()> run_;
};

// The own thread counts as one that takes work until it is woken: then it has a long node to run.
TEST(ReadyQueueTest, WhatComesAfterAHandOverGetsAnotherThread) {
  ThreadPool pool("test", 2);
  for (int round = 0; round < 200; ++round) {
    const RefPtr<ReadyQueue> queue = MakeRef<ReadyQueue>(&pool);
    Notification second_ran;
    CallingWalker first([&] { second_ran.Wait(); });
    CallingWalker second([&] { second_ran.Notify(); });
    queue->BeginAsync();
    std::thread worker([&] {
      while (!queue->HandOver({.walker = &first})) std::this_thread::yield();
      const ReadyItem item{.walker = &second};
      queue->Push({&item, 1});
      queue->EndAsync();
    });
    queue->WorkUntilDone();
    worker.join();
  }
}

}  // namespace
}  // namespace millrace
