// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "cc/scope_state.h"
#include "millrace/gradients.h"
#include "millrace/ops.h"
#include "millrace/optimizers.h"
#include "training/apply.h"

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

// A variable like `primary` that begins with `value` everywhere and is not trained; a slot of a part is saved
// as a part of the whole variable's slot.
GraphVariable MakeSlot(const Scope& scope, const GraphVariable& primary, const std::string& optimizer,
                       float value) {
  const std::string name = scope.state().UniqueName(StrCat(primary.name(), "/", optimizer));
  const auto shape = scope.ShapeOf(primary.is_resource() ? primary.value() : primary.ref()).ToTensorShape();
  if (!shape.ok()) {
    scope.UpdateStatus(shape.status().WithContext(StrCat("; in variable '", name, "'")));
    return {};
  }
  GraphVariable::Options options{.trainable = false, .resource = primary.is_resource()};
  if (primary.slice() != nullptr) {
    options.slice = *primary.slice();
    options.slice->full_name += name.substr(primary.name().size());
  }
  const Scope beside = scope.OutsideControlFlow().AtRoot().ColocateWith(primary.ref());
  return GraphVariable(beside.WithOpName(name), InitialValue{.shape = *shape, .dtype = primary.dtype()},
                       value == 0   ? initializers::Zeros()
                       : value == 1 ? initializers::Ones()
                                    : initializers::Constant(value),
                       options);
}

}  // namespace

Output Optimizer::Step::Scalar(const Output& scalar, const GraphVariable& variable) const {
  const DataType wanted = variable.dtype();
  return Scope::TypeOf(scalar) == wanted ? scalar : ops::Cast(scope, scalar, wanted).y;
}

std::vector<Input> Optimizer::Scalars(const Step& step, const GraphVariable& variable) {
  std::vector<Input> scalars;
  for (const Output& parameter : step.parameters) scalars.emplace_back(step.Scalar(parameter, variable));
  return scalars;
}

Operation Optimizer::Minimize(const Scope& scope, const Output& loss,
                              const std::vector<GraphVariable>& variables) const {
  return ApplyGradients(scope, ComputeGradients(scope, loss, variables));
}

std::vector<GradientAndVariable> Optimizer::ComputeGradients(
    const Scope& scope, const Output& loss, const std::vector<GraphVariable>& variables) const {
  const std::vector<GraphVariable> chosen = variables.empty() ? TrainableVariables(scope) : variables;
  if (chosen.empty()) scope.UpdateStatus(errors::InvalidArgument(name_, ": no variables to optimize"));
  std::vector<Output> xs;
  for (const GraphVariable& variable : chosen) xs.push_back(variable.ref());
  std::vector<GradientValue> gradients;
  if (!AddSymbolicGradients(scope, {loss}, xs, GradientSettings(), &gradients).ok()) return {};
  std::vector<GradientAndVariable> result;
  for (size_t i = 0; i < chosen.size(); ++i) result.push_back({gradients[i], chosen[i]});
  return result;
}

Status Optimizer::CheckGradients(const std::vector<GradientAndVariable>& gradients) const {
  for (const auto& [gradient, variable] : gradients) {
    if (!variable.ref().IsSet()) return errors::InvalidArgument(name_, ": a variable is unset");
    if (!gradient.IsSet() || Scope::TypeOf(gradient.values()) == variable.dtype()) continue;
    return errors::InvalidArgument(name_, ": the gradient of variable '", variable.name(), "' is ",
                                   Scope::TypeOf(gradient.values()), ", wanted ", variable.dtype());
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
    if (!gradient.gradient.IsSet()) continue;
    needed.emplace_back(gradient.gradient.values());
    if (gradient.gradient.IsSlices()) needed.emplace_back(gradient.gradient.slices.indices);
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
                                           const std::vector<GraphVariable>& slots) const {
  const GraphVariable& w = gradient.variable;
  const Output rate = step.Scalar(step.parameters[0], w);
  if (!gradient.gradient.IsSlices())
    return Apply(scope, gradient, slots, {"GradientDescent", {rate}, {}, {}});
  IndexedSlices delta = gradient.gradient.slices;
  delta.values = ops::Mul(scope, delta.values, rate);
  VariableChanges changes(scope, w);
  changes.SubtractRows(delta);
  return changes.Done();
}

Operation MomentumOptimizer::Update(const Scope& scope, const Step& step, const GradientAndVariable& gradient,
                                    const std::vector<GraphVariable>& slots) const {
  const GraphVariable& w = gradient.variable;
  OpAttrs attrs;
  attrs.Set("use_nesterov", options_.use_nesterov);
  return Apply(
      scope, gradient, slots,
      {"Momentum", {step.Scalar(step.parameters[0], w)}, {step.Scalar(step.parameters[1], w)}, attrs});
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
  if (gradient.gradient.IsSlices()) return UpdateRows(scope, step, gradient, slots);
  const GraphVariable& w = gradient.variable;
  std::vector<Input> before = {step.Scalar(step.state[0].value(), w), step.Scalar(step.state[1].value(), w)};
  for (size_t i = 0; i < 4; ++i) before.emplace_back(step.Scalar(step.parameters[i], w));
  return Apply(scope, gradient, slots, {"Adam", before, {}, {}});
}

// The moments of all rows fade, those of the rows also get their gradient, and all rows move by them.
Operation AdamOptimizer::UpdateRows(const Scope& scope, const Step& step, const GradientAndVariable& gradient,
                                    const std::vector<GraphVariable>& slots) const {
  const GraphVariable& w = gradient.variable;
  const auto number = [&](const Output& scalar) { return step.Scalar(scalar, w); };
  const Output one = step.Scalar(ops::Const(scope, 1.f), w);
  const Output beta1 = number(step.parameters[1]), beta2 = number(step.parameters[2]);
  const IndexedSlices rows = WithoutRepeats(scope, gradient.gradient.slices);
  const auto moment = [&](const GraphVariable& slot, const Output& beta, const Output& values) {
    VariableChanges changes(scope, slot);
    changes.Assign(ops::Mul(scope, changes.Value(), beta));
    changes.AddRows({ops::Mul(scope, values, ops::Sub(scope, one, beta)), rows.indices, {}});
    return changes.Value();
  };
  const Output m = moment(slots[0], beta1, rows.values);
  const Output v = moment(slots[1], beta2, ops::Square(scope, rows.values).y);
  const Output correction =
      ops::Div(scope, ops::Sqrt(scope, ops::Sub(scope, one, number(step.state[1].value()))).y,
               ops::Sub(scope, one, number(step.state[0].value())));
  const Output rate = ops::Mul(scope, number(step.parameters[0]), correction);
  const Output size = ops::Add(scope, ops::Sqrt(scope, v).y, number(step.parameters[3]));
  VariableChanges changes(scope, w);
  changes.Subtract(ops::Div(scope, ops::Mul(scope, rate, m), size));
  return changes.Done();
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
  return Apply(scope, gradient, slots,
               {"Adagrad", {step.Scalar(step.parameters[0], gradient.variable)}, {}, {}});
}

Operation AdadeltaOptimizer::Update(const Scope& scope, const Step& step, const GradientAndVariable& gradient,
                                    const std::vector<GraphVariable>& slots) const {
  return Apply(scope, gradient, slots, {"Adadelta", Scalars(step, gradient.variable), {}, {}});
}

Operation RmsPropOptimizer::Update(const Scope& scope, const Step& step, const GradientAndVariable& gradient,
                                   const std::vector<GraphVariable>& slots) const {
  return Apply(scope, gradient, slots, {"RMSProp", Scalars(step, gradient.variable), {}, {}});
}

Operation FtrlOptimizer::Update(const Scope& scope, const Step& step, const GradientAndVariable& gradient,
                                const std::vector<GraphVariable>& slots) const {
  return Apply(scope, gradient, slots, {"Ftrl", {}, Scalars(step, gradient.variable), {}});
}

}  // namespace millrace
