// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "cc/scope_state.h"
#include "millrace/gradients.h"
#include "millrace/ops.h"
#include "millrace/optimizers.h"

namespace millrace {
namespace {

// Literals become float constants, whatever they were: 1, 0.5, 0.5f.
StatusOr<float> FloatOf(const Literal& literal) {
  MR_RETURN_IF_ERROR(literal.status());
  const Tensor& value = literal.tensor();
  if (value.num_elements() == 1) {
    if (value.dtype() == DataType::kFloat) return *value.data<float>();
    if (value.dtype() == DataType::kDouble) return static_cast<float>(*value.data<double>());
    if (value.dtype() == DataType::kInt32) return static_cast<float>(*value.data<int32_t>());
  }
  return errors::InvalidArgument("wanted one number, got ", value.DebugString());
}

Output MakeParameter(const Scope& scope, const char* name, const Input& value) {
  if (value.literal() == nullptr) return value.output();
  const auto number = FloatOf(*value.literal());
  if (number.ok()) return ops::Const(scope.WithOpName(name), *number);
  scope.UpdateStatus(number.status().WithContext(StrCat("; in ", name, " of '", scope.path(), "'")));
  return {};
}

// A variable like `primary` that begins with `value` everywhere and is not trained.
GraphVariable MakeSlot(const Scope& scope, const GraphVariable& primary, const std::string& optimizer,
                       float value) {
  const std::string name = scope.state().UniqueName(StrCat(primary.name(), "/", optimizer));
  const Scope beside = scope.AtRoot().WithNoControlDependencies().ColocateWith(primary.ref());
  const auto shape = scope.ShapeOf(primary.ref()).ToTensorShape();
  if (!shape.ok()) {
    scope.UpdateStatus(shape.status().WithContext(StrCat("; in variable '", name, "'")));
    return {};
  }
  const std::vector<int32_t> dims(shape->dims().begin(), shape->dims().end());
  const Scope initializer = beside.NewSubScope(name + "/Initializer");
  const Output dims_tensor = ops::Const(initializer.WithOpName("shape"), Tensor::Vector(dims));
  const std::string name_of_value = value == 0 ? "zero" : "value";
  Output first = ops::Const(initializer.WithOpName(name_of_value), value);
  const DataType dtype = Scope::TypeOf(primary.ref());
  if (dtype != DataType::kFloat) {
    first = ops::Cast(initializer.WithOpName(name_of_value + "_cast"), first, dtype);
  }
  const Output values = ops::Fill(initializer.WithOpName(name_of_value + "s"), dims_tensor, first);
  return GraphVariable(beside.WithOpName(name), values, {.trainable = false});
}

}  // namespace

Output Optimizer::Step::Scalar(const Output& scalar, const GraphVariable& variable) const {
  const DataType wanted = Scope::TypeOf(variable.ref());
  return Scope::TypeOf(scalar) == wanted ? scalar : ops::Cast(scope, scalar, wanted).y;
}

Operation Optimizer::Minimize(const Scope& scope, const Output& loss,
                              const std::vector<GraphVariable>& variables) const {
  return ApplyGradients(scope, ComputeGradients(scope, loss, variables));
}

std::vector<GradientAndVariable> Optimizer::ComputeGradients(
    const Scope& scope, const Output& loss, const std::vector<GraphVariable>& variables) const {
  const std::vector<GraphVariable> chosen = variables.empty() ? TrainableVariables(scope) : variables;
  if (chosen.empty()) scope.UpdateStatus(errors::InvalidArgument(name_, ": no variables to optimize"));
  std::vector<Output> xs(chosen.begin(), chosen.end());
  std::vector<Output> gradients;
  if (!AddSymbolicGradients(scope, {loss}, xs, &gradients).ok()) return {};
  std::vector<GradientAndVariable> result;
  for (size_t i = 0; i < chosen.size(); ++i) result.push_back({gradients[i], chosen[i]});
  return result;
}

Status Optimizer::CheckGradients(const std::vector<GradientAndVariable>& gradients) const {
  for (const auto& [gradient, variable] : gradients) {
    if (!variable.ref().IsSet()) return errors::InvalidArgument(name_, ": a variable is unset");
    if (!gradient.IsSet() || Scope::TypeOf(gradient) == Scope::TypeOf(variable.ref())) continue;
    return errors::InvalidArgument(name_, ": the gradient of variable '", variable.name(), "' is ",
                                   Scope::TypeOf(gradient), ", wanted ", Scope::TypeOf(variable.ref()));
  }
  const bool any = std::any_of(gradients.begin(), gradients.end(),
                               [](const GradientAndVariable& g) { return g.gradient.IsSet(); });
  return any ? Status() : errors::InvalidArgument(name_, ": no gradients provided for any variable");
}

Operation Optimizer::UpdateVariable(const Scope& ready, const Step& step,
                                    const GradientAndVariable& gradient) const {
  const GraphVariable& variable = gradient.variable;
  std::vector<GraphVariable> slots;
  for (int i = 0; i < num_slots(); ++i)
    slots.push_back(MakeSlot(step.scope, variable, name_, first_value(i)));
  if (!step.scope.ok()) return Operation();
  return Update(ready.NewSubScope(StrCat("update_", variable.name())).ColocateWith(variable.ref()), step,
                gradient, slots);
}

Operation Optimizer::ApplyGradients(const Scope& scope,
                                    const std::vector<GradientAndVariable>& gradients) const {
  if (scope.ok()) scope.UpdateStatus(CheckGradients(gradients));
  if (!scope.ok()) return Operation();
  Step step{.scope = scope.NewSubScope(name_), .parameters = {}, .state = {}};
  for (const Parameter& parameter : parameters_) {
    step.parameters.push_back(MakeParameter(step.scope, parameter.name, parameter.value));
  }
  Prepare(scope, step);

  std::vector<Operation> needed;
  for (const GradientAndVariable& gradient : gradients) {
    if (gradient.gradient.IsSet()) needed.emplace_back(gradient.gradient);
  }
  const ops::NoOp gradients_ready(step.scope.WithOpName("gradients_ready").WithControlDependencies(needed));
  if (!scope.ok()) return Operation();
  const Scope ready = step.scope.WithControlDependencies({gradients_ready});
  std::vector<Operation> done;
  for (const GradientAndVariable& gradient : gradients) {
    if (gradient.gradient.IsSet()) done.push_back(UpdateVariable(ready, step, gradient));
  }
  if (!scope.ok()) return Operation();
  for (const Operation& last : Finish(step.scope.WithControlDependencies(done), step)) done.push_back(last);
  if (!scope.ok()) return Operation();
  return ops::NoOp(step.scope.WithOpName("/").WithControlDependencies(done));
}

Operation GradientDescentOptimizer::Update(const Scope& scope, const Step& step,
                                           const GradientAndVariable& gradient,
                                           const std::vector<GraphVariable>& /*slots*/) const {
  const GraphVariable& w = gradient.variable;
  return ops::ApplyGradientDescent(scope, w.ref(), step.Scalar(step.parameters[0], w), gradient.gradient);
}

Operation MomentumOptimizer::Update(const Scope& scope, const Step& step, const GradientAndVariable& gradient,
                                    const std::vector<GraphVariable>& slots) const {
  const GraphVariable& w = gradient.variable;
  return ops::ApplyMomentum(scope, w.ref(), slots[0].ref(), step.Scalar(step.parameters[0], w),
                            gradient.gradient, step.Scalar(step.parameters[1], w),
                            ops::ApplyMomentum::UseNesterov(options_.use_nesterov));
}

void AdamOptimizer::Prepare(const Scope& scope, Step& step) const {
  const Scope outside = scope.WithNoControlDependencies();
  for (const int beta : {1, 2}) {
    step.state.emplace_back(outside.WithOpName(StrCat("beta", beta, "_power")),
                            step.parameters[static_cast<size_t>(beta)],
                            GraphVariable::Options{.trainable = false});
  }
}

Operation AdamOptimizer::Update(const Scope& scope, const Step& step, const GradientAndVariable& gradient,
                                const std::vector<GraphVariable>& slots) const {
  const GraphVariable& w = gradient.variable;
  return ops::ApplyAdam(scope, w.ref(), slots[0].ref(), slots[1].ref(), step.Scalar(step.state[0].value(), w),
                        step.Scalar(step.state[1].value(), w), step.Scalar(step.parameters[0], w),
                        step.Scalar(step.parameters[1], w), step.Scalar(step.parameters[2], w),
                        step.Scalar(step.parameters[3], w), gradient.gradient);
}

std::vector<Operation> AdamOptimizer::Finish(const Scope& scope, const Step& step) const {
  std::vector<Operation> updates;
  for (size_t i = 0; i < step.state.size(); ++i) {
    const GraphVariable& power = step.state[i];
    const Scope beside = scope.ColocateWith(power.ref());
    const Output next = ops::Mul(beside, power.value(), step.parameters[i + 1]);
    updates.push_back(ops::Assign(beside, power.ref(), next));
  }
  return updates;
}

Operation AdagradOptimizer::Update(const Scope& scope, const Step& step, const GradientAndVariable& gradient,
                                   const std::vector<GraphVariable>& slots) const {
  const GraphVariable& w = gradient.variable;
  return ops::ApplyAdagrad(scope, w.ref(), slots[0].ref(), step.Scalar(step.parameters[0], w),
                           gradient.gradient);
}

Operation AdadeltaOptimizer::Update(const Scope& scope, const Step& step, const GradientAndVariable& gradient,
                                    const std::vector<GraphVariable>& slots) const {
  const GraphVariable& w = gradient.variable;
  return ops::ApplyAdadelta(scope, w.ref(), slots[0].ref(), slots[1].ref(),
                            step.Scalar(step.parameters[0], w), step.Scalar(step.parameters[1], w),
                            step.Scalar(step.parameters[2], w), gradient.gradient);
}

Operation RmsPropOptimizer::Update(const Scope& scope, const Step& step, const GradientAndVariable& gradient,
                                   const std::vector<GraphVariable>& slots) const {
  const GraphVariable& w = gradient.variable;
  return ops::ApplyRMSProp(scope, w.ref(), slots[0].ref(), slots[1].ref(), step.Scalar(step.parameters[0], w),
                           step.Scalar(step.parameters[1], w), step.Scalar(step.parameters[2], w),
                           step.Scalar(step.parameters[3], w), gradient.gradient);
}

Operation FtrlOptimizer::Update(const Scope& scope, const Step& step, const GradientAndVariable& gradient,
                                const std::vector<GraphVariable>& slots) const {
  const GraphVariable& w = gradient.variable;
  return ops::ApplyFtrl(scope, w.ref(), slots[0].ref(), slots[1].ref(), gradient.gradient,
                        step.Scalar(step.parameters[0], w), step.Scalar(step.parameters[1], w),
                        step.Scalar(step.parameters[2], w), step.Scalar(step.parameters[3], w));
}

}  // namespace millrace
