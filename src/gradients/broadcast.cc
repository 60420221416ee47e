// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "gradients/broadcast.h"

#include <algorithm>

namespace millrace::gradients {

std::optional<std::vector<int64_t>> RepeatedAxes(const PartialShape& side, const PartialShape& other) {
  std::vector<int64_t> axes;
  if (other.rank() == 0) return axes;
  if (side.unknown_rank() || other.unknown_rank()) return std::nullopt;
  const int rank = std::max(side.rank(), other.rank());
  for (int axis = 0; axis < rank; ++axis) {
    const int mine = axis - (rank - side.rank()), its = axis - (rank - other.rank());
    const int64_t my_size = mine < 0 ? 1 : side.dim(mine), its_size = its < 0 ? 1 : other.dim(its);
    const bool same = my_size == its_size && my_size >= 0;
    if (mine < 0) {
      axes.push_back(axis);
    } else if (my_size == 1 && !same) {
      axes.push_back(axis);
    } else if (my_size < 0 && its_size != 1) {
      return std::nullopt;
    }
  }
  return axes;
}

Expr SumRepeated(const Expr& x, const Expr& y, int which, const Expr& grad) {
  const Expr side = which == 0 ? x : y, other = which == 0 ? y : x;
  if (side.output() == other.output()) return grad;
  const PartialShape shape = side.shape(), other_shape = other.shape();
  const auto axes = RepeatedAxes(shape, other_shape);
  if (!axes) {
    const Expr repeated = Op("BroadcastGradientArgs", {ShapeOf(x), ShapeOf(y)}).Sibling(which);
    return Reshape(Sum(grad, repeated), ShapeOf(side));
  }
  if (axes->empty()) return grad;
  const Expr axes_vector = Vector(*grad.builder(), DataType::kInt32, *axes);
  const int added = std::max(0, other_shape.rank() - shape.rank());
  if (added == 0) return Sum(grad, axes_vector, /*keep_dims=*/true);
  const Expr sum = Sum(grad, axes_vector);
  return static_cast<int>(axes->size()) == added ? sum : Reshape(sum, ShapeOf(side));
}

}  // namespace millrace::gradients
