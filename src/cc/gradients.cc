// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/gradients.h"

#include "autodiff/add_gradients.h"
#include "cc/control_flow_context.h"
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
  const int first_new = state.graph.num_node_ids();
  const Status status = AddGradients(&state.graph, ys, xs, grad_ys, options, grads);
  if (scope.context() != nullptr) {
    for (int id = first_new; id < state.graph.num_node_ids(); ++id) {
      if (Node* node = state.graph.node(id); node != nullptr) scope.context()->Own(node);
    }
  }
  scope.UpdateStatus(status);
  return status;
}

}  // namespace millrace
