// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/clipping.h"

#include <limits>

#include "millrace/ops.h"
#include "training/formula.h"

namespace millrace {
namespace {

// A gradient of the same kind with other values.
GradientValue Like(const GradientValue& gradient, const Output& values) {
  if (!gradient.IsSlices()) return values;
  return IndexedSlices{values, gradient.slices.indices, gradient.slices.dense_shape};
}

Formula Where(const Output& condition, const Formula& x, const Formula& y) {
  return {x.scope(), AddOp(x.scope(), "Select", {condition, x, y})};
}

}  // namespace

GradientValue ClipByValue(const Scope& scope, const GradientValue& gradient, const Input& low,
                          const Input& high) {
  if (!gradient.IsSet()) return gradient;
  const Scope own = scope.NewSubScope("clip_by_value");
  const Formula values(own, gradient.values());
  const Formula below = Minimum(values, AsTensor(own, "Minimum/y", high, values.dtype()));
  return Like(gradient,
              AddOp(own.WithOpName("/"), "Maximum", {below, AsTensor(own, "y", low, values.dtype())}));
}

GradientValue ClipByNorm(const Scope& scope, const GradientValue& gradient, const Input& norm,
                         const std::vector<int64_t>& axes) {
  if (!gradient.IsSet()) return gradient;
  const Scope own = scope.NewSubScope("clip_by_norm");
  const Formula values(own, gradient.values());
  const Output limit = AsTensor(own, "clip_norm", norm, values.dtype());
  Formula squares = values * values;
  OpAttrs keep;
  keep.Set("keep_dims", true);
  if (axes.empty()) {
    const Output all = AddOp(own, "Range", {0, AddOp(own, "Rank", {squares}), 1});
    squares = squares.Call("Sum", all, keep);
  } else {
    squares = squares.Call("Sum", Vector(own.WithOpName("Const"), axes), keep);
  }
  // The root has no finite derivative at zero.
  const Output positive = Binary(own, "Greater", "Greater", squares, 0.0);
  const Formula safe = Where(positive, squares, squares.Call("OnesLike"));
  const Formula length = Where(positive, safe.Call("Sqrt"), squares);
  const Formula clipped = values * limit / Maximum(length, limit);
  return Like(gradient, ops::Identity(own.WithOpName("/"), clipped.tensor()));
}

Output ClipByAverageNorm(const Scope& scope, const Output& tensor, const Input& norm) {
  const Scope own = scope.NewSubScope("clip_by_average_norm");
  const Formula values(own, tensor);
  const Formula limit(own, AsTensor(own, "clip_norm", norm, values.dtype()));
  const Formula size = values.Call("Size").To(values.dtype());
  const Formula inverse = (values * values).Reduce("Sum").Call("Rsqrt");
  const Formula clipped = values * limit * Minimum(inverse * size, 1.0 / limit);
  return ops::Identity(own.WithOpName("/"), clipped.tensor());
}

Output GlobalNorm(const Scope& scope, const std::vector<GradientAndVariable>& gradients) {
  const Scope own = scope.NewSubScope("global_norm");
  std::vector<Input> halves;
  for (const GradientAndVariable& g : gradients) {
    if (g.gradient.IsSet()) halves.emplace_back(AddOp(own, "L2Loss", {g.gradient.values()}));
  }
  if (halves.empty()) {
    scope.UpdateStatus(errors::InvalidArgument("the global norm needs at least one gradient"));
    return {};
  }
  const Formula all(own, ops::Pack(own.WithOpName("stack"), InputList(halves)));
  return (all.Reduce("Sum", {0}) * 2.0).Call("Sqrt");
}

ClippedGradients ClipByGlobalNorm(const Scope& scope, const std::vector<GradientAndVariable>& gradients,
                                  const Input& norm) {
  ClippedGradients result{gradients, GlobalNorm(scope, gradients)};
  if (!scope.ok()) return {};
  const Scope own = scope.NewSubScope("clip_by_global_norm");
  const Formula all(own, result.norm);
  const Formula limit(own, AsTensor(own, "clip_norm", norm, all.dtype()));
  const Formula scale = limit * Minimum(1.0 / all, 1.0 / limit);
  const Formula nan(own, Number(own, std::numeric_limits<double>::quiet_NaN(), all.dtype()));
  const Formula factor = Where(all.Call("IsFinite"), scale, nan);
  for (GradientAndVariable& g : result.gradients) {
    if (!g.gradient.IsSet()) continue;
    const Formula values(own, g.gradient.values());
    g.gradient = Like(g.gradient, (values * CastTo(own, factor, values.dtype())).tensor());
  }
  return result;
}

AccumulatedSteps AccumulateGradients(const Scope& scope, const Optimizer& optimizer,
                                     const std::vector<GradientAndVariable>& gradients,
                                     const GraphVariable& global_step) {
  const Scope own = scope.NewSubScope("accumulate_gradients");
  const auto sum_of = [&](const std::string& name, const TensorShape& shape, DataType dtype, bool resource) {
    return GraphVariable(
        scope.AtRoot().WithOpName(name), InitialValue{.shape = shape, .dtype = dtype}, initializers::Zeros(),
        {.trainable = false, .resource = resource, .collections = {graph_keys::kLocalVariables}});
  };
  std::vector<Operation> added;
  std::vector<GradientAndVariable> means;
  std::vector<GraphVariable> sums;
  if (gradients.empty()) scope.UpdateStatus(errors::InvalidArgument("no gradients to accumulate"));
  if (!scope.ok()) return {};
  const bool resource = gradients.front().variable.is_resource();
  const GraphVariable count = sum_of(own.path() + "/count", TensorShape(), DataType::kFloat, resource);
  for (const auto& [gradient, variable] : gradients) {
    if (!gradient.IsSet()) continue;
    const auto shape = scope.ShapeOf(variable.value()).ToTensorShape();
    if (!shape.ok()) scope.UpdateStatus(shape.status());
    if (!scope.ok()) return {};
    const GraphVariable sum =
        sum_of(variable.name() + "/accumulated_gradient", *shape, variable.dtype(), variable.is_resource());
    VariableChanges changes(own, sum);
    if (gradient.IsSlices()) {
      changes.AddRows(gradient.slices);
    } else {
      changes.Add(gradient.dense);
    }
    added.push_back(changes.Done());
    const Output batches = CastTo(own, Maximum(Formula(own, count), 1.0), variable.dtype());
    means.push_back({(Formula(own, sum) / batches).tensor(), variable});
    sums.push_back(sum);
  }
  added.emplace_back(count.AssignAdd(own, 1));
  const Operation applied = optimizer.ApplyGradients(scope, means, global_step);
  if (!scope.ok()) return {};
  const Scope after = own.WithControlDependencies({applied});
  sums.push_back(count);
  std::vector<Operation> emptied;
  for (const GraphVariable& sum : sums) {
    VariableChanges changes(after, sum);
    changes.Assign(initializers::Zeros()(
        after, {.shape = *scope.ShapeOf(sum.value()).ToTensorShape(), .dtype = sum.dtype()}));
    emptied.push_back(changes.Done());
  }
  return {ops::NoOp(own.WithOpName("accumulate").WithControlDependencies(added)),
          ops::NoOp(own.WithOpName("apply").WithControlDependencies(emptied))};
}

}  // namespace millrace
