// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Dilation, depthwise convolution and pooling with indices.

#include "gradients/family.h"

namespace millrace {
namespace {

using gradients::Row;

AttrMap DepthwiseAttrs(GradientContext& c) {
  return c.CopyAttrs({"strides", "padding", "data_format", "dilations"});
}
Expr Filtered(GradientContext& c, const Expr& x, const Expr& filter) {
  return Op("DepthwiseConv2dNative", {x, filter}, DepthwiseAttrs(c));
}
Expr ForInput(GradientContext& c, const Expr& x, const Expr& filter, const Expr& dy) {
  return Op("DepthwiseConv2dNativeBackpropInput", {ShapeOf(x), filter, dy}, DepthwiseAttrs(c));
}
Expr ForFilter(GradientContext& c, const Expr& x, const Expr& filter, const Expr& dy) {
  return Op("DepthwiseConv2dNativeBackpropFilter", {x, ShapeOf(filter), dy}, DepthwiseAttrs(c));
}

Status DepthwiseGrad(GradientContext& c) {
  const Expr x = c.input(0), filter = c.input(1), dy = c.grad(0);
  if (c.wants(0)) c.SetInputGrad(0, ForInput(c, x, filter, dy));
  if (c.wants(1)) c.SetInputGrad(1, ForFilter(c, x, filter, dy));
  return c.status();
}

// Inputs: input_sizes, filter, out_backprop.
Status DepthwiseBackpropInputGrad(GradientContext& c) {
  const Expr filter = c.input(1), backprop = c.input(2), dz = c.grad(0);
  if (c.wants(1)) c.SetInputGrad(1, ForFilter(c, dz, filter, backprop));
  if (c.wants(2)) c.SetInputGrad(2, Filtered(c, dz, filter));
  return c.status();
}

// Inputs: input, filter_sizes, out_backprop.
Status DepthwiseBackpropFilterGrad(GradientContext& c) {
  const Expr x = c.input(0), backprop = c.input(2), dz = c.grad(0);
  if (c.wants(0)) c.SetInputGrad(0, ForInput(c, x, dz, backprop));
  if (c.wants(2)) c.SetInputGrad(2, Filtered(c, x, dz));
  return c.status();
}

Status DilationGrad(GradientContext& c) {
  const AttrMap attrs = c.CopyAttrs({"strides", "rates", "padding"});
  const Expr x = c.input(0), filter = c.input(1), dy = c.grad(0);
  if (c.wants(0)) c.SetInputGrad(0, Op("Dilation2DBackpropInput", {x, filter, dy}, attrs));
  if (c.wants(1)) c.SetInputGrad(1, Op("Dilation2DBackpropFilter", {x, filter, dy}, attrs));
  return c.status();
}

Status ResponseNormGrad(GradientContext& c) {
  c.SetInputGrad(0, Op("LRNGrad", {c.grad(0), c.input(0), c.output(0)},
                       c.CopyAttrs({"depth_radius", "bias", "alpha", "beta"})));
  return c.status();
}

AttrMap ArgmaxAttrs(GradientContext& c) {
  return c.CopyAttrs({"ksize", "strides", "padding", "include_batch_in_index"});
}

// Output 1 are indices.
Status MaxPoolWithArgmaxGrad(GradientContext& c) {
  if (!c.has_grad(0)) return c.status();
  c.SetInputGrad(0, Op("MaxPoolGradWithArgmax", {c.input(0), c.grad(0), c.output(1)}, ArgmaxAttrs(c)));
  return c.status();
}

// Inputs: input, grad, argmax. The values of the input do not matter.
Status MaxPoolGradWithArgmaxGrad(GradientContext& c) {
  if (c.wants(0)) c.SetInputGrad(0, ZerosLike(c.input(0)));
  if (c.wants(1)) {
    c.SetInputGrad(1, Op("MaxPoolGradGradWithArgmax", {c.input(0), c.grad(0), c.input(2)}, ArgmaxAttrs(c)));
  }
  return c.status();
}

constexpr Row kRows[] = {
    {"DepthwiseConv2dNative", DepthwiseGrad},
    {"DepthwiseConv2dNativeBackpropFilter", DepthwiseBackpropFilterGrad},
    {"DepthwiseConv2dNativeBackpropInput", DepthwiseBackpropInputGrad},
    {"Dilation2D", DilationGrad},
    {"LRN", ResponseNormGrad},
    {"MaxPoolGradWithArgmax", MaxPoolGradWithArgmaxGrad},
    {"MaxPoolWithArgmax", MaxPoolWithArgmaxGrad},
};

}  // namespace

Status RegisterNnSpatialGradients(GradientRegistry& registry) {
  return gradients::RegisterEach(registry, kRows);
}

}  // namespace millrace
