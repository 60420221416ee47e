// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "millrace/scope.h"
#include "training/formula.h"

// The weights of losses and metrics.
namespace millrace {

// Whether weights may be multiplied with values: a scalar, or the same rank with equal sizes or 1.
Status CheckWeights(const PartialShape& weights, const PartialShape& values);
// The weights as a float tensor called "weights"; an error of shapes is set in the scope's status.
Formula WeightsFor(const Scope& scope, const Input& weights, const Output& values);
// One weight for each value.
Formula Broadcast(const Formula& weights, const Formula& values);
// Whether two tensors may have equal shapes: "Shapes (2,) and (3,) are incompatible" otherwise.
Status CheckSameShape(const Scope& scope, const Output& a, const Output& b);

}  // namespace millrace
