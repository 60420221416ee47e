// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/losses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "millrace/gradients.h"
#include "millrace/ops.h"
#include "training/training_testing.h"

namespace millrace {
namespace {

using losses::LossOptions;
using losses::Reduction;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<std::vector<float>> kLabels = {{1, 0, 1}, {0, 0, 1}};
const std::vector<std::vector<float>> kPredictions = {{0.75f, 0.25f, -2.f}, {0.5f, 1.5f, 0.25f}};

Output Matrix(const Scope& scope, const std::vector<std::vector<float>>& rows) {
  std::vector<float> all;
  for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
  return ops::Const(scope, Tensor::From(all, TensorShape({static_cast<int64_t>(rows.size()),
                                                          static_cast<int64_t>(rows[0].size())})));
}

using Loss = std::function<Output(const Scope&, const Output&, const Output&, const LossOptions&)>;
using OfElement = std::function<double(double label, double prediction)>;

// Compares a loss of single elements with its formula, for all reductions.
void ExpectLoss(const Loss& loss, const OfElement& formula,
                const std::vector<std::vector<float>>& predictions = kPredictions) {
  const std::vector<std::vector<float>> weights = {{2, 0, 1}, {1, 0.5, 0}};
  const auto total = [&](bool weighted) {
    double sum = 0;
    for (size_t i = 0; i < 2; ++i) {
      for (size_t j = 0; j < 3; ++j) {
        sum += formula(kLabels[i][j], predictions[i][j]) * (weighted ? weights[i][j] : 1);
      }
    }
    return sum;
  };
  const std::vector<std::pair<Reduction, double>> wanted = {
      {Reduction::kSum, total(true)},
      {Reduction::kMean, total(true) / 4.5},
      {Reduction::kSumOverBatchSize, total(true) / 6},
      {Reduction::kSumByNonzeroWeights, total(true) / 4}};
  const Scope scope = Scope::NewRootScope();
  const Output labels = Matrix(scope, kLabels), given = Matrix(scope, predictions);
  std::vector<Output> fetches;
  fetches.reserve(wanted.size());
  for (const auto& [reduction, unused] : wanted) {
    fetches.push_back(
        loss(scope, labels, given, {.weights = Matrix(scope, weights), .reduction = reduction}));
  }
  fetches.push_back(loss(scope, labels, given, {}));
  const Output each = loss(scope, labels, given, {.weights = 2, .reduction = Reduction::kNone});
  ASSERT_TRUE(scope.ok()) << scope.status();
  ReadySession session(scope);
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(session.Value(fetches[i]), wanted[i].second, 1e-5) << i;
  }
  EXPECT_NEAR(session.Value(fetches.back()), total(false) / 6, 1e-5);
  EXPECT_NEAR(session.Values(each)[3], 2 * formula(kLabels[1][0], predictions[1][0]), 1e-5);
}

TEST(LossesTest, OfElementsFollowTheirFormulas) {
  ExpectLoss([](const Scope& s, const Output& l, const Output& p,
                const LossOptions& o) { return losses::AbsoluteDifference(s, l, p, o); },
             [](double l, double p) { return std::abs(p - l); });
  ExpectLoss([](const Scope& s, const Output& l, const Output& p,
                const LossOptions& o) { return losses::MeanSquaredError(s, l, p, o); },
             [](double l, double p) { return (p - l) * (p - l); });
  ExpectLoss([](const Scope& s, const Output& l, const Output& p,
                const LossOptions& o) { return losses::HingeLoss(s, l, p, o); },
             [](double l, double p) { return std::max(0.0, 1 - (2 * l - 1) * p); });
  ExpectLoss([](const Scope& s, const Output& l, const Output& p,
                const LossOptions& o) { return losses::HuberLoss(s, l, p, 0.6, o); },
             [](double l, double p) {
               const double x = std::abs(p - l);
               return x <= 0.6 ? x * x / 2 : 0.6 * x - 0.18;
             });
  ExpectLoss([](const Scope& s, const Output& l, const Output& p,
                const LossOptions& o) { return losses::SigmoidCrossEntropy(s, l, p, 0.2, o); },
             [](double l, double p) {
               const double z = l * 0.8 + 0.1, q = 1 / (1 + std::exp(-p));
               return -z * std::log(q) - (1 - z) * std::log(1 - q);
             });
  ExpectLoss([](const Scope& s, const Output& l, const Output& p,
                const LossOptions& o) { return losses::LogLoss(s, l, p, 1e-3, o); },
             [](double l, double p) { return -l * std::log(p + 1e-3) - (1 - l) * std::log(1 - p + 1e-3); },
             {{0.75f, 0.25f, 0.125f}, {0.5f, 0.9f, 1}});
}

TEST(LossesTest, OfRowsFollowTheirFormulas) {
  const Scope scope = Scope::NewRootScope();
  const Output labels = Matrix(scope, {{0, 1, 0}, {0, 0, 1}}), logits = Matrix(scope, kPredictions);
  const Output softmax = losses::SoftmaxCrossEntropy(scope, labels, logits, 0.3, {.weights = {2.f, 1.f}});
  const Output sparse = losses::SparseSoftmaxCrossEntropy(scope, ops::Const(scope, {1, 2}), logits);
  const Output cosine = losses::CosineDistance(scope, labels, logits, 1);
  ASSERT_TRUE(scope.ok()) << scope.status();
  const auto entropy = [&](size_t row, size_t label, double smoothing) {
    double sum = 0, loss = 0;
    for (const float x : kPredictions[row]) sum += std::exp(x);
    for (size_t j = 0; j < 3; ++j) {
      const double p = (j == label ? 1 - smoothing : 0) + smoothing / 3;
      loss -= p * std::log(std::exp(kPredictions[row][j]) / sum);
    }
    return loss;
  };
  ReadySession session(scope);
  EXPECT_NEAR(session.Value(softmax), (2 * entropy(0, 1, 0.3) + entropy(1, 2, 0.3)) / 2, 1e-5);
  EXPECT_NEAR(session.Value(sparse), (entropy(0, 1, 0) + entropy(1, 2, 0)) / 2, 1e-5);
  EXPECT_NEAR(session.Value(cosine), (1 - 0.25 + 1 - 0.25) / 2, 1e-6);
}

TEST(LossesTest, PairsAreComparedWithinEachExample) {
  const Scope scope = Scope::NewRootScope();
  const Output labels = Matrix(scope, kLabels), predictions = Matrix(scope, kPredictions);
  const Output plain = losses::MeanPairwiseSquaredError(scope, labels, predictions);
  const Output weighted =
      losses::MeanPairwiseSquaredError(scope, labels, predictions, {.weights = {2.f, 0.f}});
  const Output none = losses::MeanPairwiseSquaredError(scope, labels, predictions, {.weights = 0.f});
  ASSERT_TRUE(scope.ok()) << scope.status();
  // Over all ordered pairs of different elements: the mean of the squares of their differences.
  const auto pairs = [&](size_t row) {
    double sum = 0;
    for (size_t i = 0; i < 3; ++i) {
      for (size_t j = 0; j < 3; ++j) {
        const double di = kPredictions[row][i] - kLabels[row][i], dj = kPredictions[row][j] - kLabels[row][j];
        sum += (di - dj) * (di - dj) / 6;
      }
    }
    return sum;
  };
  ReadySession session(scope);
  EXPECT_NEAR(session.Value(plain), pairs(0) + pairs(1), 1e-5);
  EXPECT_NEAR(session.Value(weighted), 2 * pairs(0), 1e-5);
  EXPECT_EQ(session.Value(none), 0);
}

TEST(LossesTest, AllWeightsZeroGiveZero) {
  const Scope scope = Scope::NewRootScope();
  const Output labels = Matrix(scope, kLabels), predictions = Matrix(scope, kPredictions);
  std::vector<Output> all;
  for (const Reduction r : {Reduction::kMean, Reduction::kSumByNonzeroWeights}) {
    all.push_back(losses::MeanSquaredError(scope, labels, predictions, {.weights = 0.f, .reduction = r}));
  }
  ReadySession session(scope);
  for (const Output& loss : all) EXPECT_EQ(session.Value(loss), 0);
}

TEST(LossesTest, TheTotalIsOfLossesAndRegularizers) {
  const Scope scope = Scope::NewRootScope();
  const Output labels = Matrix(scope, kLabels);
  const GraphVariable w =
      GetVariable(scope, "w", {2}, {.initializer = initializers::Ones(), .regularizer = L2Regularizer(3)});
  const Output a = losses::ComputeWeightedLoss(scope, labels);
  losses::ComputeWeightedLoss(scope, labels, {.collection = ""});
  const Output total = losses::GetTotalLoss(scope);
  const Output without = losses::GetTotalLoss(scope, {.add_regularization_losses = false});
  ASSERT_TRUE(scope.ok()) << scope.status();
  EXPECT_EQ(Scope::NameOf(a), "weighted_loss/value");
  EXPECT_THAT(losses::GetLosses(scope), ElementsAre(a));
  ReadySession session(scope);
  EXPECT_FLOAT_EQ(session.Value(total), 0.5f + 3);
  EXPECT_FLOAT_EQ(session.Value(without), 0.5f);
}

TEST(LossesTest, SigmoidCrossEntropyHasItsDerivativeAtZero) {
  const Scope scope = Scope::NewRootScope();
  const Output logits = ops::Const(scope, {0.f, 2.f}), labels = ops::Const(scope, {1.f, 0.f});
  const Output loss = losses::SigmoidCrossEntropy(scope, labels, logits, 0, {.reduction = Reduction::kSum});
  std::vector<Output> gradients;
  ASSERT_TRUE(AddSymbolicGradients(scope, {loss}, {logits}, &gradients).ok()) << scope.status();
  ReadySession session(scope);
  const std::vector<float> g = session.Values(gradients[0]);
  EXPECT_NEAR(g[0], 0.5 - 1, 1e-6);
  EXPECT_NEAR(g[1], 1 / (1 + std::exp(-2.0)), 1e-6);
}

TEST(LossesTest, ShapesThatDoNotFitAreErrors) {
  const Scope scope = Scope::NewRootScope();
  losses::MeanSquaredError(scope, Matrix(scope, kLabels), ops::Const(scope, {1.f}));
  EXPECT_THAT(scope.status().message(), HasSubstr("are incompatible"));
  const Scope weights = Scope::NewRootScope();
  losses::MeanSquaredError(weights, Matrix(weights, kLabels), Matrix(weights, kLabels),
                           {.weights = {1.f, 2.f}});
  EXPECT_THAT(weights.status().message(), HasSubstr("weights can not be broadcast to values"));
}

}  // namespace
}  // namespace millrace
