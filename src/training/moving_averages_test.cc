// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/moving_averages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/ops.h"
#include "training/training_testing.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

TEST(MovingAverageTest, FollowsTheVariable) {
  for (const bool resource : {false, true}) {
    const Scope scope = Scope::NewRootScope();
    const GraphVariable w(scope.WithOpName("w"), 10.f, {.resource = resource});
    const Operation step = w.AssignAdd(scope, 1);
    ExponentialMovingAverage averages({.decay = 0.75f});
    const Operation update = averages.Apply(scope.WithControlDependencies({step}));
    ASSERT_TRUE(scope.ok()) << scope.status();
    EXPECT_EQ(averages.Average(w).name(), "w/ExponentialMovingAverage");
    EXPECT_EQ(Scope::NameOf(update), "ExponentialMovingAverage");
    EXPECT_EQ(CollectVariables(scope, graph_keys::kMovingAverages).size(), 1u);
    EXPECT_EQ(TrainableVariables(scope).size(), 1u);
    ReadySession session(scope);
    double average = 10;
    for (int i = 1; i <= 4; ++i) {
      session.Run({update});
      average = 0.75 * average + 0.25 * (10 + i);
      EXPECT_NEAR(session.Value(averages.Average(w)), average, 1e-5) << resource;
    }
  }
}

TEST(MovingAverageTest, CountsOfUpdatesMakeTheDecaySmaller) {
  const Scope scope = Scope::NewRootScope();
  const GraphVariable w(scope.WithOpName("w"), 0.f);
  const Output n = ops::Placeholder(scope, DataType::kInt64, ops::Placeholder::Shape(TensorShape()));
  ExponentialMovingAverage averages({.decay = 0.9f, .num_updates = n});
  const Operation update = averages.Apply(scope);
  const Output one = w.Assign(scope, 1);
  ASSERT_TRUE(scope.ok()) << scope.status();
  ReadySession session(scope);
  session.Fetch({one});
  session.Run({update}, {{n, int64_t{1}}});  // the decay is 2 / 11
  EXPECT_NEAR(session.Value(averages.Average(w)), 9.0 / 11, 1e-6);
  session.Run({update}, {{n, int64_t{1000}}});
  EXPECT_NEAR(session.Value(averages.Average(w)), 0.9 * 9 / 11 + 0.1, 1e-6);
}

TEST(MovingAverageTest, OfTensorsBeginsAsZeroAndIsCorrected) {
  for (const bool debias : {false, true}) {
    const Scope scope = Scope::NewRootScope();
    const Output loss =
        ops::Placeholder(scope.WithOpName("loss"), DataType::kFloat, ops::Placeholder::Shape(TensorShape()));
    ExponentialMovingAverage averages({.decay = 0.5f, .zero_debias = debias});
    const Operation update = averages.Apply(scope, {}, {loss});
    ASSERT_TRUE(scope.ok()) << scope.status();
    EXPECT_EQ(averages.Average(loss).name(), "loss/ExponentialMovingAverage");
    ReadySession session(scope);
    session.Run({update}, {{loss, 8.f}});
    EXPECT_FLOAT_EQ(session.Value(averages.Average(loss)), debias ? 8 : 4);
    session.Run({update}, {{loss, 2.f}});  // biased: 4 / 2 + 2 / 2 = 3, over 1 - 1 / 4
    EXPECT_FLOAT_EQ(session.Value(averages.Average(loss)), debias ? 4 : 3);
  }
}

TEST(MovingAverageTest, EvaluationRestoresTheAverages) {
  const std::string path = testing::TempDir() + "/averages";
  {
    const Scope scope = Scope::NewRootScope();
    const GraphVariable w(scope.WithOpName("w"), 4.f);
    const GraphVariable fixed(scope.WithOpName("fixed"), 7.f, {.trainable = false});
    ExponentialMovingAverage averages({.decay = 0.5f});
    const Operation update = averages.Apply(scope);
    const Output changed = w.Assign(scope, 8);
    Saver saver(scope);
    ASSERT_TRUE(scope.ok()) << scope.status();
    ReadySession session(scope);
    session.Fetch({changed});
    session.Run({update});
    ASSERT_TRUE(saver.Save(session.session(), path).ok());
  }
  const Scope scope = Scope::NewRootScope();
  const GraphVariable w(scope.WithOpName("w"), 0.f);
  const GraphVariable fixed(scope.WithOpName("fixed"), 0.f, {.trainable = false});
  const ExponentialMovingAverage averages({.decay = 0.5f});
  EXPECT_EQ(averages.AverageName(w), "w/ExponentialMovingAverage");
  Saver saver(scope, averages.VariablesToRestore(scope), {});
  ASSERT_TRUE(scope.ok()) << scope.status();
  ReadySession session(scope);
  const Status status = saver.Restore(session.session(), path);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_FLOAT_EQ(session.Value(w), 6);
  EXPECT_FLOAT_EQ(session.Value(fixed), 7);
}

TEST(MovingAverageTest, OnlyFloatsHaveOne) {
  const Scope scope = Scope::NewRootScope();
  const GraphVariable n(scope.WithOpName("n"), 1);
  ExponentialMovingAverage averages({});
  EXPECT_FALSE(averages.Apply(scope, {n}).IsSet());
  EXPECT_THAT(scope.status().message(), HasSubstr("must be half, float, or double"));
}

}  // namespace
}  // namespace millrace
