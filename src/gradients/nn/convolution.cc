// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Convolution and pooling. All but the choice of maxima are linear, so that the gradients of their gradients
// are made of the same ops.
#include "gradients/family.h"

namespace millrace {
namespace {

using gradients::Row;

AttrMap ConvolutionAttrs(GradientContext& c) {
  return c.CopyAttrs(
      {"strides", "use_cudnn_on_gpu", "padding", "explicit_paddings", "data_format", "dilations"});
}

AttrMap PoolAttrs(GradientContext& c) { return c.CopyAttrs({"ksize", "strides", "padding", "data_format"}); }

Expr Convolve(GradientContext& c, const Expr& x, const Expr& filter) {
  return Op("Conv2D", {x, filter}, ConvolutionAttrs(c));
}
Expr ForInput(GradientContext& c, const Expr& x, const Expr& filter, const Expr& dy) {
  return Op("Conv2DBackpropInput", {ShapeOf(x), filter, dy}, ConvolutionAttrs(c));
}
Expr ForFilter(GradientContext& c, const Expr& x, const Expr& filter, const Expr& dy) {
  return Op("Conv2DBackpropFilter", {x, ShapeOf(filter), dy}, ConvolutionAttrs(c));
}

Status Conv2DGrad(GradientContext& c) {
  const Expr x = c.input(0), filter = c.input(1), dy = c.grad(0);
  if (c.wants(0)) c.SetInputGrad(0, ForInput(c, x, filter, dy));
  if (c.wants(1)) c.SetInputGrad(1, ForFilter(c, x, filter, dy));
  return c.status();
}

// Inputs: input_sizes, filter, out_backprop.
Status Conv2DBackpropInputGrad(GradientContext& c) {
  const Expr filter = c.input(1), backprop = c.input(2), dz = c.grad(0);
  if (c.wants(1)) c.SetInputGrad(1, ForFilter(c, dz, filter, backprop));
  if (c.wants(2)) c.SetInputGrad(2, Convolve(c, dz, filter));
  return c.status();
}

// Inputs: input, filter_sizes, out_backprop.
Status Conv2DBackpropFilterGrad(GradientContext& c) {
  const Expr x = c.input(0), backprop = c.input(2), dz = c.grad(0);
  if (c.wants(0)) c.SetInputGrad(0, ForInput(c, x, dz, backprop));
  if (c.wants(2)) c.SetInputGrad(2, Convolve(c, x, dz));
  return c.status();
}

Status AvgPoolGrad(GradientContext& c) {
  c.SetInputGrad(0, Op("AvgPoolGrad", {ShapeOf(c.input(0)), c.grad(0)}, PoolAttrs(c)));
  return c.status();
}

Status AvgPoolGradGrad(GradientContext& c) {
  c.SetInputGrad(1, Op("AvgPool", {c.grad(0)}, PoolAttrs(c)));
  return c.status();
}

Status MaxPoolGrad(GradientContext& c) {
  c.SetInputGrad(0, Op("MaxPoolGrad", {c.input(0), c.output(0), c.grad(0)}, PoolAttrs(c)));
  return c.status();
}

// MaxPoolGrad and MaxPoolGradGrad are each other's gradients. Which element is the largest does not change
// with a small change of the input.
template <const char* kInverse>
Status MaxPoolSecondGrad(GradientContext& c) {
  for (int i = 0; i < 2; ++i) {
    if (c.wants(i)) c.SetInputGrad(i, ZerosLike(c.input(i)));
  }
  if (c.wants(2)) c.SetInputGrad(2, Op(kInverse, {c.input(0), c.input(1), c.grad(0)}, PoolAttrs(c)));
  return c.status();
}

constexpr char kMaxPoolGrad[] = "MaxPoolGrad";
constexpr char kMaxPoolGradGrad[] = "MaxPoolGradGrad";

constexpr Row kRows[] = {
    {"AvgPool", AvgPoolGrad},
    {"AvgPoolGrad", AvgPoolGradGrad},
    {"Conv2D", Conv2DGrad},
    {"Conv2DBackpropFilter", Conv2DBackpropFilterGrad},
    {"Conv2DBackpropInput", Conv2DBackpropInputGrad},
    {"MaxPool", MaxPoolGrad},
    {"MaxPoolGrad", MaxPoolSecondGrad<kMaxPoolGradGrad>},
    {"MaxPoolGradGrad", MaxPoolSecondGrad<kMaxPoolGrad>},
};

}  // namespace

Status RegisterConvolutionGradients(GradientRegistry& registry) {
  return gradients::RegisterEach(registry, kRows);
}

}  // namespace millrace
