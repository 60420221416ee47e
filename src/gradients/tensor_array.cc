// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Arrays of tensors. The gradient of an array is another array under the same index, made by
// TensorArrayGradV3: what was read is added to it, what was written is read from it. Order is told by the
// flow: an op's gradient with respect to the flow that it takes is the flow of the gradient array after it
// was changed.
#include "gradients/family.h"
#include "gradients/register.h"

namespace millrace {
namespace {

// The array of gradients of the one behind input 0, and its flow once `flow` has arrived. All ops of one
// gradient computation find the same one.
struct GradientArray {
  Expr handle;
  Expr flow;
};
GradientArray GradientOf(GradientContext& c, const Expr& flow) {
  const Expr handle = Op("TensorArrayGradV3", {c.input(0), flow}, {{"source", c.scope()}});
  return {handle, handle.Sibling(1)};
}

// handle, index, flow -> value
Status ReadGrad(GradientContext& c) {
  const GradientArray g = GradientOf(c, c.input(2));
  c.SetInputGrad(2, Op("TensorArrayWriteV3", {g.handle, c.input(1), c.grad(0), g.flow}));
  return c.status();
}

// handle, index, value, flow -> flow
Status WriteGrad(GradientContext& c) {
  const Expr flow = c.grad(0);
  if (c.wants(2)) {
    const GradientArray g = GradientOf(c, flow);
    const Expr dx = Op("TensorArrayReadV3", {g.handle, c.input(1), g.flow}, {{"dtype", c.input(2).dtype()}});
    c.SetInputGrad(2, dx);
  }
  c.SetInputGrad(3, flow);
  return c.status();
}

// handle, indices, flow -> value
Status GatherGrad(GradientContext& c) {
  const GradientArray g = GradientOf(c, c.input(2));
  c.SetInputGrad(2, Op("TensorArrayScatterV3", {g.handle, c.input(1), c.grad(0), g.flow}));
  return c.status();
}

// handle, indices, value, flow -> flow
Status ScatterGrad(GradientContext& c) {
  const Expr flow = c.grad(0);
  if (c.wants(2)) {
    const GradientArray g = GradientOf(c, flow);
    const Expr dx =
        Op("TensorArrayGatherV3", {g.handle, c.input(1), g.flow}, {{"dtype", c.input(2).dtype()}});
    c.SetInputGrad(2, dx);
  }
  c.SetInputGrad(3, flow);
  return c.status();
}

// handle, value, lengths, flow -> flow
Status SplitGrad(GradientContext& c) {
  const Expr flow = c.grad(0);
  if (c.wants(1)) {
    const GradientArray g = GradientOf(c, flow);
    c.SetInputGrad(1, Op("TensorArrayConcatV3", {g.handle, g.flow}, {{"dtype", c.input(1).dtype()}}));
  }
  c.SetInputGrad(3, flow);
  return c.status();
}

// handle, flow -> value, lengths
Status ConcatGrad(GradientContext& c) {
  if (!c.has_grad(0)) return c.status();
  const GradientArray g = GradientOf(c, c.input(1));
  c.SetInputGrad(1, Op("TensorArraySplitV3", {g.handle, c.grad(0), c.output(1), g.flow}));
  return c.status();
}

// handle, flow -> handle, flow. The flow alone carries what depends on it.
Status GradGrad(GradientContext& c) {
  if (c.has_grad(1)) c.SetInputGrad(1, c.grad(1));
  return c.status();
}

constexpr gradients::Row kRows[] = {
    {"TensorArrayConcatV3", ConcatGrad},   {"TensorArrayGatherV3", GatherGrad},
    {"TensorArrayGradV3", GradGrad},       {"TensorArrayReadV3", ReadGrad},
    {"TensorArrayScatterV3", ScatterGrad}, {"TensorArraySplitV3", SplitGrad},
    {"TensorArrayWriteV3", WriteGrad},
};

}  // namespace

Status RegisterTensorArrayGradients(GradientRegistry& registry) {
  return gradients::RegisterEach(registry, kRows);
}

}  // namespace millrace
