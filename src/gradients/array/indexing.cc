// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Ops that take parts of a tensor by index, and the inverse.
#include "gradients/array/indexing_values.h"
#include "gradients/broadcast.h"
#include "gradients/family.h"

namespace millrace {
namespace gradients {

Expr ScatterRows(const Expr& dy, const Expr& indices, const Expr& params_shape, const Expr& axis,
                 const Expr& batch_dims) {
  GraphBuilder& b = *dy.builder();
  const Expr zero = ScalarLike(axis, 0), one = ScalarLike(axis, 1), to_the_end = ScalarLike(axis, -1);
  const Expr first = Vector(b, DataType::kInt32, {0});
  const auto scalar = [&](const Expr& v) { return Reshape(v, Vector(b, DataType::kInt32, {})); };
  // The product of some of the sizes of a shape, as a vector of one element.
  const auto product = [&](const Expr& shape, const Expr& begin, const Expr& count) {
    const Expr part = Op("Slice", {shape, JoinVectors({begin}), JoinVectors({count})});
    return Op("Prod", {part, first}, {{"keep_dims", true}});
  };
  const Expr batch = product(params_shape, zero, batch_dims);
  const Expr middle = product(params_shape, batch_dims, axis - batch_dims);
  const Expr rows = product(params_shape, axis, one);
  const Expr inner = product(params_shape, axis + one, to_the_end);
  const Expr places = product(ShapeOf(indices), batch_dims, to_the_end);
  // [batch, middle, places, inner] to [batch, places, middle, inner]
  const Expr swap = Vector(b, DataType::kInt32, {0, 2, 1, 3});
  const Expr by_place = Transpose(Reshape(dy, JoinVectors({batch, middle, places, inner})), swap);
  // Each batch has rows of its own.
  const Expr offsets = Op("Range", {zero, scalar(batch), one}) * rows;
  const Expr ids = Reshape(indices, JoinVectors({batch, places}));
  const Expr all_ids = ids + CastTo(ExpandDims(offsets, 1), ids.dtype());
  const Expr sums = Op("UnsortedSegmentSum", {by_place, all_ids, scalar(batch * rows)});
  return Reshape(Transpose(Reshape(sums, JoinVectors({batch, rows, middle, inner})), swap), params_shape);
}

}  // namespace gradients

namespace {

using gradients::Row;
using gradients::ScatterRows;

Status SliceGrad(GradientContext& c) {
  const Expr x = c.input(0), begin = c.input(1), dy = c.grad(0);
  const Expr after = ShapeOf(x, begin.dtype()) - ShapeOf(c.output(0), begin.dtype()) - begin;
  c.SetInputGrad(0, Op("Pad", {dy, Op("Pack", {std::vector<Expr>{begin, after}}, {{"axis", 1}})}));
  return c.status();
}

AttrMap MaskAttrs(GradientContext& c) {
  return c.CopyAttrs({"begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"});
}

Status StridedSliceGrad(GradientContext& c) {
  const Expr begin = c.input(1);
  c.SetInputGrad(
      0, Op("StridedSliceGrad",
            {ShapeOf(c.input(0), begin.dtype()), begin, c.input(2), c.input(3), c.grad(0)}, MaskAttrs(c)));
  return c.status();
}

Status StridedSliceGradGrad(GradientContext& c) {
  c.SetInputGrad(4, Op("StridedSlice", {c.grad(0), c.input(1), c.input(2), c.input(3)}, MaskAttrs(c)));
  return c.status();
}

// input, begin, end, strides, value
Status StridedSliceUpdateGrad(GradientContext& c) {
  const Expr part = Op("StridedSlice", {c.grad(0), c.input(1), c.input(2), c.input(3)}, MaskAttrs(c));
  if (c.wants(0)) {
    c.SetInputGrad(0, Op("TensorStridedSliceUpdate",
                         {c.grad(0), c.input(1), c.input(2), c.input(3), ZerosLike(part)}, MaskAttrs(c)));
  }
  if (c.wants(4)) c.SetInputGrad(4, gradients::SumRepeated(c.input(4), part, 0, part));
  return c.status();
}

// The rows that were looked up: dy as [n, ...] with the indices as [n].
void SetRows(GradientContext& c, int i, const Expr& dy, const Expr& indices, const Expr& shape) {
  GraphBuilder& b = c.builder();
  if (indices.shape().rank() == 1) return c.SetInputSlices(i, dy, indices, shape);
  const Expr flat = Reshape(indices, Vector(b, DataType::kInt32, {-1}));
  const Expr tail = Op("Slice", {shape, Vector(b, DataType::kInt32, {1}), Vector(b, DataType::kInt32, {-1})});
  const PartialShape known = c.input(i).dtype() == DataType::kResource ? PartialShape() : c.input(i).shape();
  Expr row_shape = tail;
  if (known.IsFullyDefined() && known.rank() > 0)
    row_shape = Vector(b, DataType::kInt32, {known.dims().begin() + 1, known.dims().end()});
  const Expr count = JoinVectors({Op("Size", flat)});
  c.SetInputSlices(i,
                   Reshape(dy, Op("ConcatV2", {Operand(std::vector<Expr>{count, row_shape}),
                                               Scalar(b, DataType::kInt32, 0)})),
                   flat, shape);
}

Status GatherGrad(GradientContext& c) {
  SetRows(c, 0, c.grad(0), c.input(1), ShapeOf(c.input(0)));
  return c.status();
}

// The attribute as a number from 0 on: negative ones count from the rank of the indices.
Expr BatchDims(GradientContext& c) {
  const auto batch_dims = c.Attr<int64_t>("batch_dims");
  if (batch_dims < -TensorShape::kMaxRank || batch_dims > TensorShape::kMaxRank) {
    c.builder().Fail(errors::InvalidArgument("batch_dims is out of range: ", batch_dims));
    return Expr(c.builder(), {});
  }
  const Expr value = Scalar(c.builder(), DataType::kInt32, static_cast<double>(batch_dims));
  return batch_dims < 0 ? RankOf(c.input(1)) + value : value;
}

Status GatherV2Grad(GradientContext& c) {
  const Expr params = c.input(0), indices = c.input(1);
  const auto axis = StaticIntegers(c.input(2));
  if (axis.ok() && *axis == std::vector<int64_t>{0} && c.Attr<int64_t>("batch_dims") == 0)
    return GatherGrad(c);
  const Expr positive = Op("FloorMod", {CastTo(c.input(2), DataType::kInt32), RankOf(params)});
  c.SetInputGrad(0, ScatterRows(c.grad(0), indices, ShapeOf(params), positive, BatchDims(c)));
  return c.status();
}

Status ResourceGatherGrad(GradientContext& c) {
  const Expr shape = Op("VariableShape", c.input(0));
  if (c.Attr<int64_t>("batch_dims") == 0) {
    SetRows(c, 0, c.grad(0), c.input(1), shape);
  } else {
    const Expr batch_dims = BatchDims(c);
    c.SetInputGrad(0, ScatterRows(c.grad(0), c.input(1), shape, batch_dims, batch_dims));
  }
  return c.status();
}

// Of params whose shape `shape` gives, in a type of indices.
Status SetGatherNdGrad(GradientContext& c, const std::function<Expr(DataType)>& shape) {
  const Expr indices = c.input(1);
  // Rows, if one number gives a position.
  if (indices.shape().rank() == 2 && indices.shape().dim(1) == 1) {
    const Expr flat = Reshape(indices, Vector(c.builder(), DataType::kInt32, {-1}));
    c.SetInputSlices(0, c.grad(0), flat, shape(DataType::kInt32));
    return c.status();
  }
  c.SetInputGrad(0, Op("ScatterNd", {indices, c.grad(0), shape(indices.dtype())}));
  return c.status();
}

Status GatherNdGrad(GradientContext& c) {
  return SetGatherNdGrad(c, [&](DataType type) { return ShapeOf(c.input(0), type); });
}

Status ResourceGatherNdGrad(GradientContext& c) {
  return SetGatherNdGrad(c, [&](DataType type) {
    return Op("VariableShape", {c.input(0)}, {{"out_type", type}});
  });
}

Status ScatterNdGrad(GradientContext& c) {
  c.SetInputGrad(1, Op("GatherNd", {c.grad(0), c.input(0)}));
  return c.status();
}

constexpr Row kRows[] = {
    {"Gather", GatherGrad},
    {"GatherNd", GatherNdGrad},
    {"GatherV2", GatherV2Grad},
    {"ResourceGather", ResourceGatherGrad},
    {"ResourceGatherNd", ResourceGatherNdGrad},
    {"ScatterNd", ScatterNdGrad},
    {"Slice", SliceGrad},
    {"StridedSlice", StridedSliceGrad},
    {"StridedSliceGrad", StridedSliceGradGrad},
    {"TensorStridedSliceUpdate", StridedSliceUpdateGrad},
};

}  // namespace

Status RegisterArrayIndexingGradients(GradientRegistry& registry) {
  return gradients::RegisterEach(registry, kRows);
}

}  // namespace millrace
