// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Branches. The nodes that make up a loop have no gradient of their own: see autodiff/loop_gradient.h.
#include "gradients/family.h"
#include "gradients/register.h"

namespace millrace {
namespace {

// Zeros of the shape of `x`, which run only when `x` does; of the shape of what it holds for a resource.
Expr ZerosBeside(const Expr& x, const Expr& like) {
  if (x.dtype() != DataType::kResource) return ZerosLike(x);
  return Fill(Op("VariableShape", x), ScalarLike(like, 0));
}

// One side runs, and its gradient with it; a side whose result nobody used has a gradient of zeros.
Status SwitchGrad(GradientContext& c) {
  const Expr zero = c.has_grad(0) ? c.grad(0) : ZerosBeside(c.output(0), c.grad(1));
  const Expr one = c.has_grad(1) ? c.grad(1) : ZerosBeside(c.output(1), c.grad(0));
  c.SetInputGrad(0, Op("Merge", {std::vector<Expr>{zero, one}}));
  return c.status();
}

// The gradient goes to the input that came through.
Status MergeGrad(GradientContext& c) {
  if (!c.has_grad(0)) return c.status();
  if (c.num_inputs() == 2) {
    const Expr sides = Op("Switch", {c.grad(0), Op("Equal", {c.output(1), ScalarLike(c.output(1), 1)})});
    for (int i = 0; i < 2; ++i) c.SetInputGrad(i, sides.Sibling(i));
    return c.status();
  }
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (!c.wants(i)) continue;
    const Expr came = Op("Equal", {c.output(1), ScalarLike(c.output(1), i)});
    c.SetInputGrad(i, Op("Switch", {c.grad(0), came}).Sibling(1));
  }
  return c.status();
}

constexpr gradients::Row kRows[] = {
    {"Merge", MergeGrad},
    {"RefMerge", MergeGrad},
    {"RefSwitch", SwitchGrad},
    {"Switch", SwitchGrad},
};

}  // namespace

Status RegisterControlFlowGradients(GradientRegistry& registry) {
  return gradients::RegisterEach(registry, kRows);
}

}  // namespace millrace
