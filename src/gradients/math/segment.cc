// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Reductions over segments: rows of the data that share an id.
#include "gradients/family.h"

namespace millrace {
namespace {

using gradients::Row;

// At least 1, since segments without rows would divide by zero.
Expr AtLeastOne(const Expr& count) { return Op("Maximum", {count, ScalarLike(count, 1)}); }

Expr Ones(const Expr& like) { return Fill(ShapeOf(like), ScalarLike(like, 1)); }

Status SegmentSumGrad(GradientContext& c) {
  c.SetInputGrad(0, GatherRows(c.grad(0), c.input(1)));
  return c.status();
}

Status SegmentMeanGrad(GradientContext& c) {
  const Expr x = c.input(0), ids = c.input(1);
  const Expr rows = AtLeastOne(Op("SegmentSum", {Fill(ShapeOf(ids), ScalarLike(x, 1)), ids}));
  // A count per row of the output, to divide rows of any rank by.
  const Expr one = Scalar(c.builder(), DataType::kInt32, 1);
  const Expr ones = Fill(JoinVectors({RankOf(x) - one}), one);
  const Expr counts = Reshape(rows, JoinVectors({ShapeOf(rows), ones}));
  c.SetInputGrad(0, GatherRows(c.grad(0) / counts, ids));
  return c.status();
}

// The gradient of SegmentMax and SegmentMin: the elements that equal the result share its gradient.
Status SegmentExtremumGrad(GradientContext& c) {
  const Expr x = c.input(0), ids = c.input(1), dy = c.grad(0);
  const Expr taken = Op("Equal", {x, GatherRows(c.output(0), ids)});
  const Expr count = AtLeastOne(Op("SegmentSum", {CastTo(taken, x.dtype()), ids}));
  const Expr share = GatherRows(dy / count, ids);
  c.SetInputGrad(0, Where(taken, share, ZerosLike(share)));
  return c.status();
}

// Each element's share is the product of the others of its segment: y / x, but where x is 0 the product of
// the others themselves, which is 0 too when there is a second zero.
Status SegmentProdGrad(GradientContext& c) {
  const Expr x = Conj(c.input(0)), ids = c.input(1);
  const Expr is_zero = Op("Equal", {x, ScalarLike(x, 0)});
  const Expr zeros = Op("SegmentSum", {CastTo(is_zero, DataType::kInt32), ids});
  const Expr without_zeros = Where(is_zero, Ones(x), x);
  const Expr alone = Op("Equal", {GatherRows(zeros, ids), ScalarLike(zeros, 1)});
  const Expr product = GatherRows(Op("SegmentProd", {without_zeros, ids}), ids);
  const Expr at_zero = Where(alone, product, ZerosLike(x));
  const Expr elsewhere = GatherRows(Conj(c.output(0)), ids) / without_zeros;
  c.SetInputGrad(0, GatherRows(c.grad(0), ids) * Where(is_zero, at_zero, elsewhere));
  return c.status();
}

// Ids may have any shape that the data's begins with; rows with a negative id were dropped.
Status UnsortedSegmentSumGrad(GradientContext& c) {
  const Expr ids = c.input(1), dy = c.grad(0);
  const Expr flat = Reshape(ids, Vector(c.builder(), DataType::kInt32, {-1}));
  const Expr rows = GatherRows(dy, Op("Maximum", {flat, ScalarLike(flat, 0)}));
  const Expr kept = Where(Op("GreaterEqual", {flat, ScalarLike(flat, 0)}), rows, ZerosLike(rows));
  c.SetInputGrad(0, ReshapeLike(kept, c.input(0)));
  return c.status();
}

constexpr Row kRows[] = {
    {"SegmentMax", SegmentExtremumGrad}, {"SegmentMean", SegmentMeanGrad},
    {"SegmentMin", SegmentExtremumGrad}, {"SegmentProd", SegmentProdGrad},
    {"SegmentSum", SegmentSumGrad},      {"UnsortedSegmentSum", UnsortedSegmentSumGrad},
};

}  // namespace

Status RegisterSegmentGradients(GradientRegistry& registry) {
  return gradients::RegisterEach(registry, kRows);
}

}  // namespace millrace
