// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The sum of the gradients of one tensor, and gradients that wait for one another.
#include <algorithm>
#include <map>
#include <utility>

#include "autodiff/backprop.h"

namespace millrace {

Status Backprop::SumUp(const Node& node, int output) {
  std::vector<GradientValue>& parts = contributions_[Slot(&node, output)];
  const Output of{const_cast<Node*>(&node), output};
  if (!parts.empty()) sums_[Slot(&node, output)] = Aggregate(of, std::move(parts));
  parts = {};
  return builder_.status();
}

GradientValue Backprop::Aggregate(const Output& of, std::vector<GradientValue> parts) {
  if (parts.size() == 1) return parts[0];
  const bool all_slices =
      std::all_of(parts.begin(), parts.end(), [](const GradientValue& part) { return part.IsSlices(); });
  if (all_slices) {
    std::vector<IndexedSlices> slices;
    slices.reserve(parts.size());
    for (const GradientValue& part : parts) slices.push_back(part.slices);
    return ConcatSlices(builder_, slices);
  }
  std::vector<Output> dense;
  dense.reserve(parts.size());
  for (const GradientValue& part : parts) dense.push_back(DenseGradient(builder_, part, of));
  if (!builder_.status().ok()) return GradientValue();
  return AddDense(of, std::move(dense));
}

Output Backprop::AddDense(const Output& of, std::vector<Output> parts) {
  if (options_.aggregation != GradientAggregation::kAddN && parts.size() > 2) {
    PartialShape shape;
    for (const Output& part : parts) {
      if (const PartialShape known = builder_.ShapeOf(part); known.IsFullyDefined()) shape = known;
    }
    if (options_.aggregation == GradientAggregation::kAccumulateN && shape.IsFullyDefined()) {
      return {builder_.Add("AccumulateNV2", {InputArg{std::move(parts), true}}, {{"shape", shape}}), 0};
    }
  }
  const std::string scope = builder_.scope();
  const std::vector<std::string> colocation = builder_.colocation();
  Output sum;
  if (options_.aggregation != GradientAggregation::kAddN) {
    SetScope(*of.node, of.node->name() + "_gradient_sum");
    sum = AddPairwise(parts);
  } else {
    sum = AddByDevice(std::move(parts));
  }
  builder_.SetScope(scope, builder_.device());
  builder_.SetColocation(colocation);
  return sum;
}

// Gradients on one device are added up there first.
Output Backprop::AddByDevice(std::vector<Output> parts) {
  const std::vector<std::string> colocation = builder_.colocation();
  const auto add = [this](std::vector<Output> summands, const std::vector<std::string>& classes) -> Output {
    if (summands.size() == 1) return summands[0];
    builder_.SetColocation(classes);
    return {builder_.Add("AddN", {InputArg{std::move(summands), true}}), 0};
  };
  const auto place = [&](const Output& first) {
    return ColocatesWithNew() ? ColocationOf(*first.node) : colocation;
  };
  std::map<std::string, std::vector<Output>> by_device;
  for (const Output& part : parts) by_device[part.node->requested_device()].push_back(part);
  if (by_device.size() == 1) return add(parts, place(parts[0]));
  std::vector<Output> sums;
  for (auto& [device, summands] : by_device) {
    const Output first = summands[0];
    sums.push_back(add(std::move(summands), place(first)));
  }
  return add(std::move(sums), colocation);
}

// Whether nodes name others of the gradient in "_class". In a loop some of those may be removed later.
bool Backprop::ColocatesWithNew() const {
  return options_.names == GradientNames::kPython && builder_.place().added == nullptr;
}

Output Backprop::AddPairwise(const std::vector<Output>& parts) {
  Output sum = parts[0];
  for (size_t i = 1; i < parts.size() && builder_.status().ok(); ++i) {
    sum = {builder_.Add("AddN", {InputArg{{sum, parts[i]}, true}}), 0};
  }
  return sum;
}

// The same gradients after all of them are computed.
std::vector<GradientValue> Backprop::Gate(const Node& node, std::vector<GradientValue> grads) {
  std::vector<GradientValue*> set;
  for (GradientValue& grad : grads) {
    if (grad.IsSet()) set.push_back(&grad);
  }
  if (set.size() < 2 || !builder_.status().ok()) return grads;
  const std::string what = node.name() + "_grad/tuple";
  SetScope(node, what);
  Node* const all = builder_.Add("NoOp", {}, {}, "group_deps");
  if (all == nullptr) return grads;
  // Tensors of the forward loop become those of the backward loop later; a control edge would stay.
  for (const GradientValue* grad : set) {
    Node* const values = grad->values().node;
    if (Id(values) >= num_ids_ || builder_.place().added == nullptr) graph_.AddControlEdge(values, all);
  }
  for (GradientValue* grad : set) {
    Output& values = grad->IsSlices() ? grad->slices.values : grad->dense;
    if (ColocatesWithNew()) builder_.SetColocation(ColocationOf(*values.node));
    Node* const gated = builder_.Add("Identity", {InputArg{{values}, false}}, {}, "control_dependency");
    if (gated == nullptr) return grads;
    graph_.AddControlEdge(all, gated);
    values = {gated, 0};
  }
  return grads;
}

// The gradients of a node are dead when its branch was not taken. Those of the engine are, since they depend
// on the gradients of the outputs; a program's function may return any tensor.
void Backprop::KeepInBranch(Level& level, Node& node, std::vector<GradientValue>* grads) {
  const auto is_any = [this](const Output& x) {
    return x.IsSet() && (Id(x.node) < num_ids_ || builder_.IsAdopted(x.node));
  };
  Guard guard;
  bool is_known = false;
  for (GradientValue& grad : *grads) {
    for (Output* part : {&grad.dense, &grad.slices.values, &grad.slices.indices, &grad.slices.dense_shape}) {
      if (!is_any(*part) || IsSwitch(node)) continue;
      if (!is_known) guard = level.frame->guards.Of({&node, 0});
      is_known = true;
      if (guard.empty()) return;
      const auto& [pred, side] = guard.back();
      Node* const kept = builder_.Add("Switch", {InputArg{{*part}, false}, InputArg{{pred}, false}});
      if (kept == nullptr) return;
      *part = {kept, side};
    }
  }
}

}  // namespace millrace
