// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Branches. The nodes that make up a loop have no gradient of their own: see autodiff/loop_gradient.h.
#include "gradients/family.h"

namespace millrace {
namespace {

// Zeros of the shape of `x`, which are dead if `x` is; for a resource of the shape of its value.
Expr ZerosBeside(const Expr& x, const Expr& like) {
  if (x.dtype() != DataType::kResource) return ZerosLike(x);
  return Fill(Op("VariableShape", x), ScalarLike(like, 0));
}

// The same for gradients that may be slices.
GradientValue NothingBeside(GradientContext& c, int side) {
  const GradientValue& other = c.grad_value(1 - side);
  if (!other.IsSlices()) return ZerosBeside(c.output(side), c.grad(1 - side)).output();
  const auto type_of = [&](const Output& x) { return Expr(c.builder(), x).dtype(); };
  return NoSlices(c.builder(), c.output(side).output(), type_of(other.slices.values),
                  type_of(other.slices.indices));
}

Expr Merge(GradientContext& c, const Output& zero, const Output& one) {
  return Op("Merge", {std::vector<Expr>{{c.builder(), zero}, {c.builder(), one}}});
}

// One branch runs, with its gradient; a branch whose result is not used has a gradient of zeros.
Status SwitchGrad(GradientContext& c) {
  const GradientValue zero = c.has_grad(0) ? c.grad_value(0) : NothingBeside(c, 0);
  const GradientValue one = c.has_grad(1) ? c.grad_value(1) : NothingBeside(c, 1);
  MR_RETURN_IF_ERROR(c.status());
  if (zero.IsSlices() && one.IsSlices()) {
    GraphBuilder& b = c.builder();
    Expr first(b, zero.slices.indices), second(b, one.slices.indices);
    if (first.dtype() != second.dtype()) {
      first = CastTo(first, DataType::kInt64);
      second = CastTo(second, DataType::kInt64);
    }
    c.SetInputSlices(0, Merge(c, zero.slices.values, one.slices.values),
                     Merge(c, first.output(), second.output()), DenseShapeOf(c.input(0)));
    return c.status();
  }
  const auto dense = [&](int side, const GradientValue& value) {
    return DenseGradient(c.builder(), value, c.output(side).output());
  };
  const Output first = dense(0, zero), second = dense(1, one);
  MR_RETURN_IF_ERROR(c.status());
  c.SetInputGrad(0, Merge(c, first, second));
  return c.status();
}

// `x` on both sides of the condition.
Expr Sides(const Expr& x, const Expr& condition) { return Op("Switch", {x, condition}); }

// The gradient of input `i`, which is output `side` of a Switch by the condition.
void SendTo(GradientContext& c, int i, int side, const GradientValue& sides) {
  const auto of = [side](const Output& x) { return x.IsSet() ? Output{x.node, side} : x; };
  if (!sides.IsSlices()) {
    c.SetInputGrad(i, GradientValue(of(sides.dense)));
  } else {
    c.SetInputGrad(
        i, IndexedSlices{of(sides.slices.values), of(sides.slices.indices), of(sides.slices.dense_shape)});
  }
}

GradientValue SwitchAll(GradientContext& c, const Expr& condition) {
  GraphBuilder& b = c.builder();
  const GradientValue& grad = c.grad_value(0);
  if (!grad.IsSlices()) return Sides(c.grad(0), condition).output();
  const Expr shape =
      grad.slices.dense_shape.IsSet() ? Expr(b, grad.slices.dense_shape) : ShapeOf(c.output(0));
  return IndexedSlices{Sides({b, grad.slices.values}, condition).output(),
                       Sides({b, grad.slices.indices}, condition).output(), Sides(shape, condition).output()};
}

// The gradient goes to the input that was forwarded.
Status MergeGrad(GradientContext& c) {
  if (!c.has_grad(0)) return c.status();
  const Expr which = c.output(1);
  if (c.num_inputs() == 2) {
    const GradientValue sides = SwitchAll(c, Op("Equal", {which, ScalarLike(which, 1)}));
    MR_RETURN_IF_ERROR(c.status());
    for (int i = 0; i < 2; ++i) SendTo(c, i, i, sides);
    return c.status();
  }
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (!c.wants(i)) continue;
    const GradientValue sides = SwitchAll(c, Op("Equal", {which, ScalarLike(which, i)}));
    MR_RETURN_IF_ERROR(c.status());
    SendTo(c, i, 1, sides);
  }
  return c.status();
}

constexpr gradients::Row kRows[] = {
    {"Merge", MergeGrad},    {"RefIdentity", gradients::PassThrough},
    {"RefMerge", MergeGrad}, {"RefSwitch", SwitchGrad},
    {"Switch", SwitchGrad},
};

}  // namespace

Status RegisterControlFlowGradients(GradientRegistry& registry) {
  return gradients::RegisterEach(registry, kRows);
}

}  // namespace millrace
