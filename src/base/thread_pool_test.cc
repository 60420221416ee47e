// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <latch>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/notification.h"

namespace millrace {
namespace {

class ThreadPoolWith : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolWith, ::testing::Values(1, 2, 3, 8));

TEST_P(ThreadPoolWith, RunsEveryTaskOnce) {
  constexpr int kTasks = 2000;
  std::vector<std::atomic<int>> runs(kTasks);
  std::latch all(kTasks);
  ThreadPool pool("test", GetParam());
  for (int i = 0; i < kTasks; ++i) {
    pool.Schedule([&, i] {
      runs[i].fetch_add(1);
      all.count_down();
    });
  }
  all.wait();
  for (int i = 0; i < kTasks; ++i) EXPECT_EQ(runs[i].load(), 1) << i;
}

TEST_P(ThreadPoolWith, RunsTasksThatTasksSchedule) {
  std::latch all(1 + 2 + 4 + 8 + 16 + 32 + 64 + 128);
  ThreadPool pool("test", GetParam());
  std::function<void(int)> spawn = [&](int depth) {
    if (depth < 7) {
      pool.Schedule([&, depth] { spawn(depth + 1); });
      pool.Schedule([&, depth] { spawn(depth + 1); });
    }
    all.count_down();
  };
  pool.Schedule([&] { spawn(0); });
  all.wait();
}

TEST_P(ThreadPoolWith, DestructorRunsWhatWasScheduled) {
  std::atomic<int> runs{0};
  {
    ThreadPool pool("test", GetParam());
    for (int i = 0; i < 500; ++i) {
      pool.Schedule([&] {
        runs.fetch_add(1);
        pool.Schedule([&] { runs.fetch_add(1); });
      });
    }
  }
  EXPECT_EQ(runs.load(), 1000);
}

TEST_P(ThreadPoolWith, IsDestroyedWithoutHavingBeenUsed) { ThreadPool pool("test", GetParam()); }

TEST_P(ThreadPoolWith, KeepsTheParallelismItWasGiven) {
  EXPECT_EQ(ThreadPool("test", GetParam()).parallelism(), GetParam());
}

TEST_P(ThreadPoolWith, NumbersItsWorkers) {
  ThreadPool pool("test", GetParam());
  EXPECT_EQ(pool.CurrentWorker(), -1);
  std::atomic<bool> in_range{true};
  std::latch all(100);
  for (int i = 0; i < 100; ++i) {
    pool.Schedule([&] {
      const int w = pool.CurrentWorker();
      // With parallelism 1 there are no workers to number.
      if (GetParam() == 1 ? w != -1 : w < 0 || w >= GetParam() - 1) in_range = false;
      all.count_down();
    });
  }
  all.wait();
  EXPECT_TRUE(in_range);
}

TEST(ThreadPoolTest, DoesNotTakeAWorkerOfAnotherPoolForItsOwn) {
  ThreadPool a("a", 2);
  ThreadPool b("b", 2);
  Notification done;
  int seen = 0;
  a.Schedule([&] {
    seen = b.CurrentWorker();
    done.Notify();
  });
  done.Wait();
  EXPECT_EQ(seen, -1);
}

TEST(ThreadPoolTest, WorkerRunsItsOwnTasksNewestFirst) {
  std::vector<int> order;  // one worker writes it
  Notification done;
  ThreadPool pool("test", 2);
  pool.Schedule([&] {
    pool.Schedule([&] {
      order.push_back(1);
      done.Notify();
    });
    pool.Schedule([&] { order.push_back(2); });
    pool.Schedule([&] { order.push_back(3); });
  });
  done.Wait();
  EXPECT_EQ(order, std::vector<int>({3, 2, 1}));
}

TEST(ThreadPoolTest, TasksFromOutsideRunOldestFirst) {
  std::vector<int> order;
  Notification go, done;
  ThreadPool pool("test", 2);
  pool.Schedule([&] { go.Wait(); });
  pool.Schedule([&] { order.push_back(1); });
  pool.Schedule([&] { order.push_back(2); });
  pool.Schedule([&] {
    order.push_back(3);
    done.Notify();
  });
  go.Notify();
  done.Wait();
  EXPECT_EQ(order, std::vector<int>({1, 2, 3}));
}

TEST(ThreadPoolTest, IdleWorkerStealsFromABusyOne) {
  Notification stolen;
  ThreadPool pool("test", 3);
  // The first worker never returns to its queue until the other has emptied it.
  pool.Schedule([&] {
    pool.Schedule([&] { stolen.Notify(); });
    stolen.Wait();
  });
  stolen.Wait();
}

using Range = std::pair<int64_t, int64_t>;

std::vector<Range> RangesOf(ThreadPool& pool, int64_t total, int64_t cost) {
  std::mutex mu;
  std::vector<Range> ranges;
  pool.ParallelFor(total, cost, [&](int64_t begin, int64_t end) {
    std::lock_guard<std::mutex> lock(mu);
    ranges.emplace_back(begin, end);
  });
  std::sort(ranges.begin(), ranges.end());
  return ranges;
}

TEST_P(ThreadPoolWith, ParallelForCoversTheRangeExactly) {
  ThreadPool pool("test", GetParam());
  for (const int64_t total : {1, 2, 63, 64, 65, 1000, 4097, 1000003}) {
    for (const int64_t cost : {0, 1, 100, 40000, 1000000}) {
      int64_t next = 0;
      for (const auto& [begin, end] : RangesOf(pool, total, cost)) {
        ASSERT_EQ(begin, next) << total << " " << cost;
        ASSERT_LT(begin, end) << total << " " << cost;
        next = end;
      }
      ASSERT_EQ(next, total) << total << " " << cost;
    }
  }
}

TEST_P(ThreadPoolWith, ParallelForCallsNothingForAnEmptyRange) {
  ThreadPool pool("test", GetParam());
  EXPECT_TRUE(RangesOf(pool, 0, 1000).empty());
  EXPECT_TRUE(RangesOf(pool, -5, 1000).empty());
}

TEST(ThreadPoolTest, BlocksDoNotDependOnTheNumberOfThreads) {
  ThreadPool one("one", 1), two("two", 2), eight("eight", 8);
  for (const int64_t total : {7, 1000, 123457}) {
    for (const int64_t cost : {1, 300, 20000}) {
      const auto ranges = RangesOf(one, total, cost);
      EXPECT_EQ(ranges, RangesOf(two, total, cost)) << total << " " << cost;
      EXPECT_EQ(ranges, RangesOf(eight, total, cost)) << total << " " << cost;
    }
  }
}

TEST(ThreadPoolTest, BlocksAreBoundedInNumberAndNotTiny) {
  ThreadPool pool("test", 2);
  EXPECT_EQ(RangesOf(pool, 1000, 10).size(), 1u);                // 10 us
  EXPECT_EQ(RangesOf(pool, 1000, 100).size(), 6u);               // 100 us
  EXPECT_LE(RangesOf(pool, 100000000, 1000000).size(), 256u);    // 28 hours
  EXPECT_EQ(RangesOf(pool, 3, INT64_MAX).size(), 3u);            // the total overflows
  EXPECT_LE(RangesOf(pool, INT64_MAX, INT64_MAX).size(), 256u);  // so does everything
}

TEST(ThreadPoolTest, CheapLoopRunsInTheCallerInOneCall) {
  ThreadPool pool("test", 4);
  int calls = 0;
  pool.ParallelFor(1000, 5, [&](int64_t, int64_t) {
    ++calls;
    EXPECT_EQ(pool.CurrentWorker(), -1);
  });
  EXPECT_EQ(calls, 1);
}

TEST(ThreadPoolTest, SumByBlocksIsTheSameBitForBit) {
  std::vector<float> values(200001);
  std::mt19937 random(7);
  for (float& v : values) v = std::uniform_real_distribution<float>(-1, 1)(random);
  const auto sum = [&](int threads) {
    ThreadPool pool("test", threads);
    std::mutex mu;
    std::map<int64_t, float> partial;
    pool.ParallelFor(static_cast<int64_t>(values.size()), 50, [&](int64_t begin, int64_t end) {
      float s = 0;
      for (int64_t i = begin; i < end; ++i) s += values[i];
      std::lock_guard<std::mutex> lock(mu);
      partial[begin] = s;
    });
    float total = 0;
    for (const auto& [begin, s] : partial) total += s;
    return total;
  };
  const float alone = sum(1);
  EXPECT_EQ(alone, sum(2));
  EXPECT_EQ(alone, sum(5));
}

TEST_P(ThreadPoolWith, LoopThrowsTheBadAllocOfAShardWhenAllShardsHaveEnded) {
  ThreadPool pool("test", GetParam());
  for (int repeat = 0; repeat < 50; ++repeat) {
    std::atomic<int> running{0};
    EXPECT_THROW(pool.ParallelFor(100'000, 100,
                                  [&](int64_t begin, int64_t) {
                                    ++running;
                                    const bool fails = begin > 50'000;
                                    --running;
                                    if (fails) throw std::bad_alloc();
                                  }),
                 std::bad_alloc);
    EXPECT_EQ(running.load(), 0);
  }
}

TEST(ThreadPoolTest, WorkersHelpALoop) {
  ThreadPool pool("test", 2);
  std::latch both(2);
  // Neither block ends before the other has begun.
  pool.ParallelFor(2, 1000000, [&](int64_t, int64_t) { both.arrive_and_wait(); });
}

// The number of threads that are in a loop of `pool` at once; the blocks wait for each other while that is
// possible.
int ThreadsInALoop(ThreadPool& pool, int expected) {
  std::mutex mu;
  std::condition_variable changed;
  std::set<std::thread::id> seen;
  pool.ParallelFor(64, 1'000'000, [&](int64_t, int64_t) {
    std::unique_lock<std::mutex> lock(mu);
    seen.insert(std::this_thread::get_id());
    changed.notify_all();
    changed.wait(lock, [&] { return static_cast<int>(seen.size()) >= expected; });
  });
  return static_cast<int>(seen.size());
}

TEST(ThreadPoolTest, ALimitedViewUsesThatManyThreadsOfItsBase) {
  ThreadPool base("base", 4);
  ThreadPool three(base, 3);
  ThreadPool two(base, 2);
  ThreadPool one(base, 1);
  ThreadPool more(base, 9);
  EXPECT_EQ(three.parallelism(), 3);
  EXPECT_EQ(one.parallelism(), 1);
  EXPECT_EQ(more.parallelism(), 4);
  EXPECT_EQ(ThreadsInALoop(base, 4), 4);
  EXPECT_EQ(ThreadsInALoop(three, 3), 3);
  EXPECT_EQ(ThreadsInALoop(two, 2), 2);
  EXPECT_EQ(ThreadsInALoop(one, 1), 1);
  std::atomic<bool> done{false};
  two.Schedule([&] {
    EXPECT_EQ(two.CurrentWorker(), base.CurrentWorker());
    two.SignalDone(done);
  });
  two.HelpUntil(done);
}

TEST(ThreadPoolTest, LoopDoesNotWaitForBusyWorkers) {
  Notification go;
  std::atomic<int64_t> sum{0};
  {
    ThreadPool pool("test", 3);
    std::latch busy(2);
    for (int i = 0; i < 2; ++i) {
      pool.Schedule([&] {
        busy.count_down();
        go.Wait();
      });
    }
    busy.wait();
    for (int i = 0; i < 100; ++i) {
      pool.ParallelFor(100, 100000, [&](int64_t begin, int64_t end) { sum += end - begin; });
    }
    go.Notify();
  }
  EXPECT_EQ(sum.load(), 100 * 100);
}

TEST_P(ThreadPoolWith, LoopsNestInLoopsAndTasks) {
  std::atomic<int64_t> sum{0};
  std::latch all(20);
  ThreadPool pool("test", GetParam());
  const auto nest = [&] {
    pool.ParallelFor(8, 100000, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        pool.ParallelFor(16, 100000, [&](int64_t b, int64_t e) {
          pool.ParallelFor(e - b, 100000, [&](int64_t bb, int64_t ee) { sum += ee - bb; });
        });
      }
    });
  };
  for (int i = 0; i < 20; ++i) {
    pool.Schedule([&] {
      nest();
      all.count_down();
    });
  }
  nest();
  all.wait();
  EXPECT_EQ(sum.load(), 21 * 8 * 16);
}

TEST(ThreadPoolTest, ManyThreadsLoopAndScheduleAtOnce) {
  constexpr int kThreads = 6;
  constexpr int kRounds = 150;
  std::atomic<int64_t> sum{0};
  std::atomic<int64_t> tasks{0};
  {
    ThreadPool pool("test", 4);
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int r = 0; r < kRounds; ++r) {
          pool.Schedule([&] { tasks.fetch_add(1); });
          // The range lives on this stack frame and ends right after: a late helper must not access it.
          std::vector<int64_t> values(static_cast<size_t>(10 + (t * 31 + r) % 90), 1);
          pool.ParallelFor(static_cast<int64_t>(values.size()), 10000, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) sum.fetch_add(std::exchange(values[i], 0));
          });
          int64_t left = 0;
          for (const int64_t v : values) left += v;
          ASSERT_EQ(left, 0);
        }
      });
    }
  }
  int64_t want = 0;
  for (int t = 0; t < kThreads; ++t) {
    for (int r = 0; r < kRounds; ++r) want += 10 + (t * 31 + r) % 90;
  }
  EXPECT_EQ(sum.load(), want);
  EXPECT_EQ(tasks.load(), kThreads * kRounds);
}

TEST_P(ThreadPoolWith, HelpUntilReturnsWhenSignalled) {
  ThreadPool pool("test", GetParam());
  for (int i = 0; i < 200; ++i) {
    std::atomic<bool> done{false};
    pool.Schedule([&] { pool.SignalDone(done); });
    pool.HelpUntil(done);
  }
}

TEST(ThreadPoolTest, HelpUntilRunsTasksWhileWorkersAreBusy) {
  Notification go;
  ThreadPool pool("test", 2);
  std::latch busy(1);
  pool.Schedule([&] {
    busy.count_down();
    go.Wait();
  });
  busy.wait();
  std::atomic<bool> done{false};
  pool.Schedule([&] { pool.SignalDone(done); });
  pool.HelpUntil(done);  // no other thread could run the task
  go.Notify();
}

TEST(ThreadPoolTest, SleepersInHelpUntilAreWokenByOutsiders) {
  std::vector<std::atomic<bool>> done(4);
  ThreadPool pool("test", 2);
  std::vector<std::jthread> waiters;
  for (auto& flag : done) waiters.emplace_back([&] { pool.HelpUntil(flag); });
  std::jthread signaller([&] {
    for (auto& flag : done) pool.SignalDone(flag);
  });
}

TEST(ThreadPoolTest, HelpUntilNestsInTasks) {
  ThreadPool pool("test", 3);
  std::atomic<int> leaves{0};
  std::atomic<bool> finished{false};
  pool.Schedule([&] {
    std::atomic<int> left{10};
    std::atomic<bool> done{false};
    for (int i = 0; i < 10; ++i) {
      pool.Schedule([&] {
        leaves.fetch_add(1);
        if (left.fetch_sub(1) == 1) pool.SignalDone(done);
      });
    }
    pool.HelpUntil(done);
    pool.SignalDone(finished);
  });
  pool.HelpUntil(finished);
  EXPECT_EQ(leaves.load(), 10);
}

TEST(ThreadPoolTest, DestroysTheTasksItRan) {
  auto token = std::make_shared<int>(0);
  {
    ThreadPool pool("test", 3);
    for (int i = 0; i < 100; ++i) pool.Schedule([token] { EXPECT_GT(token.use_count(), 1); });
  }
  EXPECT_EQ(token.use_count(), 1);
}

// A loop of eight blocks that begins on a worker of `pool`, which has one. Each block waits until `go_on`.
class LoopOnWorker {
 public:
  LoopOnWorker(ThreadPool& pool, std::function<bool()> go_on) {
    pool.Schedule([this, &pool, go_on = std::move(go_on)] {
      pool.ParallelFor(8, 20'000, [&](int64_t begin, int64_t /*end*/) {
        (std::this_thread::get_id() == outsider_ ? of_outsider : of_worker).fetch_add(1);
        int64_t none = -1;
        first.compare_exchange_strong(none, begin);
        while (!go_on()) std::this_thread::yield();
      });
      done.Notify();
    });
    while (of_worker.load() == 0) std::this_thread::yield();
  }

  std::atomic<int64_t> first{-1};  // the block that began first
  std::atomic<int> of_outsider{0}, of_worker{0};
  Notification done;

 private:
  const std::thread::id outsider_ = std::this_thread::get_id();
};

TEST(ThreadPoolTest, HelpLoopTakesBlocksOfAnotherThread) {
  ThreadPool pool("test", 2);
  const std::atomic<bool> stop{false};
  EXPECT_FALSE(pool.HelpLoop(stop));  // there is none
  LoopOnWorker* started = nullptr;
  std::atomic<bool> ready{false};
  // The worker stays in its first block until this thread has taken one.
  LoopOnWorker loop(pool, [&] { return ready.load() && started->of_outsider.load() > 0; });
  started = &loop;
  ready = true;
  EXPECT_TRUE(pool.HelpLoop(stop));
  EXPECT_GE(loop.of_outsider.load(), 1);
  loop.done.Wait();
  EXPECT_EQ(loop.of_outsider.load() + loop.of_worker.load(), 8);
  EXPECT_FALSE(pool.HelpLoop(stop));
}

TEST(ThreadPoolTest, HelpLoopTakesNoBlockAfterTheStop) {
  ThreadPool pool("test", 2);
  const std::atomic<bool> stop{true};
  std::atomic<bool> go_on{false};
  LoopOnWorker loop(pool, [&] { return go_on.load(); });
  EXPECT_TRUE(pool.HelpLoop(stop));
  EXPECT_EQ(loop.of_outsider.load(), 0);
  go_on = true;
  loop.done.Wait();
  EXPECT_EQ(loop.of_worker.load(), 8);
}

// What a thread has in its cache does not depend on which of them begins a loop.
TEST(ThreadPoolTest, TheFirstBlockDependsOnTheThreadThatBegins) {
  ThreadPool pool("test", 2);
  LoopOnWorker loop(pool, [] { return true; });
  loop.done.Wait();
  EXPECT_EQ(loop.first.load(), 4);  // the second half is that of the only worker
}

// Of interest with a sanitizer, which sees when Schedule or SignalDone touches a pool that is gone.
TEST(ThreadPoolTest, APoolMayBeDestroyedAsSoonAsATaskOfAnotherThreadHasRun) {
  for (int i = 0; i < 300; ++i) {
    auto pool = std::make_unique<ThreadPool>("test", 2);
    std::atomic<bool> ran{false};
    std::thread outside([&ran, p = pool.get()] { p->Schedule([&ran] { ran = true; }); });
    while (!ran) std::this_thread::yield();
    pool.reset();
    outside.join();
  }
  for (int i = 0; i < 300; ++i) {
    auto pool = std::make_unique<ThreadPool>("test", 2);
    std::atomic<bool> done{false};
    std::thread outside([&done, p = pool.get()] { p->SignalDone(done); });
    pool->HelpUntil(done);
    pool.reset();
    outside.join();
  }
}

}  // namespace
}  // namespace millrace
