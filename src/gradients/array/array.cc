// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Ops that pass tensors on, give them another shape, join, split, repeat, pad and permute them.
#include <algorithm>

#include "gradients/broadcast.h"
#include "gradients/family.h"

namespace millrace {
namespace {

using gradients::PassThrough;
using gradients::Row;

Status IdentityNGrad(GradientContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) c.SetInputGrad(i, c.grad_value(i));
  return c.status();
}

Status PreventGradientGrad(GradientContext& c) {
  return errors::NotFound("Gradient explicitly disabled. Reason: ", c.Attr<std::string>("message"));
}

// The gradient of ops that only change the shape.
Status ReshapeGrad(GradientContext& c) {
  c.SetInputGrad(0, ReshapeLike(c.grad(0), c.input(0)));
  return c.status();
}

Expr AllInOne(const Expr& x) {
  GraphBuilder& b = *x.builder();
  return Sum(Reshape(x, Vector(b, DataType::kInt32, {-1})), Vector(b, DataType::kInt32, {0}));
}

Status FillGrad(GradientContext& c) {
  c.SetInputGrad(1, AllInOne(c.grad(0)));
  return c.status();
}

Status BroadcastToGrad(GradientContext& c) {
  c.SetInputGrad(0, gradients::SumRepeated(c.input(0), c.output(0), 0, c.grad(0)));
  return c.status();
}

Status TransposeGrad(GradientContext& c) {
  c.SetInputGrad(0, Transpose(c.grad(0), Op("InvertPermutation", c.input(1))));
  return c.status();
}

Status ReverseGrad(GradientContext& c) {
  c.SetInputGrad(0, Op(c.node().op_name(), {c.grad(0), c.input(1)}));
  return c.status();
}

// The sizes of the inputs [first, first + count) along the axis of a concatenation, when all are known.
std::vector<int64_t> SizesAlong(GradientContext& c, int first, int count, const Expr& axis_input) {
  const auto axis = StaticIntegers(axis_input);
  std::vector<int64_t> sizes;
  if (!axis.ok() || axis->size() != 1) return sizes;
  for (int i = 0; i < count; ++i) {
    const PartialShape shape = c.input(first + i).shape();
    const int64_t at = (*axis)[0] < 0 ? (*axis)[0] + shape.rank() : (*axis)[0];
    if (at < 0 || at >= shape.rank() || shape.dim(static_cast<int>(at)) < 0) return {};
    sizes.push_back(shape.dim(static_cast<int>(at)));
  }
  return sizes;
}

// Cuts dy into the parts that came from the `count` inputs from `first` on.
void SetConcatGrads(GradientContext& c, int first, int count, const Expr& axis_input) {
  const Expr dy = c.grad(0), axis = CastTo(axis_input, DataType::kInt32);
  const std::vector<int64_t> sizes = SizesAlong(c, first, count, axis_input);
  if (!sizes.empty()) {
    const bool equal = std::count(sizes.begin(), sizes.end(), sizes[0]) == count;
    const Expr parts = equal ? Op("Split", {axis, dy}, {{"num_split", count}})
                             : Op("SplitV", {dy, Vector(c.builder(), DataType::kInt64, sizes), axis},
                                  {{"num_split", count}});
    for (int i = 0; i < count; ++i) c.SetInputGrad(first + i, parts.Sibling(i));
    return;
  }
  std::vector<Expr> inputs, shapes;
  for (int i = 0; i < count; ++i) inputs.push_back(c.input(first + i));
  const Expr shape = Op("ShapeN", {inputs});
  for (int i = 0; i < count; ++i) shapes.push_back(shape.Sibling(i));
  const Expr offsets = Op("ConcatOffset", {axis, shapes});
  for (int i = 0; i < count; ++i) {
    if (c.wants(first + i))
      c.SetInputGrad(first + i, Op("Slice", {dy, offsets.Sibling(i), shapes[static_cast<size_t>(i)]}));
  }
}

// As above for IndexedSlices: the rows of each input along the first axis, their parts along another.
void SetConcatSlices(GradientContext& c, int first, int count, int64_t axis) {
  const IndexedSlices& dy = c.grad_value(0).slices;
  GraphBuilder& b = c.builder();
  const Expr values(b, dy.values), indices(b, dy.indices);
  if (axis > 0) {
    std::vector<Expr> sizes;
    const Expr at = Scalar(b, DataType::kInt32, static_cast<double>(axis));
    sizes.reserve(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i)
      sizes.push_back(JoinVectors({GatherRows(DenseShapeOf(c.input(first + i)), at)}));
    const Expr parts = Op("SplitV", {values, JoinVectors(sizes), at}, {{"num_split", count}});
    for (int i = 0; i < count; ++i)
      c.SetInputSlices(first + i, parts.Sibling(i), indices, DenseShapeOf(c.input(first + i)));
    return;
  }
  Expr begin = ScalarLike(indices, 0);
  for (int i = 0; i < count; ++i) {
    const Expr shape = DenseShapeOf(c.input(first + i));
    const Expr end = begin + CastTo(FirstSize(shape), indices.dtype());
    const Expr inside = Op("LogicalAnd", {Op("GreaterEqual", {indices, begin}), Op("Less", {indices, end})});
    const Expr rows = Reshape(Op("Where", inside), Vector(b, DataType::kInt32, {-1}));
    if (c.wants(first + i))
      c.SetInputSlices(first + i, GatherRows(values, rows), GatherRows(indices, rows) - begin, shape);
    begin = end;
  }
}

// Sets the gradients of a concatenation along the axis that `axis_input` names.
void SetGrads(GradientContext& c, int first, int count, const Expr& axis_input) {
  const auto axis = StaticIntegers(axis_input);
  if (c.has_slices(0) && axis.ok() && axis->size() == 1) {
    const int rank = c.output(0).shape().rank();
    const int64_t at = (*axis)[0] < 0 ? (*axis)[0] + rank : (*axis)[0];
    if (at == 0 || (at > 0 && at < rank)) return SetConcatSlices(c, first, count, at);
  }
  SetConcatGrads(c, first, count, axis_input);
}

Status ConcatGrad(GradientContext& c) {
  SetGrads(c, 1, c.num_inputs() - 1, c.input(0));
  return c.status();
}

Status ConcatV2Grad(GradientContext& c) {
  SetGrads(c, 0, c.num_inputs() - 1, c.input(c.num_inputs() - 1));
  return c.status();
}

std::vector<Expr> AllGrads(GradientContext& c) {
  std::vector<Expr> grads;
  grads.reserve(static_cast<size_t>(c.num_outputs()));
  for (int i = 0; i < c.num_outputs(); ++i) grads.push_back(c.grad_or_zeros(i));
  return grads;
}

// Joins the gradients of all parts along the axis that input `axis` names.
template <int kValue, int kAxis>
Status SplitGrad(GradientContext& c) {
  const std::vector<Expr> grads = AllGrads(c);
  c.SetInputGrad(kValue, grads.size() == 1 ? grads[0] : Op("ConcatV2", {grads, c.input(kAxis)}));
  return c.status();
}

Status PackGrad(GradientContext& c) {
  const Expr parts = Op("Unpack", {c.grad(0)}, {{"num", c.num_inputs()}, {"axis", c.Attr<int64_t>("axis")}});
  for (int i = 0; i < c.num_inputs(); ++i) c.SetInputGrad(i, parts.Sibling(i));
  return c.status();
}

Status UnpackGrad(GradientContext& c) {
  c.SetInputGrad(0, Op("Pack", {AllGrads(c)}, {{"axis", c.Attr<int64_t>("axis")}}));
  return c.status();
}

// Each dimension of dy is seen as two, [copy, place in x], and summed over the copies.
Status TileGrad(GradientContext& c) {
  const Expr x = c.input(0), multiples = c.input(1), dy = c.grad(0);
  const int rank = x.shape().rank();
  const Expr pairs = Op("Pack", {std::vector<Expr>{multiples, ShapeOf(x, multiples.dtype())}}, {{"axis", 1}});
  const Expr split = Reshape(dy, Reshape(pairs, Vector(c.builder(), DataType::kInt32, {-1})));
  Expr copies;
  if (rank >= 0) {
    std::vector<int64_t> even;
    even.reserve(static_cast<size_t>(rank));
    for (int i = 0; i < rank; ++i) even.push_back(2 * i);
    copies = Vector(c.builder(), DataType::kInt32, even);
  } else {
    const Expr r = RankOf(x);
    copies = Op("Range", {ScalarLike(r, 0), 2.0 * r, ScalarLike(r, 2)});
  }
  c.SetInputGrad(0, Sum(split, copies));
  return c.status();
}

// The part of dy at the position of x.
Expr Unpad(GradientContext& c) {
  const Expr x = c.input(0), paddings = c.input(1);
  const auto vector = [&](const std::vector<int64_t>& v) { return VectorLike(paddings, v); };
  const Expr before = Op("Slice", {paddings, vector({0, 0}), vector({-1, 1})});
  const Expr begin = Reshape(before, Vector(c.builder(), DataType::kInt32, {-1}));
  return Op("Slice", {c.grad(0), begin, ShapeOf(x, paddings.dtype())});
}

Status PadGrad(GradientContext& c) {
  c.SetInputGrad(0, Unpad(c));
  return c.status();
}

Status PadV2Grad(GradientContext& c) {
  const Expr dx = Unpad(c);
  c.SetInputGrad(0, dx);
  if (c.wants(2)) c.SetInputGrad(2, AllInOne(c.grad(0)) - AllInOne(dx));
  return c.status();
}

Status CheckNumericsGrad(GradientContext& c) {
  const char* message = "Not a number (NaN) or infinity (Inf) values detected in gradient.";
  c.SetInputGrad(0, Op("CheckNumerics", {c.grad(0)}, {{"message", message}}));
  return c.status();
}

constexpr Row kRows[] = {
    {"BroadcastTo", BroadcastToGrad},
    {"CheckNumerics", CheckNumericsGrad},
    {"Concat", ConcatGrad},
    {"ConcatV2", ConcatV2Grad},
    {"EnsureShape", PassThrough},
    {"ExpandDims", ReshapeGrad},
    {"Fill", FillGrad},
    {"Identity", PassThrough},
    {"IdentityN", IdentityNGrad},
    {"Pack", PackGrad},
    {"Pad", PadGrad},
    {"PadV2", PadV2Grad},
    {"PlaceholderWithDefault", PassThrough},
    {"PreventGradient", PreventGradientGrad},
    {"Reshape", ReshapeGrad},
    {"Reverse", ReverseGrad},
    {"ReverseV2", ReverseGrad},
    {"Snapshot", PassThrough},
    {"Split", SplitGrad<1, 0>},
    {"SplitV", SplitGrad<0, 2>},
    {"Squeeze", ReshapeGrad},
    {"Tile", TileGrad},
    {"Transpose", TransposeGrad},
    {"Unpack", UnpackGrad},
};

}  // namespace

Status RegisterArrayGradients(GradientRegistry& registry) { return gradients::RegisterEach(registry, kRows); }

}  // namespace millrace
