// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "autodiff/slices.h"

namespace millrace {
namespace {

Expr Concat(GraphBuilder& builder, const std::vector<Expr>& parts) {
  return Op("ConcatV2", {Operand(parts), Scalar(builder, DataType::kInt32, 0)});
}

}  // namespace

Expr FirstSize(const Expr& shape) {
  GraphBuilder& b = *shape.builder();
  const auto known = StaticIntegers(shape);
  if (known.ok() && !known->empty() && known->front() >= 0) {
    const DataType type = known->front() > INT32_MAX ? DataType::kInt64 : DataType::kInt32;
    return Scalar(b, type, static_cast<double>(known->front()));
  }
  return GatherRows(shape, Scalar(b, DataType::kInt32, 0));
}

Expr DenseShapeOf(const Expr& x) {
  return x.dtype() == DataType::kResource ? Op("VariableShape", x) : ShapeOf(x);
}

Output DenseFromSlices(GraphBuilder& builder, const IndexedSlices& slices, const Output& like) {
  Expr shape(builder, slices.dense_shape);
  if (!shape.IsSet()) shape = DenseShapeOf(Expr(builder, like));
  if (!builder.status().ok()) return Output();
  const Expr dense = Op("UnsortedSegmentSum",
                        {Expr(builder, slices.values), Expr(builder, slices.indices), FirstSize(shape)});
  return dense.output();
}

Output DenseGradient(GraphBuilder& builder, const GradientValue& grad, const Output& like) {
  return grad.IsSlices() ? DenseFromSlices(builder, grad.slices, like) : grad.dense;
}

IndexedSlices ConcatSlices(GraphBuilder& builder, const std::vector<IndexedSlices>& slices) {
  if (slices.size() == 1) return slices[0];
  std::vector<Expr> values, indices;
  Output shape;
  bool same_type = true;
  for (const IndexedSlices& part : slices) {
    values.emplace_back(builder, part.values);
    indices.emplace_back(builder, part.indices);
    same_type = same_type && indices.back().dtype() == indices.front().dtype();
    if (!shape.IsSet()) shape = part.dense_shape;
  }
  if (!same_type) {
    for (Expr& part : indices) part = CastTo(part, DataType::kInt64);
  }
  return {Concat(builder, values).output(), Concat(builder, indices).output(), shape};
}

IndexedSlices NoSlices(GraphBuilder& builder, const Output& like, DataType values, DataType indices) {
  const Expr x(builder, like);
  const auto ints = [&](int value) { return Vector(builder, DataType::kInt32, {value}); };
  // This does not use ShapeOf, because a constant would not be dead.
  const Expr shape = Op(x.dtype() == DataType::kResource ? "VariableShape" : "Shape", x);
  const Expr tail = Op("Slice", {shape, ints(1), ints(-1)});
  const Expr none =
      Op("ConcatV2", {Operand(std::vector<Expr>{ints(0), tail}), Scalar(builder, DataType::kInt32, 0)});
  const Expr no_values = Fill(none, Scalar(builder, values, 0));
  const Expr no_indices = CastTo(Op("Slice", {shape, ints(0), ints(0)}), indices);
  return {no_values.output(), no_indices.output(), shape.output()};
}

}  // namespace millrace
