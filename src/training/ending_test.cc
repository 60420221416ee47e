// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Everything that waits in a training ends within 100 ms, without remaining threads: at a deadline, at an
// error elsewhere in the step, at the end of the session.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <memory>
#include <thread>

#include "millrace/coordinator.h"
#include "millrace/data.h"
#include "millrace/monitored_session.h"
#include "millrace/ops.h"
#include "millrace/queue_input.h"
#include "millrace/variables.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kLimit{100};
// On a machine with other load, one of this number of tries has to keep the limit. A wait with its own time
// limit (a second, a minute) fails in all of them.
constexpr int kTries = 40;
constexpr std::chrono::seconds kPatience{60};

int64_t NumThreads() { return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}); }

// Ended threads are joined, but the system may list one for a moment longer.
void ExpectThreads(int64_t most) {
  const auto deadline = Clock::now() + kPatience;
  while (NumThreads() > most && Clock::now() < deadline) std::this_thread::sleep_for(milliseconds(5));
  EXPECT_LE(NumThreads(), most);
}

// Calls `once`, which returns the duration of an ending, until it is short enough.
template <typename Once>
void ExpectSoon(const Once& once) {
  auto best = Clock::duration::max();
  for (int i = 0; i < kTries && best > kLimit; ++i) best = std::min<Clock::duration>(best, once());
  EXPECT_LE(std::chrono::duration_cast<milliseconds>(best).count(), kLimit.count());
}

// A pipeline whose stages all wait: their functions take elements of an empty queue.
std::vector<Output> NextOfWaitingPipeline(const Scope& scope) {
  const Output queue = ops::FIFOQueueV2(scope.WithOpName("empty"), {DataType::kInt64});
  const auto wait = [queue](const Scope& s, const std::vector<Output>& in) -> std::vector<Output> {
    return {ops::Add(s, in[0], ops::QueueDequeueV2(s, queue, {DataType::kInt64})[0])};
  };
  const auto numbers = [wait](const Scope& s, const std::vector<Output>&) {
    return Dataset::Range(s, int64_t{3}).Map(wait);
  };
  const Dataset dataset = Dataset::Range(scope, int64_t{100})
                              .Interleave(numbers, {.cycle_length = 2, .num_parallel_calls = 2})
                              .Map(wait, {.num_parallel_calls = 2})
                              .Shuffle(4)
                              .Batch(2)
                              .Prefetch(2);
  const Iterator iterator = Iterator::Initializable(dataset);
  iterator.SaveWithModel(scope);  // initialised together with the model
  return iterator.GetNext(scope);
}

// A session whose queue runners wait for room in a queue that is never read.
StatusOr<std::unique_ptr<MonitoredSession>> SessionWithFullQueues(const Scope& scope) {
  CreateGlobalStep(scope);
  RangeInputProducer(scope, 5, {.capacity = 2});
  Batch(scope, {ops::Const(scope, 1.f)}, 2, {.num_threads = 3, .capacity = 2});
  return SingularMonitoredSession(scope);
}

TEST(Ending, ADeadlineEndsAPipelineThatWaits) {
  ExpectSoon([] {
    const Scope scope = Scope::NewRootScope();
    const auto next = NextOfWaitingPipeline(scope);
    auto session = SessionWithFullQueues(scope);
    EXPECT_TRUE(session.ok()) << session.status();
    RunOptions options;
    options.timeout_in_ms = 20;
    const auto begin = Clock::now();
    const Status status = (*session)->raw_session()->Run(options, {}, next, {}, nullptr, nullptr);
    const auto took = Clock::now() - begin - milliseconds(20);
    EXPECT_EQ(status.code(), ErrorCode::kDeadlineExceeded) << status;
    return took;
  });
}

TEST(Ending, AnErrorOfAnotherNodeEndsAPipelineThatWaits) {
  ExpectSoon([] {
    const Scope scope = Scope::NewRootScope();
    const auto next = NextOfWaitingPipeline(scope);
    const Output bad = ops::CheckNumerics(scope, ops::Log(scope, -1.f), "log of a negative");
    auto session = SessionWithFullQueues(scope);
    EXPECT_TRUE(session.ok()) << session.status();
    const auto begin = Clock::now();
    const Status status = (*session)->raw_session()->Run({next[0], bad}, nullptr);
    EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument) << status;
    return Clock::now() - begin;
  });
}

TEST(Ending, ASessionEndsWhileItsThreadsWait) {
  const int64_t before = NumThreads();
  ExpectSoon([] {
    const Scope scope = Scope::NewRootScope();
    const auto next = NextOfWaitingPipeline(scope);
    auto session = SessionWithFullQueues(scope);
    EXPECT_TRUE(session.ok()) << session.status();
    // The stages have threads after the first element was requested.
    RunOptions options;
    options.timeout_in_ms = 20;
    const Status status = (*session)->raw_session()->Run(options, {}, next, {}, nullptr, nullptr);
    EXPECT_EQ(status.code(), ErrorCode::kDeadlineExceeded) << status;
    const auto begin = Clock::now();
    const Status closed = (*session)->Close();
    EXPECT_TRUE(closed.ok()) << closed;
    session->reset();
    return Clock::now() - begin;
  });
  ExpectThreads(before);
}

TEST(Ending, ACoordinatorJoinsWhatLoopsAndWaits) {
  const int64_t before = NumThreads();
  ExpectSoon([] {
    Coordinator coordinator;
    for (int i = 0; i < 4; ++i) LooperThread::Loop(coordinator, 0.001, "often", [] { return Status(); });
    // One of them waits for a minute between two rounds.
    LooperThread::Loop(coordinator, 60, "rarely", [] { return Status(); });
    std::this_thread::sleep_for(milliseconds(10));
    const auto begin = Clock::now();
    coordinator.RequestStop();
    EXPECT_TRUE(coordinator.Join().ok());
    return Clock::now() - begin;
  });
  ExpectThreads(before);
}

}  // namespace
}  // namespace millrace
