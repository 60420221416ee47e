// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "training/weights.h"

namespace millrace {

Status CheckWeights(const PartialShape& weights, const PartialShape& values) {
  if (weights.rank() == 0 || weights.unknown_rank() || values.unknown_rank()) return Status();
  bool fits = weights.rank() == values.rank();
  for (int i = 0; fits && i < weights.rank(); ++i) {
    const int64_t w = weights.dim(i), v = values.dim(i);
    fits = w == 1 || w == v || w < 0 || v < 0;
  }
  if (fits) return Status();
  return errors::InvalidArgument("weights can not be broadcast to values. values.shape=", values,
                                 ". weights.shape=", weights, ".");
}

Formula WeightsFor(const Scope& scope, const Input& weights, const Output& values) {
  const Output given = AsTensor(scope, "weights", weights, DataType::kFloat);
  scope.UpdateStatus(CheckWeights(scope.ShapeOf(given), scope.ShapeOf(values)));
  return {scope, CastTo(scope, given, DataType::kFloat)};
}

Formula Broadcast(const Formula& weights, const Formula& values) {
  return weights * values.Call("OnesLike").To(weights.dtype());
}

Status CheckSameShape(const Scope& scope, const Output& a, const Output& b) {
  MR_RETURN_IF_ERROR(scope.status());
  if (!a.IsSet() || !b.IsSet()) return errors::InvalidArgument("labels or predictions are unset");
  const PartialShape left = scope.ShapeOf(a), right = scope.ShapeOf(b);
  if (left.IsCompatibleWith(right)) return Status();
  return errors::InvalidArgument("Shapes ", left, " and ", right, " are incompatible");
}

}  // namespace millrace
