// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "training/formula.h"

#include <numeric>

#include "cc/scope_state.h"
#include "millrace/ops.h"

namespace millrace {

Tensor NumberTensor(double value, DataType dtype) {
  switch (dtype) {
    case DataType::kDouble:
      return Tensor::Scalar(value);
    case DataType::kHalf:
      return Tensor::Scalar(half(static_cast<float>(value)));
    case DataType::kBfloat16:
      return Tensor::Scalar(bfloat16(static_cast<float>(value)));
    case DataType::kInt64:
      return Tensor::Scalar(static_cast<int64_t>(value));
    case DataType::kInt32:
      return Tensor::Scalar(static_cast<int32_t>(value));
    case DataType::kBool:
      return Tensor::Scalar(value != 0);
    default:
      return Tensor::Scalar(static_cast<float>(value));
  }
}

Output Number(const Scope& scope, double value, DataType dtype) {
  return ops::Const(scope, NumberTensor(value, dtype));
}

std::pair<int64_t, int64_t> SeedsOf(const Scope& scope, int64_t seed) {
  constexpr int64_t kDefaultGraphSeed = 87654321;
  const std::optional<int64_t>& of_graph = scope.state().random_seed;
  if (!of_graph) return seed == 0 ? std::pair<int64_t, int64_t>(0, 0) : std::pair(kDefaultGraphSeed, seed);
  const int64_t own = seed != 0 ? seed : scope.graph().num_node_ids();
  return {*of_graph, own};
}

Output Vector(const Scope& scope, const std::vector<int64_t>& values) {
  return ops::Const(scope, Tensor::Vector(std::vector<int32_t>(values.begin(), values.end())));
}

Output CastTo(const Scope& scope, const Output& tensor, DataType dtype) {
  if (!tensor.IsSet() || Scope::TypeOf(tensor) == dtype) return tensor;
  return ops::Cast(scope, tensor, dtype);
}

Output AsTensor(const Scope& scope, const char* name, const Input& input, DataType dtype) {
  if (input.literal() == nullptr) return input.output();
  const Tensor& value = input.literal()->tensor();
  const Scope named = scope.WithOpName(name);
  if (input.literal()->status().ok() && value.num_elements() == 1 && value.rank() == 0) {
    if (value.dtype() == DataType::kFloat) return Number(named, *value.data<float>(), dtype);
    if (value.dtype() == DataType::kDouble) return Number(named, *value.data<double>(), dtype);
    if (value.dtype() == DataType::kInt32) return Number(named, *value.data<int32_t>(), dtype);
  }
  return ops::Const(named, *input.literal());
}

Formula Formula::Reduce(const char* op, std::initializer_list<int64_t> axes, bool keep_dims) const {
  for (const int64_t axis : axes) {
    if (axis != static_cast<int32_t>(axis)) {
      scope_.UpdateStatus(errors::InvalidArgument("There is no axis ", axis));
      return {scope_, Output()};
    }
  }
  OpAttrs attrs;
  attrs.Set("keep_dims", keep_dims);
  return {scope_, AddOp(scope_, op, {tensor_, Vector(scope_.WithOpName("Const"), axes)}, attrs)};
}

Formula Formula::Reduce(const char* op) const {
  const int rank = scope_.ShapeOf(tensor_).rank();
  if (rank >= 0) {
    std::vector<int64_t> axes(static_cast<size_t>(rank));
    std::iota(axes.begin(), axes.end(), 0);
    return {scope_, AddOp(scope_, op, {tensor_, Vector(scope_.WithOpName("Const"), axes)})};
  }
  const Scope range = scope_.NewSubScope("range");
  const Output axes = AddOp(range.WithOpName("/"), "Range", {0, AddOp(range, "Rank", {tensor_}), 1});
  return {scope_, AddOp(scope_, op, {tensor_, axes})};
}

Formula Binary(const Scope& scope, const char* name, const char* op, const Term& x, const Term& y) {
  const Scope own = scope.NewSubScope(name);
  const auto side = [&](const Term& term, const Term& other, const char* side_name) {
    if (!term.number || !other.tensor.IsSet()) return term.tensor;
    return Number(own.WithOpName(side_name).WithNoControlDependencies(), *term.number,
                  Scope::TypeOf(other.tensor));
  };
  const Output left = side(x, y, "x");
  const Output right = side(y, x, "y");
  return {scope, AddOp(own.WithOpName("/"), op, {left, right})};
}

}  // namespace millrace
