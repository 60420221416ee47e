// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Metrics of probabilities that count as true above thresholds.
#include <functional>

#include "millrace/metrics.h"
#include "millrace/ops.h"
#include "training/metrics_common.h"

namespace millrace::metrics {
namespace {

// The sums of all outcomes at each threshold: true and false positives, true and false negatives.
enum Which : size_t { kTp, kFp, kTn, kFn };

std::vector<Sum> Counts(const Scope& own, const Output& labels, const Output& predictions,
                        const std::vector<float>& thresholds, const std::optional<Input>& weights) {
  own.UpdateStatus(CheckSameShape(own, labels, predictions));
  if (own.ok() && thresholds.empty())
    own.UpdateStatus(errors::InvalidArgument("expected at least 1 threshold"));
  if (!own.ok()) return {};
  const Formula spread = SpreadWeights(own, weights, predictions);
  if (!own.ok()) return {};
  const auto count = static_cast<int64_t>(thresholds.size());
  const auto row = [&](const Output& x) { return Formula(own, ops::Reshape(own, x, {1, -1})); };
  const Output limits = ops::Const(own, Tensor::From(thresholds, TensorShape({count, 1})));
  const Formula given = row(CastTo(own, predictions, DataType::kFloat));
  const Formula above = given.Call("Greater", limits).To(DataType::kFloat);
  const Formula truth = row(CastTo(own, CastTo(own, labels, DataType::kBool), DataType::kFloat));
  const Formula weight = row(spread);
  const Formula yes = truth * weight, no = (1.0 - truth) * weight, below = 1.0 - above;
  const auto sum = [&](const char* name, const Formula& all) {
    return Accumulate(own, name, {count}, all.Reduce("Sum", {1}));
  };
  return {sum("true_positives", above * yes), sum("false_positives", above * no),
          sum("true_negatives", below * no), sum("false_negatives", below * yes)};
}

// From below 0 to above 1.
std::vector<float> Thresholds(int64_t count) {
  constexpr float kEpsilon = 1e-7f;
  std::vector<float> all = {-kEpsilon};
  for (int64_t i = 1; i < count - 1; ++i) {
    all.push_back(static_cast<float>(static_cast<double>(i) / static_cast<double>(count - 1)));
  }
  all.push_back(1 + kEpsilon);
  return all;
}

Status CheckAuc(const AucOptions& options) {
  if (options.num_thresholds >= 2 && options.num_thresholds <= 1000000) return Status();
  return errors::InvalidArgument("num_thresholds must be > 1, got ", options.num_thresholds);
}

// The rate `wanted` where the other one is nearest to a goal.
Metric AtRate(const Scope& scope, const char* name, const Output& labels, const Output& predictions,
              double goal, const AucOptions& options, bool wants_sensitivity) {
  const Scope own = Enter(scope, {.name = options.name}, name);
  own.UpdateStatus(CheckAuc(options));
  if (own.ok() && !(goal >= 0 && goal <= 1)) {
    own.UpdateStatus(errors::InvalidArgument(name, ": the goal must be in [0, 1], got ", goal));
  }
  if (!own.ok()) return {};
  const std::vector<Sum> sums =
      Counts(own, labels, predictions, Thresholds(options.num_thresholds), options.weights);
  return From(own, sums, [&](const std::vector<Formula>& s) -> Formula {
    constexpr double kEpsilon = 1e-7;
    const Formula sensitivity = s[kTp] / (s[kTp] + s[kFn] + kEpsilon);
    const Formula specificity = s[kTn] / (s[kTn] + s[kFp] + kEpsilon);
    const Formula other = wants_sensitivity ? specificity : sensitivity;
    const Formula& rate = wants_sensitivity ? sensitivity : specificity;
    const Output at = ops::ArgMin(own, (other - goal).Call("Abs").tensor(), 0);
    return {own, ops::GatherV2(own, rate.tensor(), at, 0)};
  });
}

}  // namespace

Metric PrecisionAtThresholds(const Scope& scope, const Output& labels, const Output& predictions,
                             const std::vector<float>& thresholds, const MetricOptions& options) {
  const Scope own = Enter(scope, options, "precision_at_thresholds");
  return From(own, Counts(own, labels, predictions, thresholds, options.weights),
              [](const std::vector<Formula>& s) { return s[kTp] / (1e-7 + s[kTp] + s[kFp]); });
}

Metric RecallAtThresholds(const Scope& scope, const Output& labels, const Output& predictions,
                          const std::vector<float>& thresholds, const MetricOptions& options) {
  const Scope own = Enter(scope, options, "recall_at_thresholds");
  return From(own, Counts(own, labels, predictions, thresholds, options.weights),
              [](const std::vector<Formula>& s) { return s[kTp] / (1e-7 + s[kTp] + s[kFn]); });
}

Metric Auc(const Scope& scope, const Output& labels, const Output& predictions, const AucOptions& options) {
  const Scope own = Enter(scope, {.name = options.name}, "auc");
  own.UpdateStatus(CheckAuc(options));
  if (!own.ok()) return {};
  const std::vector<Sum> sums =
      Counts(own, labels, predictions, Thresholds(options.num_thresholds), options.weights);
  const auto points = static_cast<int32_t>(options.num_thresholds - 1);
  return From(own, sums, [&](const std::vector<Formula>& s) {
    constexpr double kEpsilon = 1e-6;
    const Formula recall = (s[kTp] + kEpsilon) / (s[kTp] + s[kFn] + kEpsilon);
    const bool roc = options.curve == AucOptions::Curve::kRoc;
    const Formula x = roc ? s[kFp] / (s[kFp] + s[kTn] + kEpsilon) : recall;
    const Formula y = roc ? recall : (s[kTp] + kEpsilon) / (s[kTp] + s[kFp] + kEpsilon);
    const auto from = [&](const Formula& f, int32_t begin) {
      return Formula(own, ops::Slice(own, f.tensor(), {begin}, {points}));
    };
    const Formula width = from(x, 0) - from(x, 1), left = from(y, 0), right = from(y, 1);
    switch (options.summation) {
      case AucOptions::Summation::kMinoring:
        return (width * Minimum(left, right)).Reduce("Sum", {0});
      case AucOptions::Summation::kMajoring:
        return (width * Maximum(left, right)).Reduce("Sum", {0});
      case AucOptions::Summation::kTrapezoidal:
        break;
    }
    return (width * ((left + right) / 2.0)).Reduce("Sum", {0});
  });
}

Metric SensitivityAtSpecificity(const Scope& scope, const Output& labels, const Output& predictions,
                                double specificity, const AucOptions& options) {
  return AtRate(scope, "sensitivity_at_specificity", labels, predictions, specificity, options, true);
}
Metric SpecificityAtSensitivity(const Scope& scope, const Output& labels, const Output& predictions,
                                double sensitivity, const AucOptions& options) {
  return AtRate(scope, "specificity_at_sensitivity", labels, predictions, sensitivity, options, false);
}

}  // namespace millrace::metrics
