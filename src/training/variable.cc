// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "cc/scope_state.h"
#include "millrace/ops.h"
#include "millrace/variables.h"
#include "training/apply.h"
#include "training/formula.h"

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

std::string WantedName(const Scope& scope) { return scope.op_name().empty() ? "Variable" : scope.op_name(); }

// The handle of a resource with the name of the node.
Output MakeHandle(const Scope& scope, const PartialShape& shape, DataType dtype) {
  const std::string& path = scope.path();
  const std::string name =
      scope.state().UniqueName(path.empty() ? scope.op_name() : path + "/" + scope.op_name());
  return ops::VarHandleOp(scope.AtRoot().WithOpName(name), dtype, shape, ops::VarHandleOp::SharedName(name));
}

Operation InitializerOf(const Scope& scope, const char* name, const std::vector<GraphVariable>& variables) {
  std::vector<Operation> initializers;
  for (const GraphVariable& variable : variables) {
    if (variable.initializer().IsSet()) initializers.push_back(variable.initializer());
  }
  return ops::NoOp(scope.WithOpName(name).WithControlDependencies(initializers));
}

Output IsInitialized(const Scope& scope, const GraphVariable& variable) {
  if (variable.is_resource()) return AddOp(scope, "VarIsInitializedOp", {variable.ref()});
  return AddOp(scope.ColocateWith(variable.ref()), "IsVariableInitialized", {variable.ref()});
}

}  // namespace

GraphVariable::GraphVariable(const Scope& scope, const Input& initial_value, const Options& options) {
  const Literal* const literal = initial_value.literal();
  const PartialShape shape =
      literal != nullptr ? PartialShape(literal->tensor().shape()) : scope.ShapeOf(initial_value.output());
  if (const Status status = CheckInitialValue(initial_value, shape); !status.ok()) {
    scope.UpdateStatus(status.WithContext(StrCat("; in variable '", WantedName(scope), "'")));
    return;
  }
  const DataType dtype =
      literal != nullptr ? literal->tensor().dtype() : Scope::TypeOf(initial_value.output());
  Make(scope.WithNoControlDependencies(), shape, dtype, options,
       [&](const Scope& root, const std::string& name) -> Output {
         if (literal == nullptr) return initial_value.output();
         return ops::Const(root.WithOpName(name + "/initial_value"), *literal);
       });
}

GraphVariable::GraphVariable(const Scope& scope, const InitialValue& initial_value,
                             const Initializer& initializer, const Options& options) {
  if (initializer == nullptr) {
    scope.UpdateStatus(
        errors::InvalidArgument("no initializer was given for variable '", WantedName(scope), "'"));
    return;
  }
  Make(scope.OutsideControlFlow(), initial_value.shape, initial_value.dtype, options,
       [&](const Scope& root, const std::string& name) {
         return initializer(root.NewSubScope(name + "/Initializer"), initial_value);
       });
}

void GraphVariable::Make(const Scope& free, const PartialShape& shape, DataType dtype, const Options& options,
                         const std::function<Output(const Scope&, const std::string&)>& first_value) {
  const std::string wanted = WantedName(free);
  const bool resource = options.resource.value_or(VariableScopeOf(free).options.resource.value_or(false));
  const Output ref = resource ? MakeHandle(free.WithOpName(wanted), shape, dtype)
                              : Output(ops::VariableV2(free.WithOpName(wanted), shape, dtype));
  if (!free.ok()) return;

  const std::string full_name = Scope::NameOf(ref);
  const Scope beside = free.AtRoot();
  const Scope with_ref = beside.ColocateWith(ref);
  const Output first = first_value(beside, full_name);
  if (free.ok() && !first.IsSet()) {
    free.UpdateStatus(errors::InvalidArgument("variable '", full_name, "' got no initial value"));
  }
  const Scope assign = with_ref.WithOpName(full_name + "/Assign");
  if (resource) {
    ops::VarIsInitializedOp(with_ref.WithOpName(full_name + "/IsInitialized/VarIsInitializedOp"), ref);
    initializer_ = ops::AssignVariableOp(assign, ref, first);
    value_ = ops::ReadVariableOp(with_ref.WithOpName(full_name + "/Read/ReadVariableOp"), ref, dtype);
  } else {
    initializer_ = ops::Assign(assign, ref, first);
    value_ = ops::Identity(with_ref.WithOpName(full_name + "/read"), ref);
  }
  if (!free.ok()) {
    initializer_ = {};
    value_ = {};
    return;
  }
  ref_ = ref;
  if (options.slice) slice_ = std::make_shared<const SaveSliceInfo>(*options.slice);
  free.state().variables.push_back({.ref = ref_,
                                    .value = value_,
                                    .initializer = initializer_,
                                    .trainable = options.trainable,
                                    .collections = options.collections,
                                    .slice = slice_});
}

Output GraphVariable::InitializedValue(const Scope& scope) const {
  if (!initializer_.IsSet()) {
    scope.UpdateStatus(errors::InvalidArgument("variable '", name(), "' has no initializer"));
    return {};
  }
  const Scope after = scope.OutsideControlFlow().AtRoot().WithControlDependencies({initializer_});
  const std::string wanted = name() + "/initialized_value";
  if (is_resource()) return ops::ReadVariableOp(after.WithOpName(wanted), ref_, dtype());
  return ops::Identity(after.ColocateWith(ref_).WithOpName(wanted), ref_);
}

Output GraphVariable::Assign(const Scope& scope, const Input& value) const {
  VariableChanges changes(scope, *this);
  changes.Assign(AsTensor(scope, "value", value, dtype()));
  return changes.Value();
}

Output GraphVariable::AssignAdd(const Scope& scope, const Input& delta) const {
  VariableChanges changes(scope, *this);
  changes.Add(AsTensor(scope, "value", delta, dtype()));
  return changes.Value();
}

Output GraphVariable::AssignSub(const Scope& scope, const Input& delta) const {
  VariableChanges changes(scope, *this);
  changes.Subtract(AsTensor(scope, "value", delta, dtype()));
  return changes.Value();
}

std::vector<GraphVariable> CollectVariables(const Scope& scope, std::string_view collection) {
  std::vector<GraphVariable> variables;
  const bool of_trainable = collection == graph_keys::kTrainableVariables;
  for (const VariableRecord& record : scope.state().variables) {
    if (of_trainable ? !record.trainable : !record.IsIn(collection)) continue;
    GraphVariable& variable = variables.emplace_back();
    variable.ref_ = record.ref;
    variable.value_ = record.value;
    variable.initializer_ = record.initializer;
    variable.slice_ = record.slice;
  }
  return variables;
}

std::vector<GraphVariable> GlobalVariables(const Scope& scope) {
  return CollectVariables(scope, graph_keys::kVariables);
}
std::vector<GraphVariable> LocalVariables(const Scope& scope) {
  return CollectVariables(scope, graph_keys::kLocalVariables);
}
std::vector<GraphVariable> TrainableVariables(const Scope& scope) {
  return CollectVariables(scope, graph_keys::kTrainableVariables);
}

void AddToCollection(const Scope& scope, const std::string& name, const GraphVariable& variable) {
  for (VariableRecord& record : scope.state().variables) {
    if (!variable.ref().IsSet() || !(record.ref == variable.ref())) continue;
    if (name == graph_keys::kTrainableVariables) {
      record.trainable = true;
    } else if (!record.IsIn(name)) {
      record.collections.push_back(name);
    }
    return;
  }
  scope.UpdateStatus(
      errors::InvalidArgument("the item to add to collection '", name, "' is not a variable of the graph"));
}

Operation VariablesInitializer(const Scope& scope, const std::vector<GraphVariable>& variables) {
  for (const GraphVariable& variable : variables) {
    if (!variable.ref().IsSet())
      scope.UpdateStatus(errors::InvalidArgument("VariablesInitializer: a variable is unset"));
  }
  return InitializerOf(scope, "init", variables);
}
Operation GlobalVariablesInitializer(const Scope& scope) {
  return InitializerOf(scope, "init", GlobalVariables(scope));
}
Operation LocalVariablesInitializer(const Scope& scope) {
  return InitializerOf(scope, "init", LocalVariables(scope));
}

Output ReportUninitializedVariables(const Scope& scope, const std::vector<GraphVariable>& variables) {
  std::vector<GraphVariable> asked = variables;
  if (asked.empty()) {
    asked = GlobalVariables(scope);
    const std::vector<GraphVariable> local = LocalVariables(scope);
    asked.insert(asked.end(), local.begin(), local.end());
  }
  const Scope own = scope.OutsideControlFlow().NewSubScope("report_uninitialized_variables");
  std::vector<std::string> names;
  std::vector<Output> initialized;
  for (const GraphVariable& variable : asked) {
    names.push_back(variable.name());
    initialized.push_back(IsInitialized(own, variable));
  }
  const Output all_names = ops::Const(own.WithOpName("Const"), Tensor::Vector(names));
  if (asked.empty()) return all_names;
  const Output missing = ops::LogicalNot(own, ops::Pack(own.WithOpName("stack"), initialized).output);
  const Scope mask = own.NewSubScope("boolean_mask");
  const Output places = ops::Squeeze(mask, ops::Where(mask, missing).index, ops::Squeeze::SqueezeDims({1}));
  return ops::GatherV2(mask, all_names, places, 0);
}

}  // namespace millrace
