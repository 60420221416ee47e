// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/losses.h"

#include "millrace/meta_graph.h"
#include "millrace/ops.h"
#include "training/formula.h"
#include "training/weights.h"

namespace millrace::losses {
namespace {

Formula Where(const Output& condition, const Formula& x, const Formula& y) {
  return {x.scope(), AddOp(x.scope(), "Select", {condition, x, y})};
}

// The number of elements with a weight: one number, or one for each example, with the rank of the values.
Formula NumPresent(const Formula& values, const Formula& weights, bool per_example) {
  const Scope own = values.scope().NewSubScope("num_present");
  const Formula w(own, weights.tensor());
  const Formula has = Formula(own, Binary(own, "NotEqual", "NotEqual", w, 0.0)).To(DataType::kFloat);
  const Formula all = Broadcast(has, Formula(own, values.tensor()));
  if (!per_example) return all.Reduce("Sum");
  const int rank = own.ShapeOf(values).rank();
  std::vector<int64_t> axes;
  for (int i = 1; i < rank; ++i) axes.push_back(i);
  OpAttrs keep;
  keep.Set("keep_dims", true);
  return all.Call("Sum", Vector(own, axes), keep);
}

Output Collect(const Scope& scope, const LossOptions& options, const Output& loss) {
  if (scope.ok() && !options.collection.empty()) AddToCollection(scope, options.collection, loss);
  return scope.ok() ? loss : Output();
}

// The scope of a loss of labels and predictions, which are converted to floats of equal shapes.
struct Pair {
  Pair(const Scope& outer, const char* name, const Output& label, const Output& prediction)
      : scope(outer.NewSubScope(name)), labels(scope, {}), predictions(scope, {}) {
    scope.UpdateStatus(CheckSameShape(scope, label, prediction));
    if (!scope.ok()) return;
    labels = Formula(scope, CastTo(scope, label, DataType::kFloat));
    predictions = Formula(scope, CastTo(scope, prediction, DataType::kFloat));
  }
  Output Reduce(const Formula& losses, const LossOptions& options) const {
    return ComputeWeightedLoss(scope, losses, options);
  }
  Scope scope;
  Formula labels;
  Formula predictions;
};

}  // namespace

Output ComputeWeightedLoss(const Scope& scope, const Output& losses, const LossOptions& options) {
  if (!scope.ok()) return {};
  const Scope own = scope.NewSubScope("weighted_loss");
  const DataType dtype = Scope::TypeOf(losses);
  const Formula values(own, CastTo(own, losses, DataType::kFloat));
  const Formula weights = WeightsFor(own, options.weights, losses);
  if (!scope.ok()) return {};
  const Formula weighted = values * weights;
  if (options.reduction == Reduction::kNone) return Collect(own, options, CastTo(own, weighted, dtype));
  Formula loss = weighted.Reduce("Sum");
  const auto over = [&](const Formula& number) -> Formula {
    return {own, AddOp(own.WithOpName("value"), "DivNoNan", {loss, number})};
  };
  switch (options.reduction) {
    case Reduction::kMean:
      loss = over(Broadcast(weights, values).Reduce("Sum"));
      break;
    case Reduction::kSumByNonzeroWeights:
      loss = over(NumPresent(values, weights, /*per_example=*/false));
      break;
    case Reduction::kSumOverBatchSize:
      loss = over(values.Call("Size").To(DataType::kFloat));
      break;
    case Reduction::kSum:
    case Reduction::kNone:
      break;
  }
  return Collect(own, options, CastTo(own, loss, dtype));
}

Output AbsoluteDifference(const Scope& scope, const Output& labels, const Output& predictions,
                          const LossOptions& options) {
  const Pair p(scope, "absolute_difference", labels, predictions);
  return p.Reduce((p.predictions - p.labels).Call("Abs"), options);
}

Output MeanSquaredError(const Scope& scope, const Output& labels, const Output& predictions,
                        const LossOptions& options) {
  const Pair p(scope, "mean_squared_error", labels, predictions);
  return p.Reduce(p.predictions.Call("SquaredDifference", p.labels.tensor()), options);
}

Output MeanPairwiseSquaredError(const Scope& scope, const Output& labels, const Output& predictions,
                                const LossOptions& options) {
  const Pair p(scope, "mean_pairwise_squared_error", labels, predictions);
  if (scope.ok() && p.scope.ShapeOf(labels).rank() < 1) {
    scope.UpdateStatus(errors::InvalidArgument("mean_pairwise_squared_error: the rank is not known, or 0"));
  }
  if (!scope.ok()) return {};
  const Formula differences = p.predictions - p.labels;
  const int rank = p.scope.ShapeOf(labels).rank();
  Output given = AsTensor(p.scope, "weights", options.weights, DataType::kFloat);
  // One weight per example is broadcast over the example.
  if (p.scope.ShapeOf(given).rank() == 1 && rank > 1) {
    std::vector<int64_t> shape(static_cast<size_t>(rank), 1);
    shape[0] = -1;
    given = ops::Reshape(p.scope, given, Vector(p.scope, shape));
  }
  const Formula weights = WeightsFor(p.scope, given, differences);
  std::vector<int64_t> axes;
  for (int i = 1; i < rank; ++i) axes.push_back(i);
  const Output inner = Vector(p.scope, axes);
  OpAttrs keep;
  keep.Set("keep_dims", true);
  const Formula present = NumPresent(differences, weights, /*per_example=*/true);
  const Formula squares = differences.Call("Square").Call("Sum", inner, keep);
  const Formula sums = differences.Call("Sum", inner, keep).Call("Square");
  const Formula first = 2 * DivNoNan(squares, Maximum(present - 1, 0.0));
  const Formula second = 2 * DivNoNan(sums, Maximum(present * (present - 1), 0.0));
  const Formula loss = ((first - second) * weights).Reduce("Sum");
  const Output any = Binary(p.scope, "Greater", "Greater", present.Reduce("Sum"), 0.0);
  const Output value = AddOp(p.scope.WithOpName("value"), "Select", {any, loss, loss.Call("ZerosLike")});
  return Collect(p.scope, options, value);
}

Output CosineDistance(const Scope& scope, const Output& labels, const Output& predictions, int64_t axis,
                      const LossOptions& options) {
  const Pair p(scope, "cosine_distance_loss", labels, predictions);
  return p.Reduce(1.0 - (p.predictions * p.labels).Reduce("Sum", {axis}, /*keep_dims=*/true), options);
}

Output HingeLoss(const Scope& scope, const Output& labels, const Output& logits, const LossOptions& options) {
  const Pair p(scope, "hinge_loss", labels, logits);
  return p.Reduce((1.0 - (2 * p.labels - 1.0) * p.predictions).Call("Relu"), options);
}

Output HuberLoss(const Scope& scope, const Output& labels, const Output& predictions, double delta,
                 const LossOptions& options) {
  const Pair p(scope, "huber_loss", labels, predictions);
  const Formula error = (p.predictions - p.labels).Call("Abs");
  const Formula quadratic = Minimum(error, delta);
  const Formula linear = error - quadratic;
  return p.Reduce(0.5 * quadratic * quadratic + delta * linear, options);
}

Output LogLoss(const Scope& scope, const Output& labels, const Output& predictions, double epsilon,
               const LossOptions& options) {
  const Pair p(scope, "log_loss", labels, predictions);
  const Formula yes = p.labels * (p.predictions + epsilon).Call("Log");
  const Formula no = (1.0 - p.labels) * (1.0 - p.predictions + epsilon).Call("Log");
  return p.Reduce(yes.Call("Neg") - no, options);
}

Output SigmoidCrossEntropy(const Scope& scope, const Output& labels, const Output& logits,
                           double label_smoothing, const LossOptions& options) {
  const Pair p(scope, "sigmoid_cross_entropy_loss", labels, logits);
  if (!scope.ok()) return {};
  Formula wanted = p.labels;
  if (label_smoothing > 0) wanted = wanted * (1 - label_smoothing) + 0.5 * label_smoothing;
  // max(x, 0) - x z + log(1 + exp(-|x|)), with derivatives at 0.
  const Formula& x = p.predictions;
  const Output positive = Binary(p.scope, "GreaterEqual", "GreaterEqual", x, 0.0);
  const Formula negative = x.Call("Neg");
  const Formula relu = Where(positive, x, x.Call("ZerosLike"));
  const Formula rest = Where(positive, negative, x).Call("Exp").Call("Log1p");
  return p.Reduce(relu - x * wanted + rest, options);
}

Output SoftmaxCrossEntropy(const Scope& scope, const Output& labels, const Output& logits,
                           double label_smoothing, const LossOptions& options) {
  const Pair p(scope, "softmax_cross_entropy_loss", labels, logits);
  if (!scope.ok()) return {};
  Formula wanted = p.labels;
  if (label_smoothing > 0) {
    const PartialShape shape = p.scope.ShapeOf(labels);
    const int64_t classes = shape.rank() < 2 ? -1 : shape.dim(1);
    if (classes < 1) {
      scope.UpdateStatus(errors::InvalidArgument(
          "softmax_cross_entropy_loss: smoothing of labels needs a known number of classes"));
      return {};
    }
    wanted = wanted * (1 - label_smoothing) + label_smoothing / static_cast<double>(classes);
  }
  // No gradients for the labels.
  const Output fixed = ops::StopGradient(p.scope, wanted.tensor());
  const ops::SoftmaxCrossEntropyWithLogits entropy(p.scope.WithOpName("xentropy"), p.predictions.tensor(),
                                                   fixed);
  return p.Reduce(Formula(p.scope, entropy.loss), options);
}

Output SparseSoftmaxCrossEntropy(const Scope& scope, const Output& labels, const Output& logits,
                                 const LossOptions& options) {
  if (!scope.ok()) return {};
  const Scope own = scope.NewSubScope("sparse_softmax_cross_entropy_loss");
  const Scope xentropy = own.NewSubScope("xentropy");
  const ops::SparseSoftmaxCrossEntropyWithLogits entropy(xentropy.WithOpName("xentropy"), logits, labels);
  return ComputeWeightedLoss(own, entropy.loss, options);
}

std::vector<Output> GetLosses(const Scope& scope) { return CollectedTensors(scope, graph_keys::kLosses); }

std::vector<Output> GetRegularizationLosses(const Scope& scope) {
  return CollectedTensors(scope, graph_keys::kRegularizationLosses);
}

namespace {

Output Sum(const Scope& scope, const char* name, const std::vector<Output>& losses) {
  if (!scope.ok()) return {};
  if (losses.empty()) return ops::Const(scope.WithOpName(name), 0.0f);
  return ops::AddN(scope.WithOpName(name), InputList(losses));
}

}  // namespace

Output GetRegularizationLoss(const Scope& scope) {
  return Sum(scope, "total_regularization_loss", GetRegularizationLosses(scope));
}

Output GetTotalLoss(const Scope& scope, const TotalLossOptions& options) {
  std::vector<Output> all = GetLosses(scope);
  if (options.add_regularization_losses) {
    const std::vector<Output> more = GetRegularizationLosses(scope);
    all.insert(all.end(), more.begin(), more.end());
  }
  return Sum(scope, "total_loss", all);
}

}  // namespace millrace::losses
