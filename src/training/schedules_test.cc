// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/schedules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>

#include "millrace/client_session.h"
#include "millrace/initializers.h"
#include "millrace/ops.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

using Make = std::function<Output(const Scope&, const Output&)>;
using Formula1 = std::function<double(double)>;

// Compares a schedule with a formula at some steps.
void ExpectRates(const Make& make, const Formula1& formula) {
  const Scope scope = Scope::NewRootScope();
  const Output step =
      ops::Placeholder(scope, DataType::kInt64, ops::Placeholder::Shape(PartialShape(TensorShape())));
  const Output rate = make(scope, step);
  ASSERT_TRUE(scope.ok()) << scope.status();
  const ClientSession session(scope);
  for (const int64_t s : {0, 1, 5, 9, 10, 11, 25, 30, 70, 100}) {
    std::vector<Tensor> out;
    const Status status = session.Run({{step, s}}, {rate}, &out);
    ASSERT_TRUE(status.ok()) << status;
    const double wanted = formula(static_cast<double>(s));
    EXPECT_NEAR(out[0].scalar<float>(), wanted, 1e-5 * std::max(1.0, wanted)) << "step " << s;
  }
}

TEST(SchedulesTest, ExponentialOnesFollowTheirFormulas) {
  for (const bool staircase : {false, true}) {
    const auto p = [=](double s) { return staircase ? std::floor(s / 10) : s / 10; };
    const DecayOptions options{.staircase = staircase};
    ExpectRates([&](const Scope& c, const Output& s) { return ExponentialDecay(c, 2, s, 10, 0.5, options); },
                [&](double s) { return 2 * std::pow(0.5, p(s)); });
    ExpectRates([&](const Scope& c, const Output& s) { return NaturalExpDecay(c, 2, s, 10, 0.5, options); },
                [&](double s) { return 2 * std::exp(-0.5 * p(s)); });
    ExpectRates([&](const Scope& c, const Output& s) { return InverseTimeDecay(c, 2, s, 10, 0.5, options); },
                [&](double s) { return 2 / (1 + 0.5 * p(s)); });
  }
}

TEST(SchedulesTest, PiecewiseConstantChangesAfterTheBoundary) {
  ExpectRates(
      [](const Scope& c, const Output& s) {
        return PiecewiseConstant(c, s, {5, 30}, {1.0, 0.5, 0.1});
      },
      [](double s) { return s <= 5    ? 1.0
                            : s <= 30 ? 0.5
                                      : 0.1; });
}

TEST(SchedulesTest, PolynomialEndsOrCycles) {
  ExpectRates([](const Scope& c,
                 const Output& s) { return PolynomialDecay(c, 1, s, 10, {.end_rate = 0.1, .power = 2}); },
              [](double s) { return 0.9 * std::pow(1 - std::min(s, 10.0) / 10, 2) + 0.1; });
  ExpectRates(
      [](const Scope& c, const Output& s) {
        return PolynomialDecay(c, 1, s, 10, {.end_rate = 0.1, .power = 0.5, .cycle = true});
      },
      [](double s) {
        const double steps = 10 * (s == 0 ? 1 : std::ceil(s / 10));
        return 0.9 * std::sqrt(1 - s / steps) + 0.1;
      });
}

double HalfCosine(double turns) { return 0.5 * (1 + std::cos(std::numbers::pi * turns)); }

TEST(SchedulesTest, CosinesRestartAndGrowLonger) {
  ExpectRates([](const Scope& c, const Output& s) { return CosineDecay(c, 3, s, 30, 0.2); },
              [](double s) { return 3 * (0.8 * HalfCosine(std::min(s, 30.0) / 30) + 0.2); });
  for (const double t_mul : {1.0, 2.0}) {
    ExpectRates(
        [&](const Scope& c, const Output& s) {
          return CosineDecayRestarts(c, 3, s, 10, {.t_mul = t_mul, .m_mul = 0.5, .alpha = 0.1});
        },
        [&](double s) {
          double length = 10, height = 1;
          while (s >= length) s -= length, length *= t_mul, height *= 0.5;
          return 3 * (0.9 * height * HalfCosine(s / length) + 0.1);
        });
  }
}

TEST(SchedulesTest, LinearCosinesFall) {
  const auto formula = [](double s) {
    const double done = std::min(s, 50.0) / 50;
    return 2 * ((0.1 + 1 - done) * HalfCosine(2 * 1.5 * done) + 0.01);
  };
  ExpectRates(
      [](const Scope& c, const Output& s) {
        return LinearCosineDecay(c, 2, s, 50, {.num_periods = 1.5, .alpha = 0.1, .beta = 0.01});
      },
      formula);
  // Without variance there is no noise.
  ExpectRates(
      [](const Scope& c, const Output& s) {
        return NoisyLinearCosineDecay(
            c, 2, s, 50, {.initial_variance = 0, .num_periods = 1.5, .alpha = 0.1, .beta = 0.01});
      },
      formula);
}

TEST(SchedulesTest, NoiseHasItsVariance) {
  const Scope scope = Scope::NewRootScope();
  SetRandomSeed(scope, 3);
  const Output step = ops::Const(scope, int64_t{3});
  const Output rate = NoisyLinearCosineDecay(scope, 1, step, 1000000000,
                                             {.initial_variance = 0.16, .variance_decay = 0.5, .beta = 0});
  const ClientSession session(scope);
  double sum = 0, squares = 0;
  const int n = 4000;
  for (int i = 0; i < n; ++i) {
    std::vector<Tensor> out;
    ASSERT_TRUE(session.Run({rate}, &out).ok()) << scope.status();
    const double noise = out[0].scalar<float>() - 1.0;
    sum += noise, squares += noise * noise;
  }
  EXPECT_NEAR(sum / n, 0, 0.02);
  EXPECT_NEAR(squares / n, 0.16 / std::sqrt(4.0), 0.008);
}

TEST(SchedulesTest, DoublesStayDoubles) {
  const Scope scope = Scope::NewRootScope();
  const Output rate = ops::Const(scope, 0.5);
  const Output step = ops::Const(scope, int64_t{10});
  const Output decayed = ExponentialDecay(scope, rate, step, 10, 0.1);
  std::vector<Tensor> out;
  ASSERT_TRUE(ClientSession(scope).Run({decayed}, &out).ok()) << scope.status();
  EXPECT_NEAR(out[0].scalar<double>(), 0.05, 1e-9);
  EXPECT_EQ(Scope::NameOf(decayed), "ExponentialDecay");
}

TEST(SchedulesTest, WhatDoesNotFitIsAnError) {
  const auto error = [](const Make& make) {
    const Scope scope = Scope::NewRootScope();
    make(scope, ops::Const(scope, int64_t{1}));
    return std::string(scope.status().message());
  };
  EXPECT_THAT(error([](const Scope& c, const Output& s) { return PiecewiseConstant(c, s, {1}, {1.0}); }),
              HasSubstr("boundaries should be 1 less"));
  EXPECT_THAT(error([](const Scope& c, const Output& s) { return PiecewiseConstant(c, s, {}, {1.0}); }),
              HasSubstr("at least one boundary"));
  EXPECT_THAT(
      error([](const Scope& c, const Output& s) { return CosineDecayRestarts(c, 1, s, 10, {.t_mul = 0.5}); }),
      HasSubstr("t_mul"));
  EXPECT_THAT(error([](const Scope& c, const Output& s) { return CosineDecay(c, "fast", s, 10); }),
              HasSubstr("CosineDecay"));
}

}  // namespace
}  // namespace millrace
