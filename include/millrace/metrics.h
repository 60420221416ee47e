// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "millrace/output.h"
#include "millrace/scope.h"

// The metrics of tf.metrics, which accumulate over many batches: `update` adds a batch and returns the new
// value, `value` is the value over all batches so far. The accumulators are local variables; initialising
// them resets the metric: graph_keys::kLocalVariables, graph_keys::kMetricVariables. Labels and predictions
// have equal shapes unless stated otherwise. Errors go to the scope's status; results are unset then.
namespace millrace::metrics {

struct Metric {
  Output value;
  Output update;
};

struct MetricOptions {
  // A scalar, or a tensor with the rank of the values and sizes equal to theirs or 1; unset: ones.
  std::optional<Input> weights = {};
  std::string name = {};  // "": the metric's name
};

// sum(values * weights) / sum(weights); a float scalar. MeanTensor: for each element, over the batches.
Metric Mean(const Scope& scope, const Output& values, const MetricOptions& options = {});
Metric MeanTensor(const Scope& scope, const Output& values, const MetricOptions& options = {});
// The fraction of predictions that equal their labels.
Metric Accuracy(const Scope& scope, const Output& labels, const Output& predictions,
                const MetricOptions& options = {});
// The fraction of values below a threshold.
Metric PercentageBelow(const Scope& scope, const Output& values, double threshold,
                       const MetricOptions& options = {});

// Means of |p - l|, (p - l)^2, the root of the latter, |p - l| / normalizer (0 where that is 0).
Metric MeanAbsoluteError(const Scope& scope, const Output& labels, const Output& predictions,
                         const MetricOptions& options = {});
Metric MeanSquaredError(const Scope& scope, const Output& labels, const Output& predictions,
                        const MetricOptions& options = {});
Metric RootMeanSquaredError(const Scope& scope, const Output& labels, const Output& predictions,
                            const MetricOptions& options = {});
Metric MeanRelativeError(const Scope& scope, const Output& labels, const Output& predictions,
                         const Output& normalizer, const MetricOptions& options = {});
// 1 - the mean of sum(labels * predictions) over an axis.
Metric MeanCosineDistance(const Scope& scope, const Output& labels, const Output& predictions, int64_t axis,
                          const MetricOptions& options = {});

// For binary labels: labels and predictions are bools, or numbers of which 0 is false.
Metric TruePositives(const Scope& scope, const Output& labels, const Output& predictions,
                     const MetricOptions& options = {});
Metric TrueNegatives(const Scope& scope, const Output& labels, const Output& predictions,
                     const MetricOptions& options = {});
Metric FalsePositives(const Scope& scope, const Output& labels, const Output& predictions,
                      const MetricOptions& options = {});
Metric FalseNegatives(const Scope& scope, const Output& labels, const Output& predictions,
                      const MetricOptions& options = {});
// True positives divided by all predicted positives; by all labelled positives. 0 if there are none.
Metric Precision(const Scope& scope, const Output& labels, const Output& predictions,
                 const MetricOptions& options = {});
Metric Recall(const Scope& scope, const Output& labels, const Output& predictions,
              const MetricOptions& options = {});
// The same for predictions that are probabilities and positive above each of the thresholds: vectors.
Metric PrecisionAtThresholds(const Scope& scope, const Output& labels, const Output& predictions,
                             const std::vector<float>& thresholds, const MetricOptions& options = {});
Metric RecallAtThresholds(const Scope& scope, const Output& labels, const Output& predictions,
                          const std::vector<float>& thresholds, const MetricOptions& options = {});

struct AucOptions {
  enum class Curve {
    kRoc,  // true positive rate over false positive rate
    kPr,   // precision over recall
  };
  enum class Summation { kTrapezoidal, kMinoring, kMajoring };
  int64_t num_thresholds = 200;
  Curve curve = Curve::kRoc;
  Summation summation = Summation::kTrapezoidal;
  std::optional<Input> weights = {};
  std::string name = {};
};
// The area under a curve of predictions in [0, 1].
Metric Auc(const Scope& scope, const Output& labels, const Output& predictions,
           const AucOptions& options = {});
// The largest sensitivity (true positive rate) at the threshold whose specificity (true negative rate) is
// nearest to the given one; and vice versa.
Metric SensitivityAtSpecificity(const Scope& scope, const Output& labels, const Output& predictions,
                                double specificity, const AucOptions& options = {});
Metric SpecificityAtSensitivity(const Scope& scope, const Output& labels, const Output& predictions,
                                double sensitivity, const AucOptions& options = {});

// For the k largest predictions [batch, classes] of each row: the fraction of them that are labels, and the
// fraction of the labels among them. Labels are class indices, int64 [batch] or [batch, n], distinct within a
// row and padded with -1. Weights are a scalar or [batch].
Metric PrecisionAtK(const Scope& scope, const Output& labels, const Output& predictions, int64_t k,
                    const MetricOptions& options = {});
Metric RecallAtK(const Scope& scope, const Output& labels, const Output& predictions, int64_t k,
                 const MetricOptions& options = {});

// Labels and predictions are class indices below num_classes. For each class: the fraction of its labels that
// are predicted correctly, averaged over all classes; and intersection over union of labels and predictions,
// averaged over the classes that occur.
Metric MeanPerClassAccuracy(const Scope& scope, const Output& labels, const Output& predictions,
                            int64_t num_classes, const MetricOptions& options = {});
Metric MeanIou(const Scope& scope, const Output& labels, const Output& predictions, int64_t num_classes,
               const MetricOptions& options = {});

}  // namespace millrace::metrics
