// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "base/fork.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>

#include "base/thread_pool.h"

// ThreadSanitizer calls this. Without the option it ends a child that starts threads.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_options();
const char* __tsan_default_options() { return "die_after_fork=0"; }
// NOLINTEND(bugprone-reserved-identifier)

namespace millrace {
namespace {

// The result of `body` in a child process; -1 if it does not end within 20 seconds.
template <typename Body>
int InChild(const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

struct Counter {
  int value = 0;
};

TEST(ForkTest, AChildHasObjectsOfItsOwn) {
  OfProcess<Counter>().value = 5;
  const ForkMark mark;
  EXPECT_TRUE(mark.is_of_this_process());
  EXPECT_EQ(InChild([&] { return mark.is_of_this_process() ? 100 : OfProcess<Counter>().value; }), 0);
  const auto in_grandchild = [&] {
    const ForkMark of_child;
    return InChild([&] { return mark.is_of_this_process() || of_child.is_of_this_process() ? 1 : 0; });
  };
  EXPECT_EQ(InChild(in_grandchild), 0);
  EXPECT_TRUE(mark.is_of_this_process());
  EXPECT_EQ(OfProcess<Counter>().value, 5);
}

int64_t SumOfSquares(ThreadPool& pool) {
  std::atomic<int64_t> sum{0};
  pool.ParallelFor(1000, 1'000'000, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) sum += i * i;
  });
  return sum;
}

// In the child processes the pools have no worker threads, whatever the state of the workers at the fork.
TEST(ForkTest, PoolsWorkInChildren) {
  ThreadPool pool("forked", 4);
  constexpr int64_t kSum = 332'833'500;
  ASSERT_EQ(SumOfSquares(pool), kSum);
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) SumOfSquares(pool);
  });
  for (int round = 0; round < 20; ++round) {
    EXPECT_EQ(InChild([&] {
                std::atomic<bool> done{false};
                pool.Schedule([&] { pool.SignalDone(done); });
                while (!done) std::this_thread::yield();  // without helping: a worker has to run it
                const ThreadPool another("of_child", 3);
                return SumOfSquares(pool) == kSum && pool.CurrentWorker() == -1 ? 0 : 1;
              }),
              0);
  }
  stop = true;
  busy.join();
  EXPECT_EQ(SumOfSquares(pool), kSum);
}

TEST(ForkTest, PoolsOfTheParentMayEndInChildren) {
  auto pool = std::make_unique<ThreadPool>("forked", 4);
  SumOfSquares(*pool);
  EXPECT_EQ(InChild([&] {
              pool.reset();
              return 0;
            }),
            0);
}

}  // namespace
}  // namespace millrace
