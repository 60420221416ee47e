// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/thread_choice.h"

#include <gtest/gtest.h>

#include <array>
#include <map>

namespace millrace {
namespace {

using Times = std::array<int64_t, 3>;

// Runs steps [first, end), each in the time of its mode, and returns the mode of the last.
StepThreads RunSteps(const ThreadChoice& choice, uint64_t first, uint64_t end, const Times& ns,
                     bool nodes = true) {
  StepThreads last = StepThreads::kNodes;
  for (uint64_t step = first; step < end; ++step) {
    const ThreadChoice::Step s = choice.ForStep(step, nodes);
    last = s.threads;
    if (s.timed) choice.Record(step, s.threads, ns[static_cast<int>(s.threads)]);
  }
  return last;
}

TEST(ThreadChoiceTest, TakesTheFastest) {
  EXPECT_EQ(RunSteps(ThreadChoice(), 0, 100, {100'000, 200'000, 300'000}), StepThreads::kAlone);
  EXPECT_EQ(RunSteps(ThreadChoice(), 0, 100, {300'000, 100'000, 200'000}), StepThreads::kLoops);
  EXPECT_EQ(RunSteps(ThreadChoice(), 0, 100, {300'000, 200'000, 100'000}), StepThreads::kNodes);
}

TEST(ThreadChoiceTest, PrefersFewerThreadsToASmallGain) {
  EXPECT_EQ(RunSteps(ThreadChoice(), 0, 100, {100'000, 99'000, 99'500}), StepThreads::kAlone);
  EXPECT_EQ(RunSteps(ThreadChoice(), 0, 100, {300'000, 291'000, 288'000}), StepThreads::kLoops);
  EXPECT_EQ(RunSteps(ThreadChoice(), 0, 100, {100'000, 96'000, 95'500}), StepThreads::kAlone);
  EXPECT_EQ(RunSteps(ThreadChoice(), 0, 100, {100'000, 94'000, 88'500}), StepThreads::kNodes);
}

TEST(ThreadChoiceTest, ShortStepsStayAsTheyAre) {
  EXPECT_EQ(RunSteps(ThreadChoice(), 0, 100, {1'000, 2'000, 3'000}), StepThreads::kNodes);
}

TEST(ThreadChoiceTest, NodesOfOneThreadAreNotTriedOnSeveral) {
  const ThreadChoice choice;
  for (uint64_t step = 0; step < 2000; ++step)
    EXPECT_NE(choice.ForStep(step, false).threads, StepThreads::kNodes);
  EXPECT_EQ(RunSteps(choice, 0, 100, {200'000, 100'000, 1}, false), StepThreads::kLoops);
}

// Other load on the machine changes the answer; trials are rare.
TEST(ThreadChoiceTest, TriesAgain) {
  const ThreadChoice choice;
  EXPECT_EQ(RunSteps(choice, 0, 1000, {300'000, 200'000, 100'000}), StepThreads::kNodes);
  EXPECT_EQ(RunSteps(choice, 1000, 2000, {300'000, 400'000, 900'000}), StepThreads::kAlone);
  int timed = 0;
  for (uint64_t step = 0; step < 100'000; ++step) timed += choice.ForStep(step, true).timed ? 1 : 0;
  EXPECT_LT(timed, 5000);
}

// A machine that was busy during the trial does not restrict a plan to one thread for long; and a plan that
// is fastest with one thread is not disturbed often.
TEST(ThreadChoiceTest, LooksAgainAtPlansOfOneThread) {
  const ThreadChoice choice;
  EXPECT_EQ(RunSteps(choice, 0, 60, {300'000, 400'000, 400'000}), StepThreads::kAlone);
  EXPECT_EQ(RunSteps(choice, 60, 100, {300'000, 200'000, 400'000}), StepThreads::kLoops);
  const ThreadChoice alone;
  RunSteps(alone, 0, 200, {300'000, 400'000, 400'000});
  int others = 0;
  for (uint64_t step = 200; step < 1100; ++step) {
    others += alone.ForStep(step, true).threads != StepThreads::kAlone ? 1 : 0;
  }
  EXPECT_GT(others, 5);
  EXPECT_LT(others, 20);
  others = 0;
  for (uint64_t step = 2000; step < 12000; ++step)
    others += alone.ForStep(step, true).threads != StepThreads::kAlone ? 1 : 0;
  EXPECT_GT(others, 100);
  EXPECT_LT(others, 190);  // 1.8 per cent
}

TEST(ThreadChoiceTest, EachModeHasItsTurns) {
  const ThreadChoice choice;
  std::map<StepThreads, int> trials;
  for (uint64_t step = 0; step < 500; ++step) {
    if (const ThreadChoice::Step s = choice.ForStep(step, true); s.timed) ++trials[s.threads];
  }
  EXPECT_EQ(trials.size(), 3u);
  for (const auto& [mode, count] : trials) EXPECT_GE(count, 3);
}

// One slow run of a mode, for example because of other load, does not decide.
TEST(ThreadChoiceTest, TheBestTimeOfAModeCounts) {
  const ThreadChoice choice;
  bool first = true;
  for (uint64_t step = 0; step < 100; ++step) {
    const ThreadChoice::Step s = choice.ForStep(step, true);
    if (!s.timed) continue;
    int64_t ns = s.threads == StepThreads::kNodes ? 100'000 : 200'000;
    if (s.threads == StepThreads::kNodes && first) {
      ns = 5'000'000;
      first = false;
    }
    choice.Record(step, s.threads, ns);
  }
  EXPECT_EQ(choice.ForStep(100, true).threads, StepThreads::kNodes);
}

}  // namespace
}  // namespace millrace
