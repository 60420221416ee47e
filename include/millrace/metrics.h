// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "millrace/output.h"
#include "millrace/scope.h"

// The metrics of tf.metrics, which accumulate over many batches: `update` adds a batch and returns the
// new value, `value` is the value over all batches so far. The sums are local variables; initialising
// them resets the metric: graph_keys::kLocalVariables, graph_keys::kMetricVariables. Labels and predictions
// have equal shapes unless stated otherwise. Errors go to the scope's status; what is returned then is unset.
namespace millrace::metrics {

struct Metric {
  Output value;
  Output update;
};

struct MetricOptions {
  // A scalar, or a tensor of the rank of the values whose sizes are theirs or 1; unset: ones.
  std::optional<Input> weights = {};
  std::string name = {};  // "": that of the metric
};

// sum(values * weights) / sum(weights); a float scalar. MeanTensor: for each element, over the batches.
Metric Mean(const Scope& scope, const Output& values, const MetricOptions& options = {});
Metric MeanTensor(const Scope& scope, const Output& values, const MetricOptions& options = {});
// The share of predictions that equal their labels.
Metric Accuracy(const Scope& scope, const Output& labels, const Output& predictions,
                const MetricOptions& options = {});
// The share of values below a threshold.
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

// Of truths: labels and predictions are bools, or numbers of which 0 is false.
Metric TruePositives(const Scope& scope, const Output& labels, const Output& predictions,
                     const MetricOptions& options = {});
Metric TrueNegatives(const Scope& scope, const Output& labels, const Output& predictions,
                     const MetricOptions& options = {});
Metric FalsePositives(const Scope& scope, const Output& labels, const Output& predictions,
                      const MetricOptions& options = {});
Metric FalseNegatives(const Scope& scope, const Output& labels, const Output& predictions,
                      const MetricOptions& options = {});
// True positives over all predicted ones; over all that are labelled so. 0 when there are none.
Metric Precision(const Scope& scope, const Output& labels, const Output& predictions,
                 const MetricOptions& options = {});
Metric Recall(const Scope& scope, const Output& labels, const Output& predictions,
              const MetricOptions& options = {});
// The same where predictions are probabilities and count as true above each of the thresholds: vectors.
Metric PrecisionAtThresholds(const Scope& scope, const Output& labels, const Output& predictions,
                             const std::vector<float>& thresholds, const MetricOptions& options = {});
Metric RecallAtThresholds(const Scope& scope, const Output& labels, const Output& predictions,
                          const std::vector<float>& thresholds, const MetricOptions& options = {});

struct AucOptions {
  enum class Curve {
    kRoc,  // true positives over false positives
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
// The largest sensitivity (true positive rate) where the specificity (true negative rate) is nearest to the
// one wanted, over thresholds; and the other way round.
Metric SensitivityAtSpecificity(const Scope& scope, const Output& labels, const Output& predictions,
                                double specificity, const AucOptions& options = {});
Metric SpecificityAtSensitivity(const Scope& scope, const Output& labels, const Output& predictions,
                                double sensitivity, const AucOptions& options = {});

// Of predictions [batch, classes] the k largest of each row: how many of them are labels, and how many of the
// labels are among them. Labels are numbers of classes, int64 [batch] or [batch, n], and differ within a row;
// -1 fills rows with fewer. Weights are a scalar or [batch].
Metric PrecisionAtK(const Scope& scope, const Output& labels, const Output& predictions, int64_t k,
                    const MetricOptions& options = {});
Metric RecallAtK(const Scope& scope, const Output& labels, const Output& predictions, int64_t k,
                 const MetricOptions& options = {});

// Labels and predictions are numbers of classes below num_classes. For each class: the share of its labels
// that are predicted right, averaged over all classes; and right ones over all that are labelled or predicted
// so, averaged over the classes that occur.
Metric MeanPerClassAccuracy(const Scope& scope, const Output& labels, const Output& predictions,
                            int64_t num_classes, const MetricOptions& options = {});
Metric MeanIou(const Scope& scope, const Output& labels, const Output& predictions, int64_t num_classes,
               const MetricOptions& options = {});

}  // namespace millrace::metrics
