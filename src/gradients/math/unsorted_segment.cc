// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Segments in any order.
#include "gradients/family.h"

namespace millrace {
namespace {

Expr Clipped(const Expr& ids) { return Op("Maximum", {ids, ScalarLike(ids, 0)}); }
Expr Flat(const Expr& x) { return Reshape(x, Vector(*x.builder(), DataType::kInt32, {-1})); }
Expr AtLeastOne(const Expr& count) { return Op("Maximum", {count, ScalarLike(count, 1)}); }
Expr Ones(const Expr& like) { return Fill(ShapeOf(like), ScalarLike(like, 1)); }

// The rows of a tensor with a row for each segment by the ids of another, of one dimension; and which ids are
// of a segment.
struct SegmentRows {
  explicit SegmentRows(const Expr& of) : ids(Flat(of)), kept(Op("GreaterEqual", {ids, ScalarLike(ids, 0)})) {}
  Expr Of(const Expr& segments) const { return GatherRows(segments, Clipped(ids)); }
  Expr Sum(const Expr& rows, const Expr& count) const { return Op("UnsortedSegmentSum", {rows, ids, count}); }
  Expr ids;
  Expr kept;
};

// The elements that equal the extremum share its gradient.
Status UnsortedSegmentExtremumGrad(GradientContext& c) {
  const SegmentRows rows(c.input(1));
  const Expr best = rows.Of(c.output(0)), x = ReshapeLike(c.input(0), best);
  const Expr equal = CastTo(Op("Equal", {x, best}), x.dtype());
  const Expr taken = Where(rows.kept, equal, ZerosLike(equal));
  const Expr share = c.grad(0) / AtLeastOne(rows.Sum(taken, c.input(2)));
  c.SetInputGrad(0, ReshapeLike(taken * rows.Of(share), c.input(0)));
  return c.status();
}

// As of sorted segments: what a zero is multiplied by is the product of the others.
Status UnsortedSegmentProdGrad(GradientContext& c) {
  const SegmentRows rows(c.input(1));
  const Expr y = rows.Of(Conj(c.output(0))), x = ReshapeLike(Conj(c.input(0)), y);
  const Expr is_zero = Op("Equal", {x, ScalarLike(x, 0)});
  const Expr zeros = rows.Sum(CastTo(is_zero, DataType::kInt32), c.input(2));
  const Expr without = Where(is_zero, Ones(x), x);
  const Expr product = rows.Of(Op("UnsortedSegmentProd", {without, rows.ids, c.input(2)}));
  const Expr alone = Op("Equal", {rows.Of(zeros), ScalarLike(zeros, 1)});
  const Expr partial = Where(is_zero, Where(alone, product, ZerosLike(product)), y / without);
  const Expr dx = rows.Of(c.grad(0)) * partial;
  c.SetInputGrad(0, ReshapeLike(Where(rows.kept, dx, ZerosLike(dx)), c.input(0)));
  return c.status();
}

constexpr gradients::Row kRows[] = {
    {"UnsortedSegmentMax", UnsortedSegmentExtremumGrad},
    {"UnsortedSegmentMin", UnsortedSegmentExtremumGrad},
    {"UnsortedSegmentProd", UnsortedSegmentProdGrad},
};

}  // namespace

Status RegisterUnsortedSegmentGradients(GradientRegistry& registry) {
  return gradients::RegisterEach(registry, kRows);
}

}  // namespace millrace
