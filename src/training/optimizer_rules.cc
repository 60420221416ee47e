// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// The update rule of each optimizer for one variable.
#include "millrace/ops.h"
#include "millrace/optimizers.h"
#include "training/apply.h"
#include "training/formula.h"

namespace millrace {
namespace {

// Multiplies the powers of the betas, which follow the rate among the parameters.
std::vector<Operation> RaisePowers(const Scope& scope, const std::vector<GraphVariable>& powers,
                                   const std::vector<Output>& parameters) {
  std::vector<Operation> updates;
  for (size_t i = 0; i < powers.size(); ++i) {
    VariableChanges power(scope.ColocateWith(powers[i].ref()), powers[i]);
    power.Assign(ops::Mul(scope.ColocateWith(powers[i].ref()), powers[i].value(), parameters[i + 1]));
    updates.push_back(power.Done());
  }
  return updates;
}

// Converts slices to a tensor of the variable's shape.
GradientAndVariable Dense(const Scope& scope, const GradientAndVariable& gradient) {
  if (!gradient.gradient.IsSlices()) return gradient;
  const IndexedSlices& rows = gradient.gradient.slices;
  const auto shape = scope.ShapeOf(gradient.variable.value()).ToTensorShape();
  if (!shape.ok() || shape->rank() == 0) {
    scope.UpdateStatus(
        errors::InvalidArgument("variable '", gradient.variable.name(), "' has no known rows"));
    return gradient;
  }
  const Output num_rows = Number(scope, static_cast<double>(shape->dim(0)), DataType::kInt32);
  return {AddOp(scope, "UnsortedSegmentSum", {rows.values, rows.indices, num_rows}), gradient.variable};
}

}  // namespace

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
  step.state.push_back(SharedState(scope, step, "beta1_power", step.parameters[1]));
  step.state.push_back(SharedState(scope, step, "beta2_power", step.parameters[2]));
}

Operation AdamOptimizer::Update(const Scope& scope, const Step& step, const GradientAndVariable& gradient,
                                const std::vector<GraphVariable>& slots) const {
  if (gradient.gradient.IsSlices()) return UpdateRows(scope, step, gradient, slots);
  const GraphVariable& w = gradient.variable;
  std::vector<Input> before = {step.Scalar(step.state[0].value(), w), step.Scalar(step.state[1].value(), w)};
  for (size_t i = 0; i < 4; ++i) before.emplace_back(step.Scalar(step.parameters[i], w));
  return Apply(scope, gradient, slots, {"Adam", before, {}, {}});
}

// The moments of all rows decay, those of the given rows also get their gradient, and all rows are updated.
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
  return RaisePowers(scope, step.state, step.parameters);
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
  if (!centered_) {
    return Apply(scope, gradient, slots, {"RMSProp", Scalars(step, gradient.variable), {}, {}});
  }
  // The slots are created as squares, means, momentum; the op takes the means first.
  return Apply(scope, gradient, {slots[1], slots[0], slots[2]},
               {"CenteredRMSProp", Scalars(step, gradient.variable), {}, {}});
}

Operation FtrlOptimizer::Update(const Scope& scope, const Step& step, const GradientAndVariable& gradient,
                                const std::vector<GraphVariable>& slots) const {
  std::vector<Input> after = Scalars(step, gradient.variable);
  if (!shrinks_) after.erase(after.begin() + 3);
  return Apply(scope, gradient, slots, {shrinks_ ? "FtrlV2" : "Ftrl", {}, after, {}});
}

void AdagradDaOptimizer::Prepare(const Scope& /*scope*/, Step& step) const {
  if (!global_step_.ref().IsSet()) {
    step.scope.UpdateStatus(errors::InvalidArgument("AdagradDA: the global step is unset"));
    return;
  }
  // The number of this update, counted from one.
  const Formula done(step.scope, CastTo(step.scope, global_step_, DataType::kInt64));
  step.parameters.push_back((done + 1).tensor());
}

Operation AdagradDaOptimizer::Update(const Scope& scope, const Step& step,
                                     const GradientAndVariable& gradient,
                                     const std::vector<GraphVariable>& slots) const {
  const auto number = [&](size_t i) { return step.Scalar(step.parameters[i], gradient.variable); };
  return Apply(scope, gradient, slots,
               {"AdagradDA", {}, {number(0), number(1), number(2), step.parameters[3]}, {}});
}

Operation ProximalGradientDescentOptimizer::Update(const Scope& scope, const Step& step,
                                                   const GradientAndVariable& gradient,
                                                   const std::vector<GraphVariable>& slots) const {
  return Apply(scope, gradient, slots, {"ProximalGradientDescent", Scalars(step, gradient.variable), {}, {}});
}

Operation ProximalAdagradOptimizer::Update(const Scope& scope, const Step& step,
                                           const GradientAndVariable& gradient,
                                           const std::vector<GraphVariable>& slots) const {
  return Apply(scope, gradient, slots, {"ProximalAdagrad", Scalars(step, gradient.variable), {}, {}});
}

void AdaMaxOptimizer::Prepare(const Scope& scope, Step& step) const {
  step.state.push_back(SharedState(scope, step, "beta1_power", step.parameters[1]));
}

Operation AdaMaxOptimizer::Update(const Scope& scope, const Step& step, const GradientAndVariable& gradient,
                                  const std::vector<GraphVariable>& slots) const {
  const GraphVariable& w = gradient.variable;
  const auto number = [&](const Output& scalar) { return Formula(scope, step.Scalar(scalar, w)); };
  const Output power = number(step.state[0].value());
  if (!gradient.gradient.IsSlices()) {
    std::vector<Input> before = Scalars(step, w);
    before.insert(before.begin(), power);
    return Apply(scope, gradient, slots, {"AdaMax", before, {}, {}});
  }
  const IndexedSlices rows = WithoutRepeats(scope, gradient.gradient.slices);
  if (!scope.ok()) return Operation();
  const Formula g(scope, rows.values), beta1 = number(step.parameters[1]), beta2 = number(step.parameters[2]);
  VariableChanges first(scope, slots[0]), second(scope, slots[1]), changes(scope, w);
  const Formula m = beta1 * first.Rows(rows.indices) + (1.0 - beta1) * g;
  first.UpdateRows({m, rows.indices, {}});
  const Formula v = Maximum(beta2 * second.Rows(rows.indices), g.Call("Abs"));
  second.UpdateRows({v, rows.indices, {}});
  const Formula rate = number(step.parameters[0]) / (1.0 - Formula(scope, power));
  changes.SubtractRows({rate * m / (v + number(step.parameters[3])), rows.indices, {}});
  return ops::NoOp(scope.WithControlDependencies({first.Done(), second.Done(), changes.Done()}));
}

std::vector<Operation> AdaMaxOptimizer::Finish(const Scope& scope, const Step& step) const {
  return RaisePowers(scope, step.state, step.parameters);
}

Operation AddSignOptimizer::Update(const Scope& scope, const Step& step, const GradientAndVariable& gradient,
                                   const std::vector<GraphVariable>& slots) const {
  return Apply(scope, Dense(scope, gradient), slots, {"AddSign", Scalars(step, gradient.variable), {}, {}});
}

Operation PowerSignOptimizer::Update(const Scope& scope, const Step& step,
                                     const GradientAndVariable& gradient,
                                     const std::vector<GraphVariable>& slots) const {
  return Apply(scope, Dense(scope, gradient), slots, {"PowerSign", Scalars(step, gradient.variable), {}, {}});
}

}  // namespace millrace
