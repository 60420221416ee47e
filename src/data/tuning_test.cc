// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "data/tuning.h"

#include <gtest/gtest.h>

namespace millrace::data {
namespace {

using Clock = CallsAtATime::Clock;
using std::chrono::microseconds;

TEST(ProcessorShares, WishesThatFitAreGranted) {
  ProcessorShares shares(8);
  int a = 0, b = 0;
  EXPECT_EQ(shares.Ask(&a, 5), 5);
  EXPECT_EQ(shares.Ask(&b, 3), 3);
}

TEST(ProcessorShares, MoreIsDivided) {
  ProcessorShares shares(8);
  int a = 0, b = 0;
  EXPECT_EQ(shares.Ask(&a, 8), 8);
  EXPECT_EQ(shares.Ask(&b, 8), 4);
  EXPECT_EQ(shares.Ask(&a, 8), 4);
  EXPECT_EQ(shares.Ask(&a, 1), 1);
  shares.Forget(&a);
  EXPECT_EQ(shares.Ask(&b, 8), 8);
}

// The number of calls that is chosen for these durations of calls, the input and the consumer.
int64_t Chosen(ProcessorShares& shares, int64_t most, int call_us, int input_us, int consumer_us) {
  CallsAtATime calls(most);
  calls.Choose(shares);
  EXPECT_EQ(calls.limit(), 1);
  Clock::time_point now{};
  now += microseconds(1);
  for (int i = 0; i < 200; ++i) {
    calls.AddInput(microseconds(input_us));
    calls.AddCall(microseconds(call_us));
    calls.Served(now);
    now += microseconds(consumer_us);
    calls.Asked(now);
  }
  return calls.limit();
}

TEST(CallsAtATime, AreAsManyAsKeepUpWithTheSlowerNeighbour) {
  ProcessorShares shares(16);
  EXPECT_EQ(Chosen(shares, 16, 100, 1, 30), 4);   // the consumer requests an element every 30 us
  EXPECT_EQ(Chosen(shares, 16, 100, 60, 30), 2);  // the input gives one every 60 us
  EXPECT_EQ(Chosen(shares, 16, 100, 1, 500), 1);  // nothing waits
  EXPECT_EQ(Chosen(shares, 16, 1000, 1, 1), 16);  // all processors
  EXPECT_EQ(Chosen(shares, 3, 1000, 1, 1), 3);
}

TEST(CallsAtATime, WithoutAChoiceAreTheFixedNumber) {
  CallsAtATime calls(5);
  EXPECT_FALSE(calls.chosen());
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(calls.Asked(Clock::now()));
  EXPECT_EQ(calls.limit(), 5);
}

}  // namespace
}  // namespace millrace::data
