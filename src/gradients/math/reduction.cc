// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Reductions and running sums and products.
#include <algorithm>
#include <optional>

#include "gradients/family.h"

namespace millrace {
namespace {

using gradients::Row;

// For a reduction of x over some axes: the shape of the result with reduced dimensions kept as 1, and the
// number of repetitions along each dimension that gives the shape of x. Both are int32 vectors.
struct ReducedShape {
  Expr kept;
  Expr repeats;
};

// The axes as numbers from 0 on; nothing when they are not known statically.
std::optional<std::vector<int64_t>> StaticAxes(const Expr& x, const Expr& axes) {
  const int rank = x.shape().rank();
  auto values = StaticIntegers(axes);
  if (rank < 0 || !values.ok()) return std::nullopt;
  for (int64_t& axis : *values) {
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) return std::nullopt;
  }
  std::sort(values->begin(), values->end());
  values->erase(std::unique(values->begin(), values->end()), values->end());
  return *std::move(values);
}

// 1 for each dimension of x that is reduced, 0 for the others.
Expr ReducedMask(const Expr& x, const Expr& axes) {
  GraphBuilder& b = *x.builder();
  if (const auto known = StaticAxes(x, axes)) {
    std::vector<int64_t> mask(static_cast<size_t>(x.shape().rank()), 0);
    for (const int64_t axis : *known) mask[static_cast<size_t>(axis)] = 1;
    return Vector(b, DataType::kInt32, mask);
  }
  const Expr rank = RankOf(x);
  const Expr flat = Reshape(CastTo(axes, DataType::kInt32), Vector(b, DataType::kInt32, {-1}));
  const Expr positive = Op("FloorMod", {flat + rank, rank});
  const Expr rows = Op("OneHot", {positive, rank, ScalarLike(rank, 1), ScalarLike(rank, 0)});
  return Op("Minimum", {Sum(rows, Vector(b, DataType::kInt32, {0})), ScalarLike(rank, 1)});
}

ReducedShape ShapeOfReduced(const Expr& x, const Expr& axes) {
  GraphBuilder& b = *x.builder();
  const PartialShape shape = x.shape();
  const auto known = StaticAxes(x, axes);
  if (known && shape.IsFullyDefined()) {
    std::vector<int64_t> kept(shape.dims().begin(), shape.dims().end()), repeats(kept.size(), 1);
    for (const int64_t axis : *known)
      std::swap(kept[static_cast<size_t>(axis)], repeats[static_cast<size_t>(axis)]);
    return {Vector(b, DataType::kInt32, kept), Vector(b, DataType::kInt32, repeats)};
  }
  const Expr sizes = ShapeOf(x), mask = ReducedMask(x, axes), others = 1.0 - mask;
  return {sizes * others + mask, sizes * mask + others};
}

// Repeats `reduced`, which has the shape of the output, to the shape of the input.
Expr Repeat(GradientContext& c, const Expr& reduced) {
  const Expr x = c.input(0);
  if (reduced.shape().rank() == 0) return Fill(ShapeOf(x), reduced);
  const ReducedShape shape = ShapeOfReduced(x, c.input(1));
  return Op("Tile", {c.Attr<bool>("keep_dims") ? reduced : Reshape(reduced, shape.kept), shape.repeats});
}

Status SumGrad(GradientContext& c) {
  c.SetInputGrad(0, Repeat(c, c.grad(0)));
  return c.status();
}

// The number of elements of x per element of the output, as a scalar of x's type.
Expr ReducedCount(GradientContext& c) {
  const Expr x = c.input(0), y = c.output(0);
  const PartialShape shape = x.shape();
  if (const auto axes = StaticAxes(x, c.input(1))) {
    double count = 1;
    for (const int64_t axis : *axes) {
      const int64_t size = shape.dim(static_cast<int>(axis));
      count = size < 0 || count < 0 ? -1 : count * static_cast<double>(size);
    }
    if (count >= 0) return ScalarLike(x, count);
  }
  const auto size = [](const Expr& e) { return Op("Size", {e}, {{"out_type", DataType::kInt64}}); };
  if (y.shape().rank() == 0) return CastTo(size(x), x.dtype());
  const Expr of_y = size(y);
  return CastTo(size(x) / Op("Maximum", {of_y, ScalarLike(of_y, 1)}), x.dtype());
}

Status MeanGrad(GradientContext& c) {
  c.SetInputGrad(0, Repeat(c, c.grad(0) / ReducedCount(c)));
  return c.status();
}

// The gradient of Max and Min: the elements that equal the result share its gradient.
Status ExtremumGrad(GradientContext& c) {
  const Expr x = c.input(0), axes = c.input(1);
  Expr y = c.output(0), dy = c.grad(0);
  if (!c.Attr<bool>("keep_dims")) {
    const Expr kept = ShapeOfReduced(x, axes).kept;
    y = Reshape(y, kept);
    dy = Reshape(dy, kept);
  }
  const Expr taken = CastTo(Op("Equal", {x, y}), x.dtype());
  c.SetInputGrad(0, taken / Sum(taken, axes, /*keep_dims=*/true) * dy);
  return c.status();
}

// An order of the dimensions in which the reduced ones come first, and its inverse; unset when it is the
// order that they have.
struct Order {
  Expr forward;
  Expr back;
};

Order ReducedFirst(const Expr& x, const Expr& axes) {
  GraphBuilder& b = *x.builder();
  if (const auto known = StaticAxes(x, axes)) {
    std::vector<int64_t> order = *known;
    for (int64_t axis = 0; axis < x.shape().rank(); ++axis) {
      if (!std::binary_search(known->begin(), known->end(), axis)) order.push_back(axis);
    }
    if (std::is_sorted(order.begin(), order.end())) return {};
    std::vector<int64_t> inverse(order.size());
    for (size_t i = 0; i < order.size(); ++i)
      inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    return {Vector(b, DataType::kInt32, order), Vector(b, DataType::kInt32, inverse)};
  }
  // Equal values are sorted by their index.
  const Expr order = Op("TopKV2", {ReducedMask(x, axes), RankOf(x)}).Sibling(1);
  return {order, Op("InvertPermutation", order)};
}

// Each element's share is the product of the others, computed without division because of zeros: as the
// product of those before it and of those after it.
Status ProdGrad(GradientContext& c) {
  const Expr x = c.input(0), axes = c.input(1);
  const ReducedShape shape = ShapeOfReduced(x, axes);
  const Order order = ReducedFirst(x, axes);
  const Expr sorted = order.forward.IsSet() ? Transpose(x, order.forward) : x;
  const Expr first = Scalar(c.builder(), DataType::kInt32, 0);
  const auto product = [&](const Expr& sizes) { return Op("Prod", {sizes, first}, {{"keep_dims", true}}); };
  const Expr flat = Reshape(sorted, JoinVectors({product(shape.repeats), product(shape.kept)}));
  const Expr before = Op("Cumprod", {flat, first}, {{"exclusive", true}});
  const Expr after = Op("Cumprod", {flat, first}, {{"exclusive", true}, {"reverse", true}});
  Expr others = Reshape(Conj(before) * Conj(after), ShapeOf(sorted));
  if (order.back.IsSet()) others = Transpose(others, order.back);
  c.SetInputGrad(0, Repeat(c, c.grad(0)) * others);
  return c.status();
}

Expr Cumsum(GradientContext& c, const Expr& x, bool reverse) {
  return Op("Cumsum", {x, c.input(1)}, {{"exclusive", c.Attr<bool>("exclusive")}, {"reverse", reverse}});
}

Status CumsumGrad(GradientContext& c) {
  c.SetInputGrad(0, Cumsum(c, c.grad(0), !c.Attr<bool>("reverse")));
  return c.status();
}

// As in TensorFlow, not a number where x is 0.
Status CumprodGrad(GradientContext& c) {
  const Expr x = Conj(c.input(0)), y = Conj(c.output(0));
  c.SetInputGrad(0, Cumsum(c, y * c.grad(0), !c.Attr<bool>("reverse")) / x);
  return c.status();
}

// dy * x / y, where y is the norm of x.
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
    {"Cumprod", CumprodGrad},
    {"Cumsum", CumsumGrad},
    {"Max", ExtremumGrad},
    {"Mean", MeanGrad},
    {"Min", ExtremumGrad},
    {"Prod", ProdGrad},
    {"Sum", SumGrad},
};

}  // namespace

Status RegisterReductionGradients(GradientRegistry& registry) {
  return gradients::RegisterEach(registry, kRows);
}

}  // namespace millrace
