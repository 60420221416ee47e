// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "millrace/layers.h"
#include "millrace/ops.h"
#include "millrace/optimizers.h"
#include "training/training_testing.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

GraphVariable Table(const Scope& scope, int64_t rows, bool resource) {
  std::vector<float> values;
  for (int64_t i = 0; i < rows * 2; ++i) values.push_back(static_cast<float>(i));
  return GraphVariable(scope.WithOpName("table"), Tensor::From(values, TensorShape({rows, 2})),
                       {.resource = resource});
}

TEST(EmbeddingTest, LooksUpRows) {
  for (const bool resource : {false, true}) {
    const Scope scope = Scope::NewRootScope();
    const GraphVariable table = Table(scope, 4, resource);
    const Output ids = ops::Const(scope, {{3, 0}, {1, 3}});
    const Output rows = layers::EmbeddingLookup(scope, {table}, ids);
    const Output short_rows = layers::EmbeddingLookup(scope, {table}, ids, {.max_norm = 1});
    const auto gradients = GradientDescentOptimizer(1.f).ComputeGradients(scope, ops::L2Loss(scope, rows));
    ASSERT_TRUE(scope.ok()) << scope.status();
    EXPECT_TRUE(gradients.at(0).gradient.IsSlices()) << resource;
    ReadySession session(scope);
    const Tensor out = session.Fetch({rows})[0];
    EXPECT_EQ(out.shape(), TensorShape({2, 2, 2}));
    EXPECT_THAT(Floats(out), ElementsAre(6, 7, 0, 1, 2, 3, 6, 7));
    const std::vector<float> scaled = session.Values(short_rows);
    EXPECT_NEAR(scaled[0], 6 / std::sqrt(85.0), 1e-6);
    EXPECT_NEAR(scaled[3], 1, 1e-6);
  }
}

TEST(EmbeddingTest, PartsAreTakenTurnAboutOrInOrder) {
  for (const bool resource : {false, true}) {
    const Scope root = Scope::NewRootScope();
    const Scope scope = WithVariableOptions(root, {.resource = resource});
    std::vector<float> values;
    values.reserve(14);
    for (int i = 0; i < 14; ++i) values.push_back(static_cast<float>(i));
    const PartitionedVariable in_order =
        GetPartitionedVariable(scope, "in_order", {7, 2},
                               {.initial_value = Input(Tensor::From(values, TensorShape({7, 2}))),
                                .partitioner = FixedSizePartitioner(3)});
    const GraphVariable even(scope.WithOpName("even"), {{0.f, 1.f}, {4.f, 5.f}});
    const GraphVariable odd(scope.WithOpName("odd"), {{2.f, 3.f}, {6.f, 7.f}});
    const Output ids = ops::Const(root, {{6, 0, 2}, {3, 4, 5}});
    const Output few = ops::Const(root, {int64_t{3}, int64_t{0}, int64_t{3}});
    const Output div =
        layers::EmbeddingLookup(scope, in_order.parts(), ids, {.strategy = layers::PartitionStrategy::kDiv});
    const Output mod = layers::EmbeddingLookup(scope, {even, odd}, few);
    const Operation train = GradientDescentOptimizer(0.5f).Minimize(
        scope, ops::Add(root, ops::L2Loss(root, div), ops::L2Loss(root, mod)));
    ASSERT_TRUE(root.ok()) << root.status();
    ReadySession session(root);
    const Tensor out = session.Fetch({div})[0];
    EXPECT_EQ(out.shape(), TensorShape({2, 3, 2}));
    EXPECT_THAT(Floats(out), ElementsAre(12, 13, 0, 1, 4, 5, 6, 7, 8, 9, 10, 11));
    EXPECT_THAT(session.Values(mod), ElementsAre(6, 7, 0, 1, 6, 7));
    session.Run({train});
    // Rows lose half of their value for each time they were looked up; row 1 was not.
    EXPECT_THAT(session.Values(in_order),
                ElementsAre(0, 0.5f, 2, 3, 2, 2.5f, 3, 3.5f, 4, 4.5f, 5, 5.5f, 6, 6.5f));
    EXPECT_THAT(session.Values(odd), ElementsAre(2, 3, 0, 0));
  }
}

TEST(EmbeddingTest, SparseIdsAreCombined) {
  const std::vector<float> w = {1, 3, 2};
  for (const layers::Combiner combiner :
       {layers::Combiner::kSum, layers::Combiner::kMean, layers::Combiner::kSqrtN}) {
    for (const bool weighted : {false, true}) {
      const Scope scope = Scope::NewRootScope();
      const GraphVariable table = Table(scope, 4, false);
      const layers::SparseInput ids{
          ops::Const(scope, Tensor::From<int64_t>({0, 0, 0, 1, 1, 0}, TensorShape({3, 2}))),
          ops::Const(scope, Tensor::Vector<int64_t>({3, 1, 3}))};
      const Output rows = layers::EmbeddingLookupSparse(
          scope, {table}, ids,
          {.combiner = combiner, .weights = weighted ? ops::Const(scope, Tensor::Vector(w)) : Output()});
      ASSERT_TRUE(scope.ok()) << scope.status();
      const auto combine = [&](double a, double wa, double b, double wb) {
        if (!weighted) wa = 1, wb = wb == 0 ? 0 : 1;
        const double by = combiner == layers::Combiner::kSum    ? 1
                          : combiner == layers::Combiner::kMean ? wa + wb
                                                                : std::sqrt(wa * wa + wb * wb);
        return static_cast<float>((a * wa + b * wb) / by);
      };
      ReadySession session(scope);
      EXPECT_THAT(session.Values(rows),
                  Pointwise(FloatNear(1e-5f), {combine(6, 1, 2, 3), combine(7, 1, 3, 3), combine(6, 2, 0, 0),
                                               combine(7, 2, 0, 0)}));
    }
  }
}

TEST(EmbeddingTest, ATableIsNeeded) {
  const Scope scope = Scope::NewRootScope();
  layers::EmbeddingLookup(scope, {}, ops::Const(scope, 1));
  EXPECT_THAT(scope.status().message(), HasSubstr("Need at least one param"));
}

}  // namespace
}  // namespace millrace
