// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "millrace/ops.h"
#include "training/training_testing.h"

namespace millrace {
namespace {

using metrics::Metric;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

using Batch = std::vector<float>;
using MakeMetric = std::function<Metric(const Scope&, const Output& labels, const Output& predictions,
                                        const Output& weights)>;
// The expected value over all elements so far.
using Expected = std::function<double(const Batch& labels, const Batch& predictions, const Batch& weights)>;

const std::vector<Batch> kLabels = {{1, 0, 1, 0}, {0, 1, 1, 1}};
const std::vector<Batch> kPredictions = {{0.9f, 0.2f, 0.4f, 0.6f}, {0.1f, 0.8f, 0.3f, 0.7f}};
const std::vector<Batch> kWeights = {{1, 2, 0.5f, 1}, {0, 1, 1, 3}};

// Passes two batches to a metric; checks the values before the first and after each, and the updates.
void ExpectMetric(const char* what, const MakeMetric& make, const Expected& expected, double before = 0) {
  for (const bool resource : {false, true}) {
    const Scope root = Scope::NewRootScope();
    const Scope scope = WithVariableOptions(root, {.resource = resource});
    const auto placeholder = [&] {
      return ops::Placeholder(root, DataType::kFloat, ops::Placeholder::Shape({4})).output;
    };
    const Output labels = placeholder(), predictions = placeholder(), weights = placeholder();
    const Metric metric = make(scope, labels, predictions, weights);
    ASSERT_TRUE(root.ok()) << what << root.status();
    EXPECT_TRUE(GlobalVariables(root).empty());
    EXPECT_EQ(LocalVariables(root).size(), CollectVariables(root, graph_keys::kMetricVariables).size());
    ReadySession session(root);
    EXPECT_NEAR(session.Value(metric.value), before, 1e-5) << what;
    Batch l, p, w;
    for (size_t i = 0; i < 2; ++i) {
      l.insert(l.end(), kLabels[i].begin(), kLabels[i].end());
      p.insert(p.end(), kPredictions[i].begin(), kPredictions[i].end());
      w.insert(w.end(), kWeights[i].begin(), kWeights[i].end());
      const ClientSession::Feeds feeds = {{labels, Tensor::Vector(kLabels[i])},
                                          {predictions, Tensor::Vector(kPredictions[i])},
                                          {weights, Tensor::Vector(kWeights[i])}};
      const double wanted = expected(l, p, w);
      EXPECT_NEAR(session.Value(metric.update, feeds), wanted, 1e-5) << what << " batch " << i;
      EXPECT_NEAR(session.Value(metric.value), wanted, 1e-5) << what << " batch " << i;
    }
  }
}

// sum(f * w) / sum(g * w).
Expected Quotient(
    const std::function<double(double, double)>& f,
    const std::function<double(double, double)>& g = [](double, double) { return 1.0; }) {
  return [=](const Batch& l, const Batch& p, const Batch& w) {
    double above = 0, below = 0;
    for (size_t i = 0; i < l.size(); ++i) above += f(l[i], p[i]) * w[i], below += g(l[i], p[i]) * w[i];
    return below == 0 ? 0 : above / below;
  };
}

TEST(MetricsTest, MeansAreOverAllBatches) {
  ExpectMetric(
      "mean",
      [](const Scope& s, const Output&, const Output& p, const Output& w) {
        return metrics::Mean(s, p, {.weights = w});
      },
      Quotient([](double, double p) { return p; }));
  ExpectMetric(
      "absolute",
      [](const Scope& s, const Output& l, const Output& p, const Output& w) {
        return metrics::MeanAbsoluteError(s, l, p, {.weights = w});
      },
      Quotient([](double l, double p) { return std::abs(p - l); }));
  const Expected squares = Quotient([](double l, double p) { return (p - l) * (p - l); });
  ExpectMetric(
      "squared",
      [](const Scope& s, const Output& l, const Output& p, const Output& w) {
        return metrics::MeanSquaredError(s, l, p, {.weights = w});
      },
      squares);
  ExpectMetric(
      "root",
      [](const Scope& s, const Output& l, const Output& p, const Output& w) {
        return metrics::RootMeanSquaredError(s, l, p, {.weights = w});
      },
      [&](const Batch& l, const Batch& p, const Batch& w) { return std::sqrt(squares(l, p, w)); });
  ExpectMetric(
      "relative",
      [](const Scope& s, const Output& l, const Output& p, const Output& w) {
        return metrics::MeanRelativeError(s, l, p, l, {.weights = w});
      },
      Quotient([](double l, double p) { return l == 0 ? 0 : std::abs(p - l) / l; }));
  ExpectMetric(
      "below",
      [](const Scope& s, const Output&, const Output& p, const Output& w) {
        return metrics::PercentageBelow(s, p, 0.5, {.weights = w});
      },
      Quotient([](double, double p) { return p < 0.5; }));
  ExpectMetric(
      "without weights",
      [](const Scope& s, const Output&, const Output& p, const Output&) { return metrics::Mean(s, p); },
      [](const Batch&, const Batch& p, const Batch&) {
        double sum = 0;
        for (const float x : p) sum += x;
        return sum / static_cast<double>(p.size());
      });
}

Output Above(const Scope& scope, const Output& p) { return ops::Greater(scope, p, 0.5f); }

TEST(MetricsTest, TruthsAreCounted) {
  const auto is = [](bool label, bool prediction) {
    return [=](double l, double p) { return (l == 1) == label && (p > 0.5) == prediction ? 1.0 : 0.0; };
  };
  const auto count = [&](bool label, bool prediction) -> Expected {
    return [=](const Batch& l, const Batch& p, const Batch& w) {
      double sum = 0;
      for (size_t i = 0; i < l.size(); ++i) sum += is(label, prediction)(l[i], p[i]) * w[i];
      return sum;
    };
  };
  using Function = Metric (*)(const Scope&, const Output&, const Output&, const metrics::MetricOptions&);
  const auto of = [](Function f) -> MakeMetric {
    return [f](const Scope& s, const Output& l, const Output& p, const Output& w) {
      return f(s, l, Above(s, p), {.weights = w});
    };
  };
  ExpectMetric("tp", of(metrics::TruePositives), count(true, true));
  ExpectMetric("tn", of(metrics::TrueNegatives), count(false, false));
  ExpectMetric("fp", of(metrics::FalsePositives), count(false, true));
  ExpectMetric("fn", of(metrics::FalseNegatives), count(true, false));
  ExpectMetric("precision", of(metrics::Precision),
               Quotient(is(true, true), [](double, double p) { return p > 0.5; }));
  ExpectMetric("recall", of(metrics::Recall), Quotient(is(true, true), [](double l, double) { return l; }));
  ExpectMetric("accuracy", of(metrics::Accuracy),
               Quotient([](double l, double p) { return (l == 1) == (p > 0.5); }));
}

// The area by TensorFlow's definition: trapezoids between thresholds.
double Area(const Batch& l, const Batch& p, const Batch& w, bool roc, const std::vector<double>& thresholds) {
  std::vector<double> x, y;
  for (const double t : thresholds) {
    double tp = 0, fp = 0, tn = 0, fn = 0;
    for (size_t i = 0; i < l.size(); ++i) {
      (l[i] == 1 ? (p[i] > t ? tp : fn) : (p[i] > t ? fp : tn)) += w[i];
    }
    const double recall = (tp + 1e-6) / (tp + fn + 1e-6);
    x.push_back(roc ? fp / (fp + tn + 1e-6) : recall);
    y.push_back(roc ? recall : (tp + 1e-6) / (tp + fp + 1e-6));
  }
  double area = 0;
  for (size_t i = 0; i + 1 < x.size(); ++i) area += (x[i] - x[i + 1]) * (y[i] + y[i + 1]) / 2;
  return area;
}

TEST(MetricsTest, AreasAreSummedOverThresholds) {
  const std::vector<double> thresholds = {-1e-7, 0.25, 0.5, 0.75, 1 + 1e-7};
  for (const bool roc : {true, false}) {
    const auto curve = roc ? metrics::AucOptions::Curve::kRoc : metrics::AucOptions::Curve::kPr;
    // Without data the recall is 1 everywhere, so that the area is 0.
    ExpectMetric(
        "auc",
        [=](const Scope& s, const Output& l, const Output& p, const Output& w) {
          return metrics::Auc(s, l, p, {.num_thresholds = 5, .curve = curve, .weights = w});
        },
        [&](const Batch& l, const Batch& p, const Batch& w) { return Area(l, p, w, roc, thresholds); });
  }
}

TEST(MetricsTest, ThePerfectClassifierHasTheWholeArea) {
  const Scope scope = Scope::NewRootScope();
  const Output labels = ops::Const(scope, {true, false, true}), p = ops::Const(scope, {0.9f, 0.1f, 0.8f});
  const Metric auc = metrics::Auc(scope, labels, p);
  const Metric worst = metrics::Auc(scope, ops::LogicalNot(scope, labels).y, p);
  const Metric sensitivity = metrics::SensitivityAtSpecificity(scope, labels, p, 0.99);
  const Metric specificity = metrics::SpecificityAtSensitivity(scope, labels, p, 0.5);
  const Metric precision = metrics::PrecisionAtThresholds(scope, labels, p, {0.05f, 0.5f});
  const Metric recall = metrics::RecallAtThresholds(scope, labels, p, {0.05f, 0.85f});
  ASSERT_TRUE(scope.ok()) << scope.status();
  ReadySession session(scope);
  EXPECT_NEAR(session.Value(auc.update), 1, 1e-5);
  EXPECT_NEAR(session.Value(worst.update), 0, 1e-5);
  EXPECT_NEAR(session.Value(sensitivity.update), 1, 1e-5);
  EXPECT_NEAR(session.Value(specificity.update), 1, 1e-5);
  EXPECT_THAT(session.Values(precision.update), Pointwise(FloatNear(1e-5f), {2.f / 3, 1.f}));
  EXPECT_THAT(session.Values(recall.update), Pointwise(FloatNear(1e-5f), {1.f, 0.5f}));
}

TEST(MetricsTest, TheLargestOfARowAreComparedWithItsLabels) {
  const Scope scope = Scope::NewRootScope();
  const Output predictions = ops::Const(scope, {{0.1f, 0.4f, 0.3f, 0.2f}, {0.9f, 0.0f, 0.05f, 0.2f}});
  const Output labels = ops::Const(scope, Tensor::From<int64_t>({2, 0, 3, -1}, TensorShape({2, 2})));
  const Output one = ops::Const(scope, Tensor::Vector<int64_t>({1, 2}));
  const Metric precision = metrics::PrecisionAtK(scope, labels, predictions, 2);
  const Metric recall = metrics::RecallAtK(scope, labels, predictions, 2);
  const Metric weighted = metrics::RecallAtK(scope, one, predictions, 1, {.weights = Input({3.f, 1.f})});
  ASSERT_TRUE(scope.ok()) << scope.status();
  ReadySession session(scope);
  EXPECT_FLOAT_EQ(session.Value(precision.update), 2.f / 4);  // 2 of {1, 2}, 3 of {0, 3}
  EXPECT_FLOAT_EQ(session.Value(recall.update), 2.f / 3);
  EXPECT_FLOAT_EQ(session.Value(weighted.update), 3.f / 4);
  EXPECT_EQ(session.Value(recall.value), session.Value(recall.value));
}

TEST(MetricsTest, ClassesAreAveraged) {
  const Scope scope = Scope::NewRootScope();
  const Output labels = ops::Const(scope, {0, 0, 1, 1, 1}), predictions = ops::Const(scope, {0, 1, 1, 1, 0});
  const Metric accuracy = metrics::MeanPerClassAccuracy(scope, labels, predictions, 3);
  const Metric iou = metrics::MeanIou(scope, labels, predictions, 3);
  ASSERT_TRUE(scope.ok()) << scope.status();
  ReadySession session(scope);
  EXPECT_NEAR(session.Value(accuracy.update), (1.0 / 2 + 2.0 / 3 + 0) / 3, 1e-6);
  EXPECT_NEAR(session.Value(iou.update), (1.0 / 3 + 2.0 / 4) / 2, 1e-6);
}

TEST(MetricsTest, TensorsAndAnglesHaveMeans) {
  const Scope scope = Scope::NewRootScope();
  const Output in = ops::Placeholder(scope, DataType::kFloat, ops::Placeholder::Shape({2}));
  const Metric mean = metrics::MeanTensor(scope, in);
  const Output a = ops::Const(scope, {{1.f, 0.f}, {0.6f, 0.8f}}),
               b = ops::Const(scope, {{1.f, 0.f}, {0.8f, 0.6f}});
  const Metric cosine = metrics::MeanCosineDistance(scope, a, b, 1);
  ASSERT_TRUE(scope.ok()) << scope.status();
  ReadySession session(scope);
  session.Values(mean.update, {{in, {1.f, 2.f}}});
  session.Values(mean.update, {{in, {2.f, 6.f}}});
  EXPECT_THAT(session.Values(mean.value), ElementsAre(1.5f, 4));
  EXPECT_NEAR(session.Value(cosine.update), 1 - (1 + 0.96) / 2, 1e-6);
}

TEST(MetricsTest, VariablesAreNamedAsInTensorFlow) {
  const Scope scope = Scope::NewRootScope();
  const Output x = ops::Const(scope, {1.f});
  const Metric mean = metrics::Mean(scope, x);
  metrics::Precision(scope, x, x);
  metrics::Mean(scope, x, {.name = "loss"});
  std::vector<std::string> names;
  for (const GraphVariable& variable : LocalVariables(scope)) names.push_back(variable.name());
  EXPECT_THAT(names, ElementsAre("mean/total", "mean/count", "precision/true_positives/count",
                                 "precision/false_positives/count", "loss/total", "loss/count"));
  EXPECT_EQ(Scope::NameOf(mean.value), "mean/value");
  EXPECT_EQ(Scope::NameOf(mean.update), "mean/update_op");
}

TEST(MetricsTest, WhatDoesNotFitIsAnError) {
  const auto error = [](const std::function<void(const Scope&)>& make) {
    const Scope scope = Scope::NewRootScope();
    make(scope);
    return std::string(scope.status().message());
  };
  EXPECT_THAT(error([](const Scope& s) {
                metrics::Accuracy(s, ops::Const(s, {1.f}), ops::Const(s, {1.f, 2.f}));
              }),
              HasSubstr("are incompatible"));
  EXPECT_THAT(error([](const Scope& s) {
                metrics::Mean(s, ops::Const(s, {1.f, 2.f}), {.weights = Input({1.f, 2.f, 3.f})});
              }),
              HasSubstr("weights can not be broadcast"));
  EXPECT_THAT(error([](const Scope& s) {
                metrics::Auc(s, ops::Const(s, {1.f}), ops::Const(s, {1.f}), {.num_thresholds = 1});
              }),
              HasSubstr("num_thresholds must be > 1"));
}

}  // namespace
}  // namespace millrace
