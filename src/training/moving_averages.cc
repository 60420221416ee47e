// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/moving_averages.h"

#include <set>
#include <utility>

#include "base/strings.h"
#include "millrace/ops.h"
#include "training/formula.h"
#include "training/same_graph.h"

namespace millrace {
namespace {

// The average corrected for its initial zeros, with separate variables.
Output ZeroDebias(const Scope& scope, const GraphVariable& variable, const Output& value,
                  const Formula& forget) {
  const Scope beside = scope.OutsideControlFlow().AtRoot().ColocateWith(variable.ref());
  const auto state = [&](const char* name, const TensorShape& shape) {
    return GraphVariable(beside.WithOpName(StrCat(variable.name(), "/", name)),
                         InitialValue{.shape = shape, .dtype = variable.dtype()}, initializers::Zeros(),
                         {.trainable = false, .resource = variable.is_resource()});
  };
  const auto shape = scope.ShapeOf(variable.value()).ToTensorShape();
  if (!shape.ok()) scope.UpdateStatus(shape.status());
  if (!scope.ok()) return {};
  const GraphVariable biased = state("biased", *shape), steps = state("local_step", TensorShape());
  VariableChanges changes(scope, biased);
  changes.Subtract((Formula(scope, changes.Value()) - value) * forget);
  const Formula count(scope, steps.AssignAdd(scope, 1));
  const Formula factor = 1.0 - Pow(1.0 - forget, count);
  VariableChanges result(scope, variable);
  result.Assign(Formula(scope, changes.Value()) / factor);
  return result.Value();
}

}  // namespace

Output AssignMovingAverage(const Scope& scope, const GraphVariable& variable, const Output& value,
                           const Input& decay, const MovingAverageOptions& options) {
  const Scope own = scope.NewSubScope("AssignMovingAvg").ColocateWith(variable.ref());
  if (!scope.ok()) return {};
  const DataType dtype = variable.dtype();
  const Formula kept(own, CastTo(own, AsTensor(own, "decay", decay, dtype), dtype));
  const Formula forget = 1.0 - kept;
  if (options.zero_debias) return ZeroDebias(own, variable, value, forget);
  const Output before = VariableChanges(own, variable).Value();
  const Formula change = (Formula(own, before) - value) * forget;
  VariableChanges changes(variable.is_resource() ? own : own.WithOpName("/"), variable);
  changes.Subtract(change);
  return changes.Value();
}

GraphVariable ExponentialMovingAverage::Average(const Output& tensor) const {
  const auto found = averages_.find(Scope::NameOf(tensor));
  return found == averages_.end() ? GraphVariable() : found->second;
}

std::string ExponentialMovingAverage::AverageName(const GraphVariable& variable) const {
  const GraphVariable average = Average(variable);
  return average.ref().IsSet() ? average.name() : StrCat(variable.name(), "/", options_.name);
}

GraphVariable ExponentialMovingAverage::Make(const Scope& scope, const std::string& name,
                                             const Output& beside, const GraphVariable* variable,
                                             const Output& tensor) {
  if (!scope.ok()) return {};
  const DataType dtype = Scope::TypeOf(tensor);
  if (!IsFloatingType(dtype)) {
    scope.UpdateStatus(errors::InvalidArgument("The variables must be half, float, or double: ", name));
    return {};
  }
  const Scope place = scope.OutsideControlFlow().AtRoot();
  const Scope named =
      (variable != nullptr ? place.ColocateWith(beside) : place).WithOpName(StrCat(name, "/", options_.name));
  GraphVariable::Options options{.trainable = false};
  if (variable == nullptr) {
    const auto shape = scope.ShapeOf(tensor).ToTensorShape();
    if (!shape.ok()) scope.UpdateStatus(shape.status().WithContext(StrCat("; in the average of ", name)));
    if (!scope.ok()) return {};
    return GraphVariable(named, InitialValue{.shape = *shape, .dtype = dtype}, initializers::Zeros(),
                         options);
  }
  options.resource = variable->is_resource();
  if (variable->slice() != nullptr) {
    options.slice = *variable->slice();
    options.slice->full_name += "/" + options_.name;
  }
  AddToCollection(scope, graph_keys::kMovingAverages, *variable);
  return GraphVariable(named, variable->InitializedValue(scope), options);
}

Operation ExponentialMovingAverage::Apply(const Scope& scope, std::vector<GraphVariable> variables,
                                          const std::vector<Output>& tensors) {
  if (averages_.empty()) {
    scope_ = scope.AtRoot().OutsideControlFlow();
  } else if (scope.ok()) {
    scope.UpdateStatus(CheckUsableIn("ExponentialMovingAverage::Apply", "the averages are", *scope_, scope));
  }
  if (!scope.ok()) return {};
  if (variables.empty() && tensors.empty()) variables = TrainableVariables(scope);
  std::vector<std::pair<GraphVariable, Output>> pairs;  // the average, and its variable or tensor
  const Scope own = scope.NewSubScope(options_.name);
  for (const GraphVariable& variable : variables) {
    const std::string key = Scope::NameOf(variable.ref());
    if (!averages_.contains(key)) {
      averages_[key] = Make(scope, variable.name(), variable.ref(), &variable, variable.value());
    }
    pairs.emplace_back(averages_[key], VariableChanges(own, variable).Value());
  }
  for (const Output& tensor : tensors) {
    const std::string key = Scope::NameOf(tensor);
    if (tensor.IsSet() && !averages_.contains(key)) {
      const std::string name = Scope::NameOf(Operation(tensor));
      averages_[key] = Make(scope, name, tensor, nullptr, tensor);
    }
    pairs.emplace_back(averages_[key], tensor);
  }
  if (!scope.ok()) return {};
  Formula decay(own, AsTensor(own, "decay", options_.decay, DataType::kFloat));
  if (options_.num_updates) {
    const Formula n(own, CastTo(own.WithOpName("num_updates"), *options_.num_updates, decay.dtype()));
    decay = Minimum(decay, (1.0 + n) / (10.0 + n));
  }
  std::vector<Operation> updates;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const bool debias = options_.zero_debias && i >= variables.size();
    updates.emplace_back(
        AssignMovingAverage(own, pairs[i].first, pairs[i].second, decay.tensor(), {.zero_debias = debias}));
  }
  if (!scope.ok()) return {};
  return ops::NoOp(own.WithOpName("/").WithControlDependencies(updates));
}

std::vector<Saveable> ExponentialMovingAverage::VariablesToRestore(const Scope& scope) const {
  std::vector<Saveable> saveables;
  std::set<std::string> taken, averaged;
  const auto add = [&](const GraphVariable& variable, const std::string& suffix) {
    Saveable saveable{variable.name() + suffix, variable.ref()};
    if (variable.slice() != nullptr) {
      saveable.name = variable.slice()->full_name + suffix;
      saveable.slice = *variable.slice();
    }
    taken.insert(variable.name() + suffix);
    saveables.push_back(std::move(saveable));
  };
  for (const char* collection : {graph_keys::kTrainableVariables, graph_keys::kMovingAverages}) {
    for (const GraphVariable& variable : CollectVariables(scope, collection)) {
      if (!averaged.insert(variable.name()).second) continue;
      add(variable, AverageName(variable).substr(variable.name().size()));
    }
  }
  for (const GraphVariable& variable : GlobalVariables(scope)) {
    if (!averaged.contains(variable.name()) && !taken.contains(variable.name())) add(variable, "");
  }
  return saveables;
}

}  // namespace millrace
