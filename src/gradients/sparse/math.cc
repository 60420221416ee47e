// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Arithmetic of sparse tensors: gradients of their values and of the dense operands.
#include "gradients/family.h"

namespace millrace {
namespace {

using gradients::Row;

Expr Longs(GraphBuilder& b, const std::vector<int64_t>& values) {
  return Vector(b, DataType::kInt64, values);
}
Expr SizeOf(const Expr& x) { return Op("Size", {x}, {{"out_type", DataType::kInt64}}); }

// Indices into a tensor of shape `smaller` that is broadcast to `shape`: 0 in broadcast dimensions.
Expr IndicesWithin(const Expr& indices, const Expr& shape, const Expr& smaller) {
  return indices * CastTo(Op("Equal", {smaller, shape}), DataType::kInt64);
}

// Elements of a tensor of any rank, which may be a scalar.
Expr ElementsAt(const Expr& x, const Expr& indices) {
  const Expr margins = Reshape(Vector(*x.builder(), DataType::kInt32, {0, 0, 1, 0}),
                               Vector(*x.builder(), DataType::kInt32, {2, 2}));
  return Op("GatherNd", {ExpandDims(x, 0), Op("Pad", {indices, margins})});
}

// The values of both go where their indices are among those of the sum.
Status SparseAddGradient(GradientContext& c) {
  if (!c.has_grad(1)) return c.status();
  const Expr a = Op("SparseAddGrad", {c.grad(1), c.input(0), c.input(3), c.output(0)});
  c.SetInputGrad(1, a);
  c.SetInputGrad(4, a.Sibling(1));
  return c.status();
}

// The side that gave the larger (smaller) value gets the gradient; where both did, both.
Status SparseExtremumGrad(GradientContext& c) {
  if (!c.has_grad(1)) return c.status();
  const auto spread = [&](const Expr& values) {
    return Op("SparseAddGrad", {values, c.input(0), c.input(3), c.output(0)});
  };
  const Expr given = spread(c.grad(1)), chosen = spread(c.output(1));
  for (const int side : {0, 1}) {
    const int input = side == 0 ? 1 : 4;
    if (!c.wants(input)) continue;
    const Expr was = Op("Equal", {chosen.Sibling(side), c.input(input)});
    c.SetInputGrad(input, given.Sibling(side) * CastTo(was, c.input(input).dtype()));
  }
  return c.status();
}

Status SparseTensorDenseAddGrad(GradientContext& c) {
  const Expr dy = c.grad(0);
  if (c.wants(1)) c.SetInputGrad(1, ElementsAt(dy, c.input(0)));
  c.SetInputGrad(3, dy);
  return c.status();
}

// The gradient of a sum over some dimensions: each value gets the gradient of the element to which it was
// added.
Status SparseReduceSumGrad(GradientContext& c) {
  if (!c.wants(1)) return c.status();
  GraphBuilder& b = c.builder();
  const Expr shape = c.input(2), rank = Op("Size", shape);
  const Expr axes = Reshape(c.input(3), Vector(b, DataType::kInt32, {-1}));
  const Expr all = Op("Range", {Scalar(b, DataType::kInt32, 0), rank, Scalar(b, DataType::kInt32, 1)});
  const Expr ones = Fill(ShapeOf(axes), Scalar(b, DataType::kInt64, 1));
  const Expr reduced = Op("FloorMod", {axes + rank, rank});
  const Expr kept = Op("DynamicStitch",
                       {Operand(std::vector<Expr>{all, reduced}), Operand(std::vector<Expr>{shape, ones})});
  const Expr dy = Reshape(c.grad(0), kept);
  c.SetInputGrad(1, ElementsAt(dy, IndicesWithin(c.input(0), shape, kept)));
  return c.status();
}

// The indices of the sparse values in the dense operand, and its shape.
struct Dense {
  Expr indices;
  Expr shape;
};
Dense DenseIndices(GradientContext& c) {
  const Expr shape = c.input(2), own = ShapeOf(c.input(3), DataType::kInt64);
  const Expr added = SizeOf(shape) - RankOf(c.input(3), DataType::kInt64);
  const Expr padded = JoinVectors(
      {Fill(Reshape(added, Longs(c.builder(), {1})), Scalar(c.builder(), DataType::kInt64, 1)), own});
  const Expr begin = JoinVectors({Longs(c.builder(), {0}), added});
  return {Op("Slice", {IndicesWithin(c.input(0), shape, padded), begin, Longs(c.builder(), {-1, -1})}), own};
}

// Sums over the sparse values that belong to each element of the dense side.
void SetDenseGrad(GradientContext& c, const Dense& dense, const Expr& values) {
  c.SetInputGrad(3, Op("SparseTensorDenseAdd", {dense.indices, values, dense.shape, ZerosLike(c.input(3))}));
}

Status SparseDenseCwiseAddGrad(GradientContext& c) {
  c.SetInputGrad(1, c.grad(0));
  if (c.wants(3)) SetDenseGrad(c, DenseIndices(c), c.grad(0));
  return c.status();
}

Status SparseDenseCwiseMulGrad(GradientContext& c) {
  const Dense dense = DenseIndices(c);
  if (c.wants(1)) c.SetInputGrad(1, c.grad(0) * Conj(ElementsAt(c.input(3), dense.indices)));
  if (c.wants(3)) SetDenseGrad(c, dense, c.grad(0) * Conj(c.input(1)));
  return c.status();
}

Status SparseDenseCwiseDivGrad(GradientContext& c) {
  const Dense dense = DenseIndices(c);
  const Expr y = ElementsAt(c.input(3), dense.indices);
  const Expr dx = c.grad(0) / Conj(y);
  c.SetInputGrad(1, dx);
  if (c.wants(3)) SetDenseGrad(c, dense, -(dx * Conj(c.output(0))));
  return c.status();
}

// (dy - sum over the row of dy * y) * y
Status SparseSoftmaxGrad(GradientContext& c) {
  const Expr indices = c.input(0), shape = c.input(2), y = c.output(0), dy = c.grad(0);
  const Expr last = Vector(c.builder(), DataType::kInt32, {-1});
  const Expr sums = Op("SparseReduceSum", {indices, dy * y, shape, last}, {{"keep_dims", true}});
  c.SetInputGrad(1, Op("SparseDenseCwiseAdd", {indices, dy, shape, -sums}) * y);
  return c.status();
}

constexpr Row kRows[] = {
    {"SparseAdd", SparseAddGradient},
    {"SparseDenseCwiseAdd", SparseDenseCwiseAddGrad},
    {"SparseDenseCwiseDiv", SparseDenseCwiseDivGrad},
    {"SparseDenseCwiseMul", SparseDenseCwiseMulGrad},
    {"SparseReduceSum", SparseReduceSumGrad},
    {"SparseSoftmax", SparseSoftmaxGrad},
    {"SparseSparseMaximum", SparseExtremumGrad},
    {"SparseSparseMinimum", SparseExtremumGrad},
    {"SparseTensorDenseAdd", SparseTensorDenseAddGrad},
};

}  // namespace

Status RegisterSparseMathGradients(GradientRegistry& registry) {
  return gradients::RegisterEach(registry, kRows);
}

}  // namespace millrace
