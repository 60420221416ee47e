// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/gradients.h"

#include <utility>

#include "autodiff/add_gradients.h"
#include "autodiff/gradient_context.h"
#include "cc/control_flow_context.h"
#include "cc/scope_state.h"

namespace millrace {
namespace {

GradientOptions OptionsFor(const Scope& scope) {
  GradientOptions options;
  options.scope = scope.path().empty() ? "gradients" : StrCat(scope.path(), "/gradients");
  options.shapes = &scope.state().shapes;
  return options;
}

// Calls add(graph) and makes the added nodes part of the scope's branch or loop.
template <typename F>
Status Add(const Scope& scope, F&& add) {
  MR_RETURN_IF_ERROR(scope.status());
  Graph& graph = scope.graph();
  const int first_new = graph.num_node_ids();
  Status status = add(&graph);
  if (scope.context() != nullptr) {
    for (int id = first_new; id < graph.num_node_ids(); ++id) {
      if (Node* node = graph.node(id); node != nullptr) scope.context()->Own(node);
    }
  }
  scope.UpdateStatus(status);
  return status;
}

}  // namespace

Status AddSymbolicGradients(const Scope& scope, const std::vector<Output>& ys, const std::vector<Output>& xs,
                            std::vector<Output>* grads) {
  return AddSymbolicGradients(scope, ys, xs, std::vector<Output>(), grads);
}

Status AddSymbolicGradients(const Scope& scope, const std::vector<Output>& ys, const std::vector<Output>& xs,
                            const std::vector<Output>& grad_ys, std::vector<Output>* grads) {
  if (grads == nullptr) return errors::InvalidArgument("AddSymbolicGradients: grads is null");
  grads->clear();
  return Add(scope,
             [&](Graph* graph) { return AddGradients(graph, ys, xs, grad_ys, OptionsFor(scope), grads); });
}

Status AddSymbolicGradients(const Scope& scope, const std::vector<Output>& ys, const std::vector<Output>& xs,
                            const GradientSettings& settings, std::vector<GradientValue>* grads) {
  if (grads == nullptr) return errors::InvalidArgument("AddSymbolicGradients: grads is null");
  grads->clear();
  GradientOptions options = OptionsFor(scope);
  options.stop_gradients = settings.stop_gradients;
  options.colocate = settings.colocate;
  options.gate = settings.gate;
  options.zeros = settings.zeros_for_unconnected;
  switch (settings.aggregation) {
    case GradientSettings::Aggregation::kAddN:
      break;
    case GradientSettings::Aggregation::kTree:
      options.aggregation = GradientAggregation::kTree;
      break;
    case GradientSettings::Aggregation::kAccumulateN:
      options.aggregation = GradientAggregation::kAccumulateN;
      break;
  }
  return Add(scope, [&](Graph* graph) {
    return AddGradientValues(graph, ys, xs, settings.grad_ys, options, grads);
  });
}

struct [[gnu::visibility("hidden")]] GradientCall::State {
  GradientContext& context;
  Scope scope;
  Operation operation;
};

// Calls the functions of programs.
class [[gnu::visibility("hidden")]] GradientCallAccess{public : static Status Call(
    const GradientFunction& function, GradientContext& c){GraphBuilder& builder = c.builder();
Graph& graph = builder.graph();
const Operation operation(&c.mutable_node());
Scope scope = Scope::Over(graph, builder.shapes(), builder.scope()).WithDevice(c.computation().device);
if (c.computation().colocate) scope = scope.ColocateWith(operation);
// Slices become tensors by the builder, before the function adds nodes of its own.
GradientCall::State state{c, scope, operation};
GradientCall call(state);
const int first_new = graph.num_node_ids();
Status status = function(call);
status.Update(scope.status());
builder.AdoptFrom(first_new);
return status;
}  // namespace millrace
}
;

const Scope& GradientCall::scope() const { return state_.scope; }
const Operation& GradientCall::operation() const { return state_.operation; }
int GradientCall::num_inputs() const { return state_.context.num_inputs(); }
int GradientCall::num_outputs() const { return state_.context.num_outputs(); }

Output GradientCall::input(int i) const {
  return i >= 0 && i < num_inputs() ? state_.context.input(i).output() : Output();
}
Output GradientCall::output(int i) const {
  return i >= 0 && i < num_outputs() ? state_.context.output(i).output() : Output();
}
GradientValue GradientCall::grad(int i) const {
  return i >= 0 && i < num_outputs() ? state_.context.grad_value(i) : GradientValue();
}
Output GradientCall::dense_grad(int i) {
  return i >= 0 && i < num_outputs() ? state_.context.grad(i).output() : Output();
}
bool GradientCall::wants(int i) const { return i >= 0 && i < num_inputs() && state_.context.wants(i); }

void GradientCall::SetInputGrad(int i, const GradientValue& grad) {
  GraphBuilder& builder = state_.context.builder();
  if (i < 0 || i >= num_inputs()) return builder.Fail(errors::InvalidArgument("There is no input ", i));
  const IndexedSlices& slices = grad.slices;
  for (const Output& part : {grad.dense, slices.values, slices.indices, slices.dense_shape}) {
    if (part.IsSet() && &part.node->graph() != &builder.graph()) {
      return builder.Fail(errors::InvalidArgument("The gradient of input ", i, " has '", part.node->name(),
                                                  "', a node of another graph"));
    }
  }
  state_.context.SetInputGrad(i, grad);
}

template <typename T>
StatusOr<T> GradientCall::Attr(std::string_view name) const {
  return state_.context.node().Attr<T>(name);
}
template StatusOr<bool> GradientCall::Attr(std::string_view) const;
template StatusOr<int64_t> GradientCall::Attr(std::string_view) const;
template StatusOr<float> GradientCall::Attr(std::string_view) const;
template StatusOr<std::string> GradientCall::Attr(std::string_view) const;
template StatusOr<DataType> GradientCall::Attr(std::string_view) const;
template StatusOr<PartialShape> GradientCall::Attr(std::string_view) const;
template StatusOr<std::vector<int64_t>> GradientCall::Attr(std::string_view) const;
template StatusOr<std::vector<float>> GradientCall::Attr(std::string_view) const;
template StatusOr<std::vector<std::string>> GradientCall::Attr(std::string_view) const;

Status RegisterGradient(std::string_view name, GradientFunction function) {
  if (name.empty()) return errors::InvalidArgument("RegisterGradient: the name is empty");
  if (function == nullptr) return errors::InvalidArgument("Gradient for op '", name, "' is null");
  return GradientRegistry::Global().Register(
      name, [f = std::move(function)](GradientContext& c) { return GradientCallAccess::Call(f, c); });
}

Status RegisterNotDifferentiable(std::string_view name) {
  if (name.empty()) return errors::InvalidArgument("RegisterNotDifferentiable: the name is empty");
  return GradientRegistry::Global().RegisterNotDifferentiable(name);
}

Status OverrideGradient(const Operation& operation, std::string_view name) {
  if (!operation.IsSet()) return errors::InvalidArgument("OverrideGradient: the operation is unset");
  operation.node->SetAttr("_gradient_op_type", name);
  return Status();
}

}  // namespace millrace
