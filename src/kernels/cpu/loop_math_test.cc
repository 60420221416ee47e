// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/loop_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace millrace {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The error in units of the last place of the expected value.
double Error(double got, long double want) {
  const auto rounded = static_cast<double>(want);
  if (got == rounded) return 0;
  const double unit = std::nextafter(std::abs(rounded), kInf) - std::abs(rounded);
  return static_cast<double>(std::abs(static_cast<long double>(got) - want)) / unit;
}

TEST(LoopMathTest, ErrorsAreBelowTwoUnits) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> part(0, 1);
  double exp = 0, log = 0, log1p = 0;
  for (int i = 0; i < 100000; ++i) {
    for (const double x : {-700 + 1400 * part(random), 2 * part(random) - 1, 1e-8 * part(random)})
      exp = std::max(exp, Error(LoopExp(x), std::exp(static_cast<long double>(x))));
    for (const double x : {std::exp(-700 + 1400 * part(random)), 0.5 + part(random), 1 + 1e-6 * part(random)})
      log = std::max(log, Error(LoopLog(x), std::log(static_cast<long double>(x))));
    for (const double x : {part(random), std::exp(-40 * part(random)), 100 * part(random)})
      log1p = std::max(log1p, Error(LoopLog1p(x), std::log1p(static_cast<long double>(x))));
  }
  EXPECT_LT(exp, 2);
  EXPECT_LT(log, 2);
  EXPECT_LT(log1p, 2);
}

// Of a float, in units of the last place of the expected value.
float Error(float got, double want) {
  const auto rounded = static_cast<float>(want);
  if (got == rounded) return 0;
  const float unit = std::nextafter(std::abs(rounded), HUGE_VALF) - std::abs(rounded);
  return static_cast<float>(std::abs(static_cast<double>(got) - want)) / unit;
}

TEST(LoopMathTest, ErrorsInSinglePrecisionAreBelowTwoUnits) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> part(0, 1);
  float exp = 0, log = 0;
  for (int i = 0; i < 100000; ++i) {
    for (const float x : {-86.5f + 175 * part(random), 2 * part(random) - 1, 1e-6f * part(random)})
      exp = std::max(exp, Error(LoopExp(x), std::exp(static_cast<double>(x))));
    for (const float x : {std::exp(-87 + 175 * part(random)), 0.5f + part(random), 1 + 1e-3f * part(random)})
      log = std::max(log, Error(LoopLogOfNormal(x), std::log(static_cast<double>(x))));
  }
  EXPECT_LT(exp, 2);
  EXPECT_LT(log, 2);
  EXPECT_EQ(LoopExp(0.0f), 1);
  EXPECT_EQ(LoopExp(-87.0f), 0);
  EXPECT_EQ(LoopExp(-HUGE_VALF), 0);
  EXPECT_EQ(LoopExp(89.0f), HUGE_VALF);
  EXPECT_NEAR(LoopExp(88.7f) / std::exp(double{88.7f}), 1, 2e-7);
  EXPECT_TRUE(std::isnan(LoopExp(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_EQ(LoopLogOfNormal(1), 0);
}

// Far from zero as exact as x itself.
TEST(LoopMathTest, TheRestOfAnExponential) {
  for (const double x : {0.0, 1.0, -50.0, -1e5 - 1.0 / 3, -1e9}) {
    const double n = std::nearbyint(x / std::log(2.0));
    const auto rest = static_cast<long double>(x) - static_cast<long double>(n) * std::log(2.0L);
    EXPECT_NEAR(LoopExpOfRest(x, n), static_cast<double>(std::exp(rest)), 1e-15 + 2e-16 * std::abs(x)) << x;
  }
}

TEST(LoopMathTest, EndsAndWhatIsNoNumber) {
  EXPECT_EQ(LoopExp(0.0), 1);
  EXPECT_EQ(LoopExp(-0.0), 1);
  EXPECT_EQ(LoopExp(-kInf), 0);
  EXPECT_EQ(LoopExp(-709.0), 0);
  EXPECT_EQ(LoopExp(kInf), kInf);
  EXPECT_EQ(LoopExp(709.79), kInf);
  EXPECT_NEAR(LoopExp(709.78) / std::exp(709.78), 1, 1e-15);
  EXPECT_TRUE(std::isnan(LoopExp(kNan)));
  EXPECT_EQ(LoopLog(1), 0);
  EXPECT_EQ(LoopLog(0), -kInf);
  EXPECT_EQ(LoopLog(-0.0), -kInf);
  EXPECT_EQ(LoopLog(kInf), kInf);
  EXPECT_EQ(LoopLog(std::numeric_limits<double>::min()), std::log(std::numeric_limits<double>::min()));
  EXPECT_EQ(LoopLog(std::numeric_limits<double>::max()), std::log(std::numeric_limits<double>::max()));
  EXPECT_TRUE(std::isnan(LoopLog(-1)));
  EXPECT_TRUE(std::isnan(LoopLog(-kInf)));
  EXPECT_TRUE(std::isnan(LoopLog(kNan)));
  EXPECT_EQ(LoopLog1p(0), 0);
  EXPECT_EQ(LoopLog1p(1e-300), 1e-300);
  EXPECT_EQ(LoopLog1p(kInf), kInf);
  EXPECT_TRUE(std::isnan(LoopLog1p(kNan)));
}

}  // namespace
}  // namespace millrace
