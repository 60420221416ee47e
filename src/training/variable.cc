// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cc/scope_state.h"
#include "millrace/ops.h"
#include "millrace/optimizers.h"

namespace millrace {
namespace {

Status CheckInitialValue(const Input& value, const PartialShape& shape) {
  if (value.literal() != nullptr) return value.literal()->status();
  if (!value.output().IsSet()) return errors::InvalidArgument("the initial value is unset");
  if (!shape.IsFullyDefined()) {
    return errors::InvalidArgument("the initial value '", Scope::NameOf(value.output()), "' has the shape ",
                                   shape, ", which is not fully known");
  }
  return Status();
}

// The handle of a resource that has the name of the node.
Output MakeHandle(const Scope& scope, const PartialShape& shape, DataType dtype) {
  const std::string path = scope.path();
  const std::string name =
      scope.state().UniqueName(path.empty() ? scope.op_name() : path + "/" + scope.op_name());
  return ops::VarHandleOp(scope.AtRoot().WithOpName(name), dtype, shape, ops::VarHandleOp::SharedName(name));
}

}  // namespace

GraphVariable::GraphVariable(const Scope& scope, const Input& initial_value, const Options& options) {
  const std::string wanted = scope.op_name().empty() ? "Variable" : scope.op_name();
  const Literal* const literal = initial_value.literal();
  const PartialShape shape =
      literal != nullptr ? PartialShape(literal->tensor().shape()) : scope.ShapeOf(initial_value.output());
  if (const Status status = CheckInitialValue(initial_value, shape); !status.ok()) {
    scope.UpdateStatus(status.WithContext(StrCat("; in variable '", wanted, "'")));
    return;
  }
  const DataType dtype =
      literal != nullptr ? literal->tensor().dtype() : Scope::TypeOf(initial_value.output());
  const Scope free = scope.WithNoControlDependencies();
  const Output ref = options.resource ? MakeHandle(free.WithOpName(wanted), shape, dtype)
                                      : Output(ops::VariableV2(free.WithOpName(wanted), shape, dtype));
  if (!scope.ok()) return;

  const std::string full_name = Scope::NameOf(ref);
  const Scope beside = free.AtRoot();
  const Scope with_ref = beside.ColocateWith(ref);
  const Output first = literal != nullptr
                           ? ops::Const(beside.WithOpName(full_name + "/initial_value"), *literal)
                           : initial_value.output();
  const Scope assign = with_ref.WithOpName(full_name + "/Assign");
  if (options.resource) {
    ops::VarIsInitializedOp(with_ref.WithOpName(full_name + "/IsInitialized/VarIsInitializedOp"), ref);
    initializer_ = ops::AssignVariableOp(assign, ref, first);
    value_ = ops::ReadVariableOp(with_ref.WithOpName(full_name + "/Read/ReadVariableOp"), ref, dtype);
  } else {
    initializer_ = ops::Assign(assign, ref, first);
    value_ = ops::Identity(with_ref.WithOpName(full_name + "/read"), ref);
  }
  if (!scope.ok()) {
    initializer_ = {};
    value_ = {};
    return;
  }
  ref_ = ref;
  scope.state().variables.push_back(
      {.ref = ref_, .value = value_, .initializer = initializer_, .trainable = options.trainable});
}

std::vector<GraphVariable> GraphVariable::Collect(const Scope& scope, bool only_trainable) {
  std::vector<GraphVariable> variables;
  for (const VariableRecord& record : scope.state().variables) {
    if (only_trainable && !record.trainable) continue;
    GraphVariable& variable = variables.emplace_back();
    variable.ref_ = record.ref;
    variable.value_ = record.value;
    variable.initializer_ = record.initializer;
  }
  return variables;
}

std::vector<GraphVariable> GlobalVariables(const Scope& scope) {
  return GraphVariable::Collect(scope, /*only_trainable=*/false);
}

std::vector<GraphVariable> TrainableVariables(const Scope& scope) {
  return GraphVariable::Collect(scope, /*only_trainable=*/true);
}

Operation GlobalVariablesInitializer(const Scope& scope) {
  std::vector<Operation> initializers;
  for (const VariableRecord& record : scope.state().variables) initializers.push_back(record.initializer);
  return ops::NoOp(scope.WithOpName("init").WithControlDependencies(initializers));
}

}  // namespace millrace
