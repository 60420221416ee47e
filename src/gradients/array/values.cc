// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Rows and elements that move or change in place, and what is chosen among them.
#include "gradients/family.h"

namespace millrace {
namespace {

using gradients::PassThrough;
using gradients::Row;

Expr Clipped(const Expr& ids) { return Op("Maximum", {ids, ScalarLike(ids, 0)}); }
Expr Flat(const Expr& x) { return Reshape(x, Vector(*x.builder(), DataType::kInt32, {-1})); }
Expr AtLeastOne(const Expr& count) { return Op("Maximum", {count, ScalarLike(count, 1)}); }
Expr Ones(const Expr& like) { return Fill(ShapeOf(like), ScalarLike(like, 1)); }

Status ReverseSequenceGrad(GradientContext& c) {
  c.SetInputGrad(0,
                 Op("ReverseSequence", {c.grad(0), c.input(1)},
                    {{"seq_dim", c.Attr<int64_t>("seq_dim")}, {"batch_dim", c.Attr<int64_t>("batch_dim")}}));
  return c.status();
}

Status RollGrad(GradientContext& c) {
  c.SetInputGrad(0, Op("Roll", {c.grad(0), -c.input(1), c.input(2)}));
  return c.status();
}

Status TensorScatterUpdateGrad(GradientContext& c) {
  const Expr indices = c.input(1), dy = c.grad(0);
  if (c.wants(0)) c.SetInputGrad(0, Op("TensorScatterUpdate", {dy, indices, ZerosLike(c.input(2))}));
  if (c.wants(2)) c.SetInputGrad(2, Op("GatherNd", {dy, indices}));
  return c.status();
}
template <int sign>
Status TensorScatterAddGrad(GradientContext& c) {
  if (c.wants(0)) c.SetInputGrad(0, c.grad(0));
  if (c.wants(2)) {
    const Expr rows = Op("GatherNd", {c.grad(0), c.input(1)});
    c.SetInputGrad(2, sign > 0 ? rows : -rows);
  }
  return c.status();
}

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

// Elements that equal the n-th share its gradient.
Status NthElementGrad(GradientContext& c) {
  const Expr x = c.input(0);
  const Expr equal = CastTo(Op("Equal", {ExpandDims(c.output(0), -1), x}), x.dtype());
  const Expr count = Sum(equal, Vector(c.builder(), DataType::kInt32, {-1}), true);
  c.SetInputGrad(0, equal / count * ExpandDims(c.grad(0), -1));
  return c.status();
}

// x / y, of what was reduced to y.
Status EuclideanNormGrad(GradientContext& c) {
  const Expr x = c.input(0);
  Expr y = c.output(0), dy = c.grad(0);
  if (!c.Attr<bool>("keep_dims")) {
    const Expr kept = ShapeOf(Sum(x, c.input(1), true));
    y = Reshape(y, kept);
    dy = Reshape(dy, kept);
  }
  c.SetInputGrad(0, dy * (x / y));
  return c.status();
}

// Positive and negative gradients apart, since their logarithms are added.
Status CumulativeLogsumexpGrad(GradientContext& c) {
  const Expr x = c.input(0), axis = c.input(1), y = c.output(0), dy = c.grad(0);
  const AttrMap attrs = {{"exclusive", c.Attr<bool>("exclusive")}, {"reverse", !c.Attr<bool>("reverse")}};
  const double lowest = x.dtype() == DataType::kHalf ? -65504 : -3e38;
  const auto part = [&](const Expr& g) {
    const Expr positive = Op("Greater", {g, ScalarLike(g, 0)});
    const Expr log = Op("Log", Op("SelectV2", {positive, g, ScalarLike(g, 1)}));
    const Expr logs = Op("SelectV2", {positive, log - y, ScalarLike(g, lowest)});
    return Op("Exp", Op("CumulativeLogsumexp", {logs, axis}, attrs) + x);
  };
  c.SetInputGrad(0, part(dy) - part(-dy));
  return c.status();
}

constexpr Row kRows[] = {
    {"CumulativeLogsumexp", CumulativeLogsumexpGrad},
    {"EuclideanNorm", EuclideanNormGrad},
    {"GuaranteeConst", PassThrough},
    {"NthElement", NthElementGrad},
    {"ReverseSequence", ReverseSequenceGrad},
    {"Roll", RollGrad},
    {"ScatterNdNonAliasingAdd", TensorScatterAddGrad<1>},
    {"TensorScatterAdd", TensorScatterAddGrad<1>},
    {"TensorScatterSub", TensorScatterAddGrad<-1>},
    {"TensorScatterUpdate", TensorScatterUpdateGrad},
    {"UnsortedSegmentMax", UnsortedSegmentExtremumGrad},
    {"UnsortedSegmentMin", UnsortedSegmentExtremumGrad},
    {"UnsortedSegmentProd", UnsortedSegmentProdGrad},
};

}  // namespace

Status RegisterArrayValueGradients(GradientRegistry& registry) {
  return gradients::RegisterEach(registry, kRows);
}

}  // namespace millrace
