// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "millrace/gradient_value.h"
#include "millrace/optimizers.h"
#include "millrace/scope.h"

// Clipping of gradients, and accumulation of gradients over several batches. A gradient may be a tensor,
// slices (their values are used), or unset, which is returned unset. Errors go to the scope's status.
namespace millrace {

// min(max(g, low), high) for each element.
GradientValue ClipByValue(const Scope& scope, const GradientValue& gradient, const Input& low,
                          const Input& high);
// Scaled so that the Euclidean norm, over all elements or over `axes`, is at most `norm`.
GradientValue ClipByNorm(const Scope& scope, const GradientValue& gradient, const Input& norm,
                         const std::vector<int64_t>& axes = {});
// Scaled so that the norm divided by the number of elements is at most `norm`.
Output ClipByAverageNorm(const Scope& scope, const Output& tensor, const Input& norm);
// The Euclidean norm of all gradients together. InvalidArgument when none is set.
Output GlobalNorm(const Scope& scope, const std::vector<GradientAndVariable>& gradients);

struct ClippedGradients {
  std::vector<GradientAndVariable> gradients;
  Output norm;  // before clipping
};
// All scaled by one factor, so that the global norm is at most `norm`. If the norm is not finite, the results
// are NaN.
ClippedGradients ClipByGlobalNorm(const Scope& scope, const std::vector<GradientAndVariable>& gradients,
                                  const Input& norm);

// Accumulates gradients of several small batches as of one large batch: run `accumulate` for each of them,
// then `apply`, which passes the mean to an optimizer and resets the sums. The sums are local variables
// "W/accumulated_gradient".
struct AccumulatedSteps {
  Operation accumulate;
  Operation apply;
};
// With `global_step`: `apply` increments it.
AccumulatedSteps AccumulateGradients(const Scope& scope, const Optimizer& optimizer,
                                     const std::vector<GradientAndVariable>& gradients,
                                     const GraphVariable& global_step = {});

}  // namespace millrace
