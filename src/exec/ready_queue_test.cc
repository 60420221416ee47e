// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/ready_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <random>
#include <thread>
#include <vector>

#include "base/notification.h"
#include "exec/item_fifo.h"
#include "exec/walker.h"

namespace millrace {
namespace {

// Records the thread that ran it.
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

// Calls a function of the test.
class CallingWalker final : public Walker {
 public:
  explicit CallingWalker(UniqueFunction<void()> run) : run_(std::move(run)) {}
  void Start(uint32_t /*first*/) override {}
  void RunFrom(const ReadyItem& /*item*/) override { run_(); }
  Status Finish(bool /*ok*/) override { return Status(); }

 private:
  UniqueFunction<void()> run_;
};

// The step's own thread counts as one that takes work until it is woken: then it has a long node to run.
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

// Compared with a std::deque, with random numbers of pushed and popped items.
TEST(ItemFifoTest, GivesItemsInTheirOrder) {
  ItemFifo fifo;
  std::deque<uint32_t> expected;
  std::mt19937 random(1);
  uint32_t next = 0;
  for (int round = 0; round < 20'000; ++round) {
    const bool grows = round / 2'000 % 2 == 0;
    std::vector<ReadyItem> items(random() % (grows ? 7 : 4));
    for (ReadyItem& item : items) {
      item = {.walker = reinterpret_cast<Walker*>(uintptr_t{8}), .node = next, .dead = next % 3 == 0};
      expected.push_back(next++);
    }
    fifo.Push(items);
    for (uint32_t n = random() % (grows ? 5 : 7); n > 0 && !expected.empty(); --n) {
      ASSERT_FALSE(fifo.empty());
      const ReadyItem item = fifo.Pop();
      ASSERT_EQ(item.node, expected.front());
      ASSERT_EQ(item.dead, item.node % 3 == 0);
      ASSERT_EQ(item.walker, reinterpret_cast<Walker*>(uintptr_t{8}));
      ASSERT_EQ(item.iteration, nullptr);
      expected.pop_front();
    }
    ASSERT_EQ(fifo.empty(), expected.empty());
  }
}

// The worker has a node with a loop, and the step's own thread only waits for it.
TEST(ReadyQueueTest, TheOwnThreadHelpsWithLoopsWhileItWaits) {
  ThreadPool pool("test", 2);
  bool helped = false;
  // In a new thread: after failed waits a thread sleeps earlier.
  std::thread([&] {
    const RefPtr<ReadyQueue> queue = MakeRef<ReadyQueue>(&pool);
    const std::thread::id own = std::this_thread::get_id();
    std::atomic<bool> looping{false}, own_has_block{false};
    CallingWalker walker([&] {
      if (std::this_thread::get_id() == own) {
        while (!looping) std::this_thread::yield();
        return;
      }
      pool.ParallelFor(16, 20'000, [&](int64_t /*begin*/, int64_t /*end*/) {
        looping = true;
        if (std::this_thread::get_id() == own) own_has_block = true;
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (!own_has_block && std::chrono::steady_clock::now() < until) std::this_thread::yield();
      });
      helped = own_has_block;
    });
    const ReadyItem item{.walker = &walker};
    queue->Push(std::vector<ReadyItem>{item, item});
    queue->WorkUntilDone();
  }).join();
  EXPECT_TRUE(helped);
}

}  // namespace
}  // namespace millrace
