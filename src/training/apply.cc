// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "training/apply.h"

#include <string>

namespace millrace {

Operation AddNode(const Scope& scope, const char* op, const std::vector<Input>& inputs,
                  const OpAttrs& attrs) {
  OpMaker maker(scope, op, attrs);
  for (const Input& input : inputs) maker.Add(input);
  return Operation(maker.Finish());
}

Output AddOp(const Scope& scope, const char* op, const std::vector<Input>& inputs, const OpAttrs& attrs) {
  const Operation operation = AddNode(scope, op, inputs, attrs);
  return operation.IsSet() ? Output{operation.node, 0} : Output();
}

IndexedSlices WithoutRepeats(const Scope& scope, const IndexedSlices& slices) {
  const Output unique = AddOp(scope, "Unique", {slices.indices});
  if (!unique.IsSet()) return {};
  const Output places{unique.node, 1};
  const Output sums =
      AddOp(scope, "UnsortedSegmentSum", {slices.values, places, AddOp(scope, "Size", {unique})});
  return {sums, unique, slices.dense_shape};
}

Operation Apply(const Scope& scope, const GradientAndVariable& gradient,
                const std::vector<GraphVariable>& slots, const ApplyCall& call) {
  const bool rows = gradient.gradient.IsSlices();
  const std::string op = std::string(gradient.variable.is_resource() ? "Resource" : "") +
                         (rows ? "Sparse" : "") + "Apply" + std::string(call.rule);
  std::vector<Input> inputs = {gradient.variable.ref()};
  for (const GraphVariable& slot : slots) inputs.emplace_back(slot.ref());
  inputs.insert(inputs.end(), call.before.begin(), call.before.end());
  if (rows) {
    const IndexedSlices once = WithoutRepeats(scope, gradient.gradient.slices);
    inputs.emplace_back(once.values);
    inputs.emplace_back(once.indices);
  } else {
    inputs.emplace_back(gradient.gradient.dense);
  }
  inputs.insert(inputs.end(), call.after.begin(), call.after.end());
  return AddNode(scope, op.c_str(), inputs, call.attrs);
}

VariableChanges::VariableChanges(const Scope& scope, const GraphVariable& variable)
    : scope_(scope), variable_(variable), ref_(variable.ref()) {}

Output VariableChanges::Value() {
  if (!variable_.is_resource()) return ref_;
  const Scope after = last_.IsSet() ? scope_.WithControlDependencies({last_}) : scope_;
  OpAttrs attrs;
  attrs.Set("dtype", variable_.dtype());
  return AddOp(after, "ReadVariableOp", {ref_}, attrs);
}

Output VariableChanges::Rows(const Output& indices) {
  const Output zero = ops::Const(scope_, 0);
  return AddOp(scope_, "GatherV2", {Value(), indices, zero});
}

void VariableChanges::Change(const char* op, const char* resource_op, const std::vector<Output>& operands) {
  const Scope after = last_.IsSet() ? scope_.WithControlDependencies({last_}) : scope_;
  std::vector<Input> inputs = {ref_};
  for (const Output& operand : operands) inputs.emplace_back(operand);
  const bool resource = variable_.is_resource();
  last_ = AddNode(after, resource ? resource_op : op, inputs, {});
  if (!resource && last_.IsSet()) ref_ = {last_.node, 0};
}

void VariableChanges::Assign(const Output& value) { Change("Assign", "AssignVariableOp", {value}); }
void VariableChanges::Add(const Output& delta) { Change("AssignAdd", "AssignAddVariableOp", {delta}); }
void VariableChanges::Subtract(const Output& delta) { Change("AssignSub", "AssignSubVariableOp", {delta}); }
void VariableChanges::AddRows(const IndexedSlices& rows) {
  Change("ScatterAdd", "ResourceScatterAdd", {rows.indices, rows.values});
}
void VariableChanges::SubtractRows(const IndexedSlices& rows) {
  Change("ScatterSub", "ResourceScatterSub", {rows.indices, rows.values});
}
void VariableChanges::UpdateRows(const IndexedSlices& rows) {
  Change("ScatterUpdate", "ResourceScatterUpdate", {rows.indices, rows.values});
}

}  // namespace millrace
