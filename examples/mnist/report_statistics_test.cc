// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "report_statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

namespace millrace::mnist {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

TEST(DescribeTest, BoundsAreThePercentilesOfTheValues) {
  std::vector<float> values(101);
  for (int i = 0; i <= 100; ++i) values[static_cast<size_t>((i * 37) % 101)] = static_cast<float>(i);
  const Distribution d = Describe(7, values);
  EXPECT_EQ(d.step, 7);
  EXPECT_THAT(d.bounds, ElementsAre(0, 7, 16, 31, 50, 69, 84, 93, 100));
  EXPECT_EQ(d.not_finite, 0);
}

TEST(DescribeTest, NotFiniteValuesAreCountedAndLeftOut) {
  const float inf = std::numeric_limits<float>::infinity();
  const Distribution d = Describe(0, std::vector<float>{NAN, 3, -inf, 3, inf});
  EXPECT_THAT(d.bounds, Each(3.0));
  EXPECT_EQ(d.not_finite, 3);
}

TEST(DescribeTest, WithoutAnyFiniteValueTheBoundsAreNan) {
  EXPECT_TRUE(std::isnan(Describe(0, {}).bounds[4]));
  const Distribution d = Describe(0, std::vector<float>{NAN});
  EXPECT_TRUE(std::isnan(d.bounds[0]));
  EXPECT_EQ(d.not_finite, 1);
}

TEST(StepTimesTest, EveryTimeIsCountedOnce) {
  std::vector<double> times;
  for (int i = 1; i <= 1000; ++i) times.push_back(i);
  const StepTimes summary = SummarizeStepTimes(times);
  EXPECT_EQ(summary.count, 1000);
  EXPECT_NEAR(summary.median, 500, 1);
  EXPECT_NEAR(summary.p99, 990, 1);
  EXPECT_EQ(summary.minimum, 1);
  EXPECT_EQ(summary.maximum, 1000);
  EXPECT_EQ(summary.edges.size(), summary.bins.size() + 1);
  EXPECT_EQ(std::accumulate(summary.bins.begin(), summary.bins.end(), summary.slower), 1000);
  EXPECT_EQ(summary.slower, 5);
}

TEST(StepTimesTest, OneTimeAndEqualTimesHaveAWidth) {
  const StepTimes summary = SummarizeStepTimes({20, 20, 20});
  EXPECT_EQ(summary.median, 20);
  EXPECT_LT(summary.edges.front(), 20);
  EXPECT_GT(summary.edges.back(), 20);
  EXPECT_EQ(std::accumulate(summary.bins.begin(), summary.bins.end(), int64_t{0}), 3);
}

TEST(StepTimesTest, ImpossibleTimesAreLeftOut) {
  EXPECT_EQ(SummarizeStepTimes({}).count, 0);
  EXPECT_EQ(SummarizeStepTimes({NAN, -1, 0, INFINITY}).count, 0);
}

}  // namespace
}  // namespace millrace::mnist
