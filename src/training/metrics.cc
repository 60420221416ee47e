// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/metrics.h"

#include "millrace/ops.h"
#include "millrace/variables.h"
#include "training/metrics_common.h"

namespace millrace::metrics {

Sum Accumulate(const Scope& scope, const char* name, const TensorShape& shape, const Output& increment) {
  const GraphVariable sum(
      scope.WithOpName(name), InitialValue{.shape = shape, .dtype = DataType::kFloat}, initializers::Zeros(),
      {.trainable = false, .collections = {graph_keys::kLocalVariables, graph_keys::kMetricVariables}});
  if (!scope.ok()) return {};
  return {sum.value(), sum.AssignAdd(scope, increment)};
}

Scope Enter(const Scope& scope, const MetricOptions& options, const char* default_name) {
  return scope.NewSubScope(options.name.empty() ? default_name : options.name);
}

Metric From(const Scope& scope, const std::vector<Sum>& sums,
            const std::function<Formula(const std::vector<Formula>&)>& value) {
  if (!scope.ok()) return {};
  std::vector<Formula> now, after;
  for (const Sum& sum : sums) {
    now.emplace_back(scope, sum.now);
    after.emplace_back(scope, sum.after);
  }
  return {ops::Identity(scope.WithOpName("value"), value(now).tensor()),
          ops::Identity(scope.WithOpName("update_op"), value(after).tensor())};
}

Formula SpreadWeights(const Scope& scope, const std::optional<Input>& weights, const Output& values) {
  const Formula all(scope, values);
  if (!weights) return all.Call("OnesLike").To(DataType::kFloat);
  const Formula given = WeightsFor(scope, *weights, values);
  return scope.ok() ? Broadcast(given, all) : all;
}

namespace {

Formula Ratio(const std::vector<Formula>& sums) { return DivNoNan(sums[0], sums[1]); }

// The mean of float values.
Metric MeanOf(const Scope& own, const Output& values, const std::optional<Input>& weights,
              const std::function<Formula(const std::vector<Formula>&)>& value = Ratio) {
  if (!own.ok()) return {};
  const Formula spread = SpreadWeights(own, weights, values);
  if (!own.ok()) return {};
  const Formula total = (Formula(own, values) * spread).Reduce("Sum");
  const Sum of_values = Accumulate(own, "total", {}, total);
  const Sum of_weights = Accumulate(own, "count", {}, spread.Reduce("Sum"));
  return From(own, {of_values, of_weights}, value);
}

// The scope of a metric of labels and predictions, which are converted to floats of equal shapes.
struct Floats {
  Floats(const Scope& scope, const MetricOptions& options, const char* name, const Output& label,
         const Output& prediction)
      : own(Enter(scope, options, name)), labels(own, {}), predictions(own, {}) {
    own.UpdateStatus(CheckSameShape(own, label, prediction));
    if (!own.ok()) return;
    labels = Formula(own, CastTo(own, label, DataType::kFloat));
    predictions = Formula(own, CastTo(own, prediction, DataType::kFloat));
  }
  Scope own;
  Formula labels;
  Formula predictions;
};

// One cell of the confusion matrix: a truth, and whether it was predicted.
struct Outcome {
  const char* name;
  bool label;
  bool prediction;
};
constexpr Outcome kTruePositives = {"true_positives", true, true};
constexpr Outcome kTrueNegatives = {"true_negatives", false, false};
constexpr Outcome kFalsePositives = {"false_positives", false, true};
constexpr Outcome kFalseNegatives = {"false_negatives", true, false};

Sum Count(const Scope& own, const Outcome& outcome, const Output& labels, const Output& predictions,
          const std::optional<Input>& weights) {
  own.UpdateStatus(CheckSameShape(own, labels, predictions));
  if (!own.ok()) return {};
  const auto is = [&](const Output& x, bool wanted) {
    const Output truth = CastTo(own, x, DataType::kBool);
    return wanted ? truth : ops::LogicalNot(own, truth).y;
  };
  const Output both = ops::LogicalAnd(own, is(labels, outcome.label), is(predictions, outcome.prediction));
  const Formula spread = SpreadWeights(own, weights, labels);
  if (!own.ok()) return {};
  const Formula counted = Formula(own, both).To(DataType::kFloat) * spread;
  return Accumulate(own, "count", {}, counted.Reduce("Sum"));
}

Metric CountOf(const Scope& scope, const Outcome& outcome, const Output& labels, const Output& predictions,
               const MetricOptions& options) {
  const Scope own = Enter(scope, options, outcome.name);
  const Sum count = Count(own, outcome, labels, predictions, options.weights);
  return From(own, {count}, [](const std::vector<Formula>& sums) { return sums[0]; });
}

// Correct ones divided by correct and wrong ones.
Metric Share(const Scope& scope, const char* name, const Outcome& wrong, const Output& labels,
             const Output& predictions, const MetricOptions& options) {
  const Scope own = Enter(scope, options, name);
  const Sum right =
      Count(own.NewSubScope(kTruePositives.name), kTruePositives, labels, predictions, options.weights);
  const Sum other = Count(own.NewSubScope(wrong.name), wrong, labels, predictions, options.weights);
  return From(own, {right, other},
              [](const std::vector<Formula>& sums) { return DivNoNan(sums[0], sums[0] + sums[1]); });
}

}  // namespace

Metric Mean(const Scope& scope, const Output& values, const MetricOptions& options) {
  const Scope own = Enter(scope, options, "mean");
  return MeanOf(own, CastTo(own, values, DataType::kFloat), options.weights);
}

Metric MeanTensor(const Scope& scope, const Output& values, const MetricOptions& options) {
  if (!scope.ok()) return {};
  const Scope own = Enter(scope, options, "mean");
  const auto shape = scope.ShapeOf(values).ToTensorShape();
  own.UpdateStatus(shape.status());
  const Formula spread = SpreadWeights(own, options.weights, values);
  if (!own.ok()) return {};
  const Formula all(own, CastTo(own, values, DataType::kFloat));
  const Sum of_values = Accumulate(own, "total_tensor", *shape, all * spread);
  const Sum of_weights = Accumulate(own, "count_tensor", *shape, spread);
  return From(own, {of_values, of_weights}, Ratio);
}

Metric Accuracy(const Scope& scope, const Output& labels, const Output& predictions,
                const MetricOptions& options) {
  const Scope own = Enter(scope, options, "accuracy");
  own.UpdateStatus(CheckSameShape(own, labels, predictions));
  if (!own.ok()) return {};
  const Output same = ops::Equal(own, CastTo(own, labels, Scope::TypeOf(predictions)), predictions);
  return MeanOf(own, CastTo(own, same, DataType::kFloat), options.weights);
}

Metric PercentageBelow(const Scope& scope, const Output& values, double threshold,
                       const MetricOptions& options) {
  const Scope own = Enter(scope, options, "percentage_below_threshold");
  if (!own.ok()) return {};
  const Formula below = Binary(own, "Less", "Less", values, threshold);
  return MeanOf(own, below.To(DataType::kFloat), options.weights);
}

Metric MeanAbsoluteError(const Scope& scope, const Output& labels, const Output& predictions,
                         const MetricOptions& options) {
  const Floats f(scope, options, "mean_absolute_error", labels, predictions);
  return MeanOf(f.own, (f.predictions - f.labels).Call("Abs"), options.weights);
}

Metric MeanSquaredError(const Scope& scope, const Output& labels, const Output& predictions,
                        const MetricOptions& options) {
  const Floats f(scope, options, "mean_squared_error", labels, predictions);
  return MeanOf(f.own, f.labels.Call("SquaredDifference", f.predictions.tensor()), options.weights);
}

Metric RootMeanSquaredError(const Scope& scope, const Output& labels, const Output& predictions,
                            const MetricOptions& options) {
  const Floats f(scope, options, "root_mean_squared_error", labels, predictions);
  return MeanOf(f.own, f.labels.Call("SquaredDifference", f.predictions.tensor()), options.weights,
                [](const std::vector<Formula>& sums) { return Ratio(sums).Call("Sqrt"); });
}

Metric MeanRelativeError(const Scope& scope, const Output& labels, const Output& predictions,
                         const Output& normalizer, const MetricOptions& options) {
  const Floats f(scope, options, "mean_relative_error", labels, predictions);
  if (!f.own.ok()) return {};
  const Output by = CastTo(f.own, normalizer, DataType::kFloat);
  return MeanOf(f.own, DivNoNan((f.labels - f.predictions).Call("Abs"), by), options.weights);
}

Metric MeanCosineDistance(const Scope& scope, const Output& labels, const Output& predictions, int64_t axis,
                          const MetricOptions& options) {
  const Floats f(scope, options, "mean_cosine_distance", labels, predictions);
  const Formula products = (f.predictions * f.labels).Reduce("Sum", {axis}, /*keep_dims=*/true);
  return MeanOf(f.own, products, options.weights,
                [](const std::vector<Formula>& sums) { return 1.0 - Ratio(sums); });
}

Metric TruePositives(const Scope& scope, const Output& labels, const Output& predictions,
                     const MetricOptions& options) {
  return CountOf(scope, kTruePositives, labels, predictions, options);
}
Metric TrueNegatives(const Scope& scope, const Output& labels, const Output& predictions,
                     const MetricOptions& options) {
  return CountOf(scope, kTrueNegatives, labels, predictions, options);
}
Metric FalsePositives(const Scope& scope, const Output& labels, const Output& predictions,
                      const MetricOptions& options) {
  return CountOf(scope, kFalsePositives, labels, predictions, options);
}
Metric FalseNegatives(const Scope& scope, const Output& labels, const Output& predictions,
                      const MetricOptions& options) {
  return CountOf(scope, kFalseNegatives, labels, predictions, options);
}

Metric Precision(const Scope& scope, const Output& labels, const Output& predictions,
                 const MetricOptions& options) {
  return Share(scope, "precision", kFalsePositives, labels, predictions, options);
}
Metric Recall(const Scope& scope, const Output& labels, const Output& predictions,
              const MetricOptions& options) {
  return Share(scope, "recall", kFalseNegatives, labels, predictions, options);
}

namespace {

// The number of hits among the k largest, and the number of candidates, for each row.
Metric AtK(const Scope& scope, const char* name, const Output& labels, const Output& predictions, int64_t k,
           const MetricOptions& options, bool of_labels) {
  const Scope own = Enter(scope, options, name);
  if (!own.ok()) return {};
  const PartialShape shape = own.ShapeOf(labels);
  if (k < 1 || (shape.rank() != 1 && shape.rank() != 2)) {
    own.UpdateStatus(errors::InvalidArgument(
        name, ": expected labels [batch] or [batch, n] and k above 0, got ", shape, " and ", k));
    return {};
  }
  const ops::TopKV2 top(own, predictions, static_cast<int32_t>(k));
  const Output wanted = shape.rank() == 2 ? labels : ops::ExpandDims(own, labels, 1).output;
  const Output classes = CastTo(own, wanted, DataType::kInt64);
  const Output best = CastTo(own, top.indices, DataType::kInt64);
  const Formula same(
      own, ops::Equal(own, ops::ExpandDims(own, classes, 2).output, ops::ExpandDims(own, best, 1).output));
  const Formula hits = same.To(DataType::kFloat).Reduce("Sum", {1, 2});
  const Formula present = Binary(own, "GreaterEqual", "GreaterEqual", classes, 0.0).To(DataType::kFloat);
  const Formula all = of_labels ? present.Reduce("Sum", {1}) : hits * 0.0 + static_cast<double>(k);
  const Formula weights = SpreadWeights(own, options.weights, hits);
  if (!own.ok()) return {};
  const Sum found = Accumulate(own, "true_positive", {}, (hits * weights).Reduce("Sum"));
  const Sum asked = Accumulate(own, of_labels ? "labels" : "predictions", {}, (all * weights).Reduce("Sum"));
  return From(own, {found, asked}, Ratio);
}

// The number of predictions of each class for each label: [num_classes, num_classes].
Sum Confusion(const Scope& own, const Output& labels, const Output& predictions, int64_t num_classes,
              const std::optional<Input>& weights) {
  own.UpdateStatus(CheckSameShape(own, labels, predictions));
  if (own.ok() && (num_classes < 1 || num_classes > 32768)) {
    own.UpdateStatus(errors::InvalidArgument("num_classes is ", num_classes, ", expected 1 to 32768"));
  }
  if (!own.ok()) return {};
  const Formula label(own, CastTo(own, labels, DataType::kInt64));
  const Formula prediction(own, CastTo(own, predictions, DataType::kInt64));
  const Formula spread = SpreadWeights(own, weights, labels);
  if (!own.ok()) return {};
  const auto n = static_cast<double>(num_classes);
  const auto flat = [&](const Formula& x) -> Output { return ops::Reshape(own, x.tensor(), {-1}); };
  const Output cells =
      AddOp(own, "UnsortedSegmentSum",
            {flat(spread), flat(label * n + prediction), Number(own, n * n, DataType::kInt32)});
  const Output matrix = ops::Reshape(own, cells, Vector(own, {num_classes, num_classes}));
  return Accumulate(own, "total_confusion_matrix", {num_classes, num_classes}, matrix);
}

}  // namespace

Metric PrecisionAtK(const Scope& scope, const Output& labels, const Output& predictions, int64_t k,
                    const MetricOptions& options) {
  return AtK(scope, "precision_at_k", labels, predictions, k, options, /*of_labels=*/false);
}
Metric RecallAtK(const Scope& scope, const Output& labels, const Output& predictions, int64_t k,
                 const MetricOptions& options) {
  return AtK(scope, "recall_at_k", labels, predictions, k, options, /*of_labels=*/true);
}

Metric MeanPerClassAccuracy(const Scope& scope, const Output& labels, const Output& predictions,
                            int64_t num_classes, const MetricOptions& options) {
  const Scope own = Enter(scope, options, "mean_accuracy");
  const Sum confusion = Confusion(own, labels, predictions, num_classes, options.weights);
  return From(own, {confusion}, [](const std::vector<Formula>& sums) {
    const Formula right = sums[0].Call("MatrixDiagPart");
    return DivNoNan(right, sums[0].Reduce("Sum", {1}).tensor()).Reduce("Mean", {0});
  });
}

Metric MeanIou(const Scope& scope, const Output& labels, const Output& predictions, int64_t num_classes,
               const MetricOptions& options) {
  const Scope own = Enter(scope, options, "mean_iou");
  const Sum confusion = Confusion(own, labels, predictions, num_classes, options.weights);
  return From(own, {confusion}, [](const std::vector<Formula>& sums) {
    const Formula right = sums[0].Call("MatrixDiagPart");
    const Formula all = sums[0].Reduce("Sum", {0}) + sums[0].Reduce("Sum", {1}).tensor() - right;
    const Formula occurs = Binary(all.scope(), "Greater", "Greater", all, 0.0).To(DataType::kFloat);
    return DivNoNan(DivNoNan(right, all).Reduce("Sum", {0}), occurs.Reduce("Sum", {0}));
  });
}

}  // namespace millrace::metrics
