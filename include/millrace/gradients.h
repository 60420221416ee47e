// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "millrace/output.h"
#include "millrace/scope.h"
#include "millrace/status.h"

namespace millrace {

// Adds the nodes that compute, for each x, the derivative of the sum of all ys with respect to x, under
// "gradients" in the scope. (*grads)[i] belongs to xs[i]; it is unset where no y depends on that x in a way
// that can be differentiated. Errors are also put into the scope's status.
Status AddSymbolicGradients(const Scope& scope, const std::vector<Output>& ys, const std::vector<Output>& xs,
                            std::vector<Output>* grads);
// With the gradient that arrives at each y (unset: ones).
Status AddSymbolicGradients(const Scope& scope, const std::vector<Output>& ys, const std::vector<Output>& xs,
                            const std::vector<Output>& grad_ys, std::vector<Output>* grads);

}  // namespace millrace
