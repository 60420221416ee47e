// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "millrace/output.h"
#include "millrace/scope.h"

// The losses of tf.losses, which training minimises. Each is weighted, reduced to a scalar (unless an option
// disables this) and added to a collection, which GetTotalLoss sums up. Errors go to the scope's status;
// results are unset then.
namespace millrace::losses {

enum class Reduction {
  kNone,  // one loss for each element
  kSum,
  kMean,                 // the sum divided by the sum of the weights
  kSumOverBatchSize,     // the sum divided by the number of elements
  kSumByNonzeroWeights,  // the sum divided by the number of elements with a nonzero weight
};

struct LossOptions {
  // A scalar, or a tensor with the rank of the losses and sizes equal to theirs or 1.
  Input weights = 1.0f;
  Reduction reduction = Reduction::kSumByNonzeroWeights;
  std::string collection = "losses";  // "": none
};

// losses * weights, reduced; a float.
Output ComputeWeightedLoss(const Scope& scope, const Output& losses, const LossOptions& options = {});

// |predictions - labels|, (predictions - labels)^2: of equal shapes.
Output AbsoluteDifference(const Scope& scope, const Output& labels, const Output& predictions,
                          const LossOptions& options = {});
Output MeanSquaredError(const Scope& scope, const Output& labels, const Output& predictions,
                        const LossOptions& options = {});
// The mean of the squared differences between all pairs of elements of an example, for each example of the
// batch. The weights are a scalar, or one for each example.
Output MeanPairwiseSquaredError(const Scope& scope, const Output& labels, const Output& predictions,
                                const LossOptions& options = {});
// 1 - sum(labels * predictions) over an axis, which gets size 1; both must have unit norm along it.
Output CosineDistance(const Scope& scope, const Output& labels, const Output& predictions, int64_t axis,
                      const LossOptions& options = {});
// max(0, 1 - (2 labels - 1) logits); labels are 0 or 1.
Output HingeLoss(const Scope& scope, const Output& labels, const Output& logits,
                 const LossOptions& options = {});
// x^2 / 2 for differences |x| up to delta, delta |x| - delta^2 / 2 beyond.
Output HuberLoss(const Scope& scope, const Output& labels, const Output& predictions, double delta = 1,
                 const LossOptions& options = {});
// -labels log(predictions + epsilon) - (1 - labels) log(1 - predictions + epsilon).
Output LogLoss(const Scope& scope, const Output& labels, const Output& predictions, double epsilon = 1e-7,
               const LossOptions& options = {});
// For independent classes; labels are moved towards 1/2 by label_smoothing.
Output SigmoidCrossEntropy(const Scope& scope, const Output& labels, const Output& logits,
                           double label_smoothing = 0, const LossOptions& options = {});
// For exclusive classes; labels are probabilities [batch, classes], moved towards 1 / classes.
Output SoftmaxCrossEntropy(const Scope& scope, const Output& labels, const Output& logits,
                           double label_smoothing = 0, const LossOptions& options = {});
// For exclusive classes; labels are class indices [batch].
Output SparseSoftmaxCrossEntropy(const Scope& scope, const Output& labels, const Output& logits,
                                 const LossOptions& options = {});

// All losses of the graph, without those of regularizers.
std::vector<Output> GetLosses(const Scope& scope);
std::vector<Output> GetRegularizationLosses(const Scope& scope);
// Their sum, 0 if there are none.
Output GetRegularizationLoss(const Scope& scope);
struct TotalLossOptions {
  bool add_regularization_losses = true;
};
// The sum of all of them.
Output GetTotalLoss(const Scope& scope, const TotalLossOptions& options = {});

}  // namespace millrace::losses
