// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// One step of an optimizer on one variable: on a reference, or behind a handle.
#include "ops/family.h"
#include "ops/register.h"
#include "ops/variable_shapes.h"

namespace millrace::ops {
namespace {

// Inputs in order: 'v' is a variable or a slot of one, 'd' a tensor of its shape, 's' a scalar.
Status ApplyShape(InferenceContext& c, std::string_view kinds) {
  ShapeHandle variable = VariableShapeOf(c, 0);
  for (size_t i = 0; i < kinds.size(); ++i) {
    const int input = static_cast<int>(i);
    if (kinds[i] == 's') {
      MR_RETURN_IF_ERROR(c.WithRank(c.input(input), 0).status());
    } else {
      const ShapeHandle other = kinds[i] == 'v' ? VariableShapeOf(c, input) : c.input(input);
      MR_ASSIGN_OR_RETURN(variable, c.Merge(variable, other));
    }
  }
  if (c.num_outputs() > 0) c.set_output(0, variable);
  return Status::Ok();
}

Status ApplyGradientDescentShape(InferenceContext& c) { return ApplyShape(c, "vsd"); }
Status ApplyMomentumShape(InferenceContext& c) { return ApplyShape(c, "vvsds"); }
Status ApplyAdamShape(InferenceContext& c) { return ApplyShape(c, "vvvssssssd"); }

struct Optimizer {
  const char* name;
  ShapeFn shape;
  std::vector<const char*> variables;
  std::vector<const char*> operands;
  bool nesterov;
};

const std::vector<Optimizer>& Optimizers() {
  static const auto& table = *new std::vector<Optimizer>{
      {"GradientDescent", ApplyGradientDescentShape, {"var"}, {"alpha", "delta"}, false},
      {"Momentum", ApplyMomentumShape, {"var", "accum"}, {"lr", "grad", "momentum"}, true},
      {"Adam",
       ApplyAdamShape,
       {"var", "m", "v"},
       {"beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon", "grad"},
       true},
  };
  return table;
}

OpBuilder Apply(const Optimizer& optimizer, bool resource) {
  OpBuilder op(StrCat(resource ? "ResourceApply" : "Apply", optimizer.name));
  for (const char* name : optimizer.variables) op.Input(StrCat(name, resource ? ": resource" : ": Ref(T)"));
  for (const char* name : optimizer.operands) op.Input(StrCat(name, ": T"));
  if (resource) {
    op.Stateful();
  } else {
    op.Output("out: Ref(T)");
  }
  op.Attr(kNumber).Attr("use_locking: bool = false");
  if (optimizer.nesterov) op.Attr("use_nesterov: bool = false");
  return op.Shape(optimizer.shape).Traits(kEffect);
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterTrainingOps(OpRegistry& registry) {
  for (const ops::Optimizer& optimizer : ops::Optimizers()) {
    MR_RETURN_IF_ERROR(registry.Register(ops::Apply(optimizer, false)));
    MR_RETURN_IF_ERROR(registry.Register(ops::Apply(optimizer, true)));
  }
  return Status::Ok();
}

}  // namespace millrace
