// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "cc/scope_state.h"
#include "millrace/gradients.h"
#include "millrace/ops.h"
#include "millrace/optimizers.h"
#include "training/apply.h"
#include "training/formula.h"

namespace millrace {
namespace {

// Literals become float constants, whatever their type: 1, 0.5, 0.5f.
StatusOr<float> FloatOf(const Literal& literal) {
  MR_RETURN_IF_ERROR(literal.status());
  const Tensor& value = literal.tensor();
  if (value.num_elements() == 1) {
    if (value.dtype() == DataType::kFloat) return *value.data<float>();
    if (value.dtype() == DataType::kDouble) return static_cast<float>(*value.data<double>());
    if (value.dtype() == DataType::kInt32) return static_cast<float>(*value.data<int32_t>());
  }
  return errors::InvalidArgument("expected one number, got ", value.DebugString());
}

Output MakeParameter(const Scope& scope, const std::string& name, const Input& value) {
  if (value.literal() == nullptr) return value.output();
  const auto number = FloatOf(*value.literal());
  if (number.ok()) return ops::Const(scope.WithOpName(name), *number);
  scope.UpdateStatus(number.status().WithContext(StrCat("; in ", name, " of '", scope.path(), "'")));
  return {};
}

// A variable of the shape of `primary`, filled with `value`, that is not trained; a slot of a part is saved
// as a part of the whole variable's slot.
GraphVariable MakeSlot(const Scope& scope, const GraphVariable& primary, const std::string& optimizer,
                       float value) {
  const std::string& around = VariableScopeOf(scope).name;
  const std::string wanted = StrCat(around.empty() ? "" : around + "/", primary.name(), "/", optimizer);
  const std::string name = scope.state().UniqueName(wanted);
  const auto shape = scope.ShapeOf(primary.is_resource() ? primary.value() : primary.ref()).ToTensorShape();
  if (!shape.ok()) {
    scope.UpdateStatus(shape.status().WithContext(StrCat("; in variable '", name, "'")));
    return {};
  }
  GraphVariable::Options options{.trainable = false, .resource = primary.is_resource()};
  if (primary.slice() != nullptr) {
    options.slice = *primary.slice();
    // The suffix after the name of the part: "/Adam_1".
    options.slice->full_name += name.substr(wanted.size() - optimizer.size() - 1);
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
                              const std::vector<GraphVariable>& variables,
                              const GraphVariable& global_step) const {
  return ApplyGradients(scope, ComputeGradients(scope, loss, variables), global_step);
}

std::vector<GradientAndVariable> Optimizer::ComputeGradients(
    const Scope& scope, const Output& loss, const std::vector<GraphVariable>& variables) const {
  const std::vector<GraphVariable> chosen = variables.empty() ? TrainableVariables(scope) : variables;
  if (chosen.empty()) scope.UpdateStatus(errors::InvalidArgument(name_, ": no variables to optimize"));
  std::vector<Output> xs;
  xs.reserve(chosen.size());
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
                                   Scope::TypeOf(gradient.values()), ", expected ", variable.dtype());
  }
  const bool any = std::any_of(gradients.begin(), gradients.end(),
                               [](const GradientAndVariable& g) { return g.gradient.IsSet(); });
  return any ? Status() : errors::InvalidArgument(name_, ": no gradients provided for any variable");
}

Operation Optimizer::UpdateVariable(const Scope& ready, const Step& step,
                                    const GradientAndVariable& gradient) const {
  const GraphVariable& variable = gradient.variable;
  std::vector<GraphVariable> slots;
  slots.reserve(static_cast<size_t>(num_slots()));
  for (int i = 0; i < num_slots(); ++i)
    slots.push_back(MakeSlot(step.scope, variable, name_, first_value(i)));
  if (!step.scope.ok()) return Operation();
  return Update(ready.NewSubScope(StrCat("update_", variable.name())).ColocateWith(variable.ref()), step,
                gradient, slots);
}

Operation Optimizer::ApplyGradients(const Scope& scope, const std::vector<GradientAndVariable>& gradients,
                                    const GraphVariable& global_step) const {
  if (scope.ok()) scope.UpdateStatus(CheckGradients(gradients));
  if (!scope.ok()) return Operation();
  Step step{.scope = scope.NewSubScope(name_), .parameters = {}, .state = {}, .first = {}};
  for (const Parameter& parameter : parameters_) {
    step.parameters.push_back(MakeParameter(step.scope, parameter.name, parameter.value));
  }
  for (const auto& [gradient, variable] : gradients) {
    const bool first = !step.first.ref().IsSet() || variable.name() < step.first.name();
    if (gradient.IsSet() && first) step.first = variable;
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
  if (!global_step.ref().IsSet()) {
    return ops::NoOp(step.scope.WithOpName("/").WithControlDependencies(done));
  }
  const Operation updated = ops::NoOp(step.scope.WithOpName("update").WithControlDependencies(done));
  if (!scope.ok()) return Operation();
  const Output one =
      Number(step.scope.WithOpName("value").ColocateWith(global_step.ref()), 1, global_step.dtype());
  const char* const op = global_step.is_resource() ? "AssignAddVariableOp" : "AssignAdd";
  return AddNode(
      step.scope.WithOpName("/").WithControlDependencies({updated}).ColocateWith(global_step.ref()), op,
      {global_step.ref(), one});
}

GraphVariable Optimizer::SharedState(const Scope& scope, const Step& step, const char* name,
                                     const Output& first_value) {
  const Scope beside = scope.WithNoControlDependencies().WithOpName(name);
  return GraphVariable(step.first.ref().IsSet() ? beside.ColocateWith(step.first.ref()) : beside, first_value,
                       {.trainable = false, .resource = step.first.is_resource()});
}

}  // namespace millrace
