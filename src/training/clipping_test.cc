// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/clipping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "millrace/ops.h"
#include "training/training_testing.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

TEST(ClippingTest, ByValueAndByNorm) {
  const Scope scope = Scope::NewRootScope();
  const Output x = ops::Const(scope, {{3.f, -4.f}, {0.f, 0.f}});
  const auto value = ClipByValue(scope, x, -1, 2);
  const auto small = ClipByNorm(scope, x, 1);
  const auto large = ClipByNorm(scope, x, 10.0);
  const auto rows = ClipByNorm(scope, x, 1, {1});
  const Output average = ClipByAverageNorm(scope, x, 0.25f);  // the norm is 5, of 4 elements
  ASSERT_TRUE(scope.ok()) << scope.status();
  ReadySession session(scope);
  EXPECT_THAT(session.Values(value.dense), ElementsAre(2, -1, 0, 0));
  EXPECT_THAT(session.Values(small.dense), Pointwise(FloatEq(), {0.6f, -0.8f, 0.f, 0.f}));
  EXPECT_THAT(session.Values(large.dense), ElementsAre(3, -4, 0, 0));
  EXPECT_THAT(session.Values(rows.dense), Pointwise(FloatEq(), {0.6f, -0.8f, 0.f, 0.f}));
  EXPECT_THAT(session.Values(average), Pointwise(FloatEq(), {0.6f, -0.8f, 0.f, 0.f}));
  EXPECT_EQ(Scope::NameOf(value.dense), "clip_by_value");
  EXPECT_FALSE(ClipByNorm(scope, GradientValue(), 1).IsSet());
}

TEST(ClippingTest, SlicesStaySlices) {
  const Scope scope = Scope::NewRootScope();
  const IndexedSlices rows{ops::Const(scope, {{6.f, 8.f}}), ops::Const(scope, {5}), {}};
  const GradientValue clipped = ClipByNorm(scope, rows, 1);
  ASSERT_TRUE(clipped.IsSlices());
  EXPECT_TRUE(clipped.slices.indices == rows.indices);
  ReadySession session(scope);
  EXPECT_THAT(session.Values(clipped.slices.values), ElementsAre(FloatEq(0.6f), FloatEq(0.8f)));
}

TEST(ClippingTest, TheGlobalNormIsOfAllGradients) {
  const Scope scope = Scope::NewRootScope();
  const GraphVariable a(scope.WithOpName("a"), {0.f, 0.f}), b(scope.WithOpName("b"), {{0.f}});
  const Output in = ops::Placeholder(scope, DataType::kFloat, ops::Placeholder::Shape({2}));
  const std::vector<GradientAndVariable> gradients = {
      {in, a}, {GradientValue(), b}, {ops::Const(scope, {{12.f}}), b}};
  const ClippedGradients clipped = ClipByGlobalNorm(scope, gradients, 1);
  const ClippedGradients loose = ClipByGlobalNorm(scope, gradients, 20);
  ASSERT_TRUE(scope.ok()) << scope.status();
  EXPECT_FALSE(clipped.gradients[1].gradient.IsSet());
  ReadySession session(scope);
  const ClientSession::Feeds feeds = {{in, {3.f, 4.f}}};
  EXPECT_FLOAT_EQ(session.Value(clipped.norm, feeds), 13);
  EXPECT_THAT(session.Values(clipped.gradients[0].gradient.dense, feeds),
              ElementsAre(FloatEq(3.f / 13), FloatEq(4.f / 13)));
  EXPECT_THAT(session.Values(clipped.gradients[2].gradient.dense, feeds), ElementsAre(FloatEq(12.f / 13)));
  EXPECT_THAT(session.Values(loose.gradients[0].gradient.dense, feeds), ElementsAre(3, 4));
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isnan(session.Values(loose.gradients[2].gradient.dense, {{in, {inf, 1.f}}})[0]));

  const Scope none = Scope::NewRootScope();
  GlobalNorm(none, {});
  EXPECT_THAT(none.status().message(), HasSubstr("at least one gradient"));
}

// w, and rows of a table, with batches of one number each.
struct Accumulating {
  explicit Accumulating(bool resource)
      : w(scope.WithOpName("w"), 1.f, {.resource = resource}),
        table(scope.WithOpName("table"), {{1.f}, {2.f}, {3.f}}, {.resource = resource}) {
    x = ops::Placeholder(scope, DataType::kFloat, ops::Placeholder::Shape(PartialShape(TensorShape())));
    row = ops::Placeholder(scope, DataType::kInt32, ops::Placeholder::Shape({1}));
    const Output picked = resource ? Output(ops::ResourceGather(scope, table.ref(), row, DataType::kFloat))
                                   : Output(ops::Gather(scope, table, row));
    const Output loss =
        ops::Add(scope, ops::Mul(scope, w, x).z, ops::Sum(scope, ops::Mul(scope, picked, x).z, {0, 1}));
    const GradientDescentOptimizer optimizer(0.1f);
    step = GetOrCreateGlobalStep(scope);
    steps = AccumulateGradients(scope, optimizer, optimizer.ComputeGradients(scope, loss), step);
  }
  Scope scope = Scope::NewRootScope();
  GraphVariable w, table, step;
  Output x, row;
  AccumulatedSteps steps;
};

TEST(AccumulateGradientsTest, AppliesTheMeanOfTheBatches) {
  for (const bool resource : {false, true}) {
    Accumulating a(resource);
    ASSERT_TRUE(a.scope.ok()) << a.scope.status();
    ReadySession session(a.scope);
    for (int round = 0; round < 2; ++round) {
      session.Run({a.steps.accumulate}, {{a.x, 2.f}, {a.row, {0}}});
      session.Run({a.steps.accumulate}, {{a.x, 4.f}, {a.row, {2}}});
      EXPECT_FLOAT_EQ(session.Value(a.w), round == 0 ? 1.f : 0.7f) << resource;
      session.Run({a.steps.apply});
      // The mean gradients: 3 for w, 1 and 2 for the rows.
      const float done = static_cast<float>(round + 1);
      EXPECT_THAT(session.Value(a.w), FloatNear(1 - 0.3f * done, 1e-6f));
      EXPECT_THAT(session.Values(a.table),
                  Pointwise(FloatNear(1e-6f), {1 - 0.1f * done, 2.f, 3 - 0.2f * done}));
      EXPECT_EQ(session.Fetch({a.step})[0].scalar<int64_t>(), round + 1);
    }
  }
}

}  // namespace
}  // namespace millrace
