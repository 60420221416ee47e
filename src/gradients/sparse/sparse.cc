// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Sparse tensors, of which only the values have gradients; partitions of rows.
#include "gradients/broadcast.h"
#include "gradients/family.h"

namespace millrace {
namespace {

using gradients::Row;

Expr Numbers(GraphBuilder& b, const std::vector<int64_t>& values) {
  return Vector(b, DataType::kInt32, values);
}
Expr Number(GraphBuilder& b, double value) { return Scalar(b, DataType::kInt32, value); }
Expr SizeOf(const Expr& x) { return Op("Size", x); }
Expr NumRows(const Expr& x) { return FirstSize(ShapeOf(x)); }
// 0, 1, … up to the number of elements.
Expr Count(const Expr& x) {
  GraphBuilder& b = *x.builder();
  return Op("Range", {Number(b, 0), SizeOf(x), Number(b, 1)});
}
// Column `i` of a matrix.
Expr Column(const Expr& matrix, int i) {
  return GatherRows(Transpose(matrix, Numbers(*matrix.builder(), {1, 0})), Number(*matrix.builder(), i));
}

// The gradient at the positions of the values; the remaining gradient belongs to the default.
Status SparseToDenseGrad(GradientContext& c) {
  const Expr dy = c.grad(0), values = c.input(2);
  const Expr rank = JoinVectors({SizeOf(c.input(1))});
  const Expr places = Reshape(c.input(0), JoinVectors({Numbers(c.builder(), {-1}), rank}));
  const Expr taken = Op("GatherNd", {dy, places});
  c.SetInputGrad(2, gradients::SumRepeated(values, taken, 0, taken));
  if (c.wants(3)) {
    const Expr all = Op("Range", {Number(c.builder(), 0), RankOf(dy), Number(c.builder(), 1)});
    c.SetInputGrad(3, Sum(dy, all) - Sum(taken, Numbers(c.builder(), {0})));
  }
  return c.status();
}

// Numbers that are sorted along with the values show where each value went.
Status SparseReorderGrad(GradientContext& c) {
  if (!c.has_grad(1)) return c.status();
  const Expr sorted = Op("SparseReorder", {c.input(0), Count(c.input(1)), c.input(2)}).Sibling(1);
  c.SetInputGrad(1, GatherRows(c.grad(1), Op("InvertPermutation", sorted)));
  return c.status();
}

Status SparseFillEmptyRowsGrad(GradientContext& c) {
  if (!c.has_grad(1)) return c.status();
  const Expr values = Op("SparseFillEmptyRowsGrad", {c.output(3), c.grad(1)});
  c.SetInputGrad(1, values);
  c.SetInputGrad(3, values.Sibling(1));
  return c.status();
}

Status SparseFillEmptyRowsGradGrad(GradientContext& c) {
  const Expr map = c.input(0), grad = c.input(1), n = SizeOf(grad);
  const Expr ones = Fill(ShapeOf(map), ScalarLike(grad, 1));
  const Expr visited = Op("UnsortedSegmentSum", {ones, map, n});
  const Expr rest = Op("Equal", {visited, ScalarLike(grad, 0)});
  const Expr taken = Op("UnsortedSegmentSum", {c.grad_or_zeros(0), map, n});
  c.SetInputGrad(1, taken + CastTo(rest, grad.dtype()) * c.grad_or_zeros(1));
  return c.status();
}

// Values inside of the box, in their order, are the output's.
Status SparseSliceGrad(GradientContext& c) {
  if (!c.has_grad(1)) return c.status();
  const Expr indices = c.input(0), start = c.input(3);
  const Expr inside =
      Op("LogicalAnd", {Op("GreaterEqual", {indices, start}), Op("Less", {indices, start + c.output(2)})});
  const Expr kept = Op("Where", Op("All", {inside, Numbers(c.builder(), {1})}));
  const Expr places = Reshape(kept, Numbers(c.builder(), {-1}));
  c.SetInputGrad(1, Op("UnsortedSegmentSum", {c.grad(1), places, SizeOf(c.input(1))}));
  return c.status();
}

// The gradient of op(A) op(B): op(A)^H dy, and for each value of A the product of a row of dy with one of B.
Status SparseTensorDenseMatMulGrad(GradientContext& c) {
  const Expr indices = c.input(0), values = c.input(1), shape = c.input(2), b = c.input(3), dy = c.grad(0);
  const bool adjoint_a = c.Attr<bool>("adjoint_a"), adjoint_b = c.Attr<bool>("adjoint_b");
  const Expr swap = Numbers(c.builder(), {1, 0});
  if (c.wants(3)) {
    const Expr db = Op("SparseTensorDenseMatMul", {indices, values, shape, dy}, {{"adjoint_a", !adjoint_a}});
    c.SetInputGrad(3, adjoint_b ? Transpose(Conj(db), swap) : db);
  }
  if (c.wants(1)) {
    const Expr right = adjoint_b ? Transpose(Conj(b), swap) : b;
    const Expr rows = Column(indices, adjoint_a ? 1 : 0), columns = Column(indices, adjoint_a ? 0 : 1);
    const Expr products = GatherRows(dy, rows) * Conj(GatherRows(right, columns));
    const Expr dv = Sum(products, Numbers(c.builder(), {1}));
    c.SetInputGrad(1, adjoint_a ? Conj(dv) : dv);
  }
  return c.status();
}

// Each row that was taken gets the gradient of its segment, by `weights` (unset: 1) of the segments.
void SetTakenRows(GradientContext& c, const Expr& weights) {
  const Expr ids = c.input(2);
  Expr dy = c.grad(0);
  if (weights.IsSet()) {
    const Expr tail = Fill(JoinVectors({RankOf(dy) - Number(c.builder(), 1)}), Number(c.builder(), 1));
    dy = dy * Reshape(weights, JoinVectors({ShapeOf(weights), tail}));
  }
  c.SetInputSlices(0, GatherRows(dy, ids), c.input(1), ShapeOf(c.input(0)));
}

// The number of rows of each segment of the output, and 1 where there are none.
Expr Counts(GradientContext& c) {
  const Expr ids = c.input(2), dy = c.grad(0);
  const Expr ones = Fill(ShapeOf(ids), ScalarLike(dy, 1));
  const Expr counts = Op("UnsortedSegmentSum", {ones, ids, NumRows(dy)});
  return Op("Maximum", {counts, ScalarLike(counts, 1)});
}

Status SparseSegmentSumGrad(GradientContext& c) {
  SetTakenRows(c, Expr());
  return c.status();
}
Status SparseSegmentMeanGrad(GradientContext& c) {
  SetTakenRows(c, 1.0 / Counts(c));
  return c.status();
}
Status SparseSegmentSqrtNGrad(GradientContext& c) {
  SetTakenRows(c, Op("Rsqrt", Counts(c)));
  return c.status();
}
// Linear maps, so that the gradients of the gradients are the ops themselves.
Status SparseSegmentMeanGradGrad(GradientContext& c) {
  c.SetInputGrad(
      0, Op("SparseSegmentMeanWithNumSegments", {c.grad(0), c.input(1), c.input(2), NumRows(c.input(0))}));
  return c.status();
}
Status SparseSegmentSqrtNGradGrad(GradientContext& c) {
  c.SetInputGrad(
      0, Op("SparseSegmentSqrtNWithNumSegments", {c.grad(0), c.input(1), c.input(2), NumRows(c.input(0))}));
  return c.status();
}

// The source positions of the rows are partitioned in the same way.
Status DynamicPartitionGrad(GradientContext& c) {
  const Expr partitions = c.input(1);
  const Expr numbers = ReshapeLike(Count(partitions), partitions);
  const Expr first = Op("DynamicPartition", {numbers, partitions}, c.CopyAttrs({"num_partitions"}));
  std::vector<Expr> places, grads;
  for (int i = 0; i < c.num_outputs(); ++i) {
    places.push_back(first.Sibling(i));
    grads.push_back(c.grad_or_zeros(i));
  }
  c.SetInputGrad(0, ReshapeLike(Op("DynamicStitch", {Operand(places), Operand(grads)}), c.input(0)));
  return c.status();
}

// As TensorFlow has it: of rows with one number each gets the gradient.
Status DynamicStitchGrad(GradientContext& c) {
  const int n = c.num_inputs() / 2;
  for (int i = 0; i < n; ++i) {
    if (c.wants(n + i)) c.SetInputGrad(n + i, GatherRows(c.grad(0), c.input(i)));
  }
  return c.status();
}

constexpr Row kRows[] = {
    {"DynamicPartition", DynamicPartitionGrad},
    {"DynamicStitch", DynamicStitchGrad},
    {"ParallelDynamicStitch", DynamicStitchGrad},
    {"SparseFillEmptyRows", SparseFillEmptyRowsGrad},
    {"SparseFillEmptyRowsGrad", SparseFillEmptyRowsGradGrad},
    {"SparseReorder", SparseReorderGrad},
    {"SparseSegmentMean", SparseSegmentMeanGrad},
    {"SparseSegmentMeanGrad", SparseSegmentMeanGradGrad},
    {"SparseSegmentMeanWithNumSegments", SparseSegmentMeanGrad},
    {"SparseSegmentSqrtN", SparseSegmentSqrtNGrad},
    {"SparseSegmentSqrtNGrad", SparseSegmentSqrtNGradGrad},
    {"SparseSegmentSqrtNWithNumSegments", SparseSegmentSqrtNGrad},
    {"SparseSegmentSum", SparseSegmentSumGrad},
    {"SparseSegmentSumWithNumSegments", SparseSegmentSumGrad},
    {"SparseSlice", SparseSliceGrad},
    {"SparseTensorDenseMatMul", SparseTensorDenseMatMulGrad},
    {"SparseToDense", SparseToDenseGrad},
};

}  // namespace

Status RegisterSparseGradients(GradientRegistry& registry) {
  return gradients::RegisterEach(registry, kRows);
}

}  // namespace millrace
