// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/gradients.h"

#include "autodiff/add_gradients.h"
#include "cc/scope_state.h"

namespace millrace {

Status AddSymbolicGradients(const Scope& scope, const std::vector<Output>& ys, const std::vector<Output>& xs,
                            std::vector<Output>* grads) {
  return AddSymbolicGradients(scope, ys, xs, {}, grads);
}

Status AddSymbolicGradients(const Scope& scope, const std::vector<Output>& ys, const std::vector<Output>& xs,
                            const std::vector<Output>& grad_ys, std::vector<Output>* grads) {
  grads->clear();
  MR_RETURN_IF_ERROR(scope.status());
  Scope::State& state = scope.state();
  GradientOptions options;
  options.scope = scope.path().empty() ? "gradients" : StrCat(scope.path(), "/gradients");
  options.shapes = &state.shapes;
  const Status status = AddGradients(&state.graph, ys, xs, grad_ys, options, grads);
  scope.UpdateStatus(status);
  return status;
}

}  // namespace millrace
