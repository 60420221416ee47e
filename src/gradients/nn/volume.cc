// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Convolution and pooling of volumes, and pooling of images by fractions or with windows that are inputs.

#include "gradients/family.h"

namespace millrace {
namespace {

using gradients::Row;

AttrMap ConvAttrs(GradientContext& c) {
  return c.CopyAttrs({"strides", "padding", "data_format", "dilations"});
}
Expr Convolve(GradientContext& c, const Expr& x, const Expr& filter) {
  return Op("Conv3D", {x, filter}, ConvAttrs(c));
}
Expr ForInput(GradientContext& c, const Expr& x, const Expr& filter, const Expr& dy) {
  return Op("Conv3DBackpropInputV2", {ShapeOf(x), filter, dy}, ConvAttrs(c));
}
Expr ForFilter(GradientContext& c, const Expr& x, const Expr& filter, const Expr& dy) {
  return Op("Conv3DBackpropFilterV2", {x, ShapeOf(filter), dy}, ConvAttrs(c));
}

Status Conv3DGrad(GradientContext& c) {
  const Expr x = c.input(0), filter = c.input(1), dy = c.grad(0);
  if (c.wants(0)) c.SetInputGrad(0, ForInput(c, x, filter, dy));
  if (c.wants(1)) c.SetInputGrad(1, ForFilter(c, x, filter, dy));
  return c.status();
}

// Inputs: input_sizes, filter, out_backprop.
Status Conv3DBackpropInputGrad(GradientContext& c) {
  const Expr filter = c.input(1), backprop = c.input(2), dz = c.grad(0);
  if (c.wants(1)) c.SetInputGrad(1, ForFilter(c, dz, filter, backprop));
  if (c.wants(2)) c.SetInputGrad(2, Convolve(c, dz, filter));
  return c.status();
}

// Inputs: input, filter_sizes, out_backprop.
Status Conv3DBackpropFilterGrad(GradientContext& c) {
  const Expr x = c.input(0), backprop = c.input(2), dz = c.grad(0);
  if (c.wants(0)) c.SetInputGrad(0, ForInput(c, x, dz, backprop));
  if (c.wants(2)) c.SetInputGrad(2, Convolve(c, x, dz));
  return c.status();
}

AttrMap PoolAttrs(GradientContext& c) { return c.CopyAttrs({"ksize", "strides", "padding", "data_format"}); }

Status AvgPool3DGrad(GradientContext& c) {
  c.SetInputGrad(0, Op("AvgPool3DGrad", {ShapeOf(c.input(0)), c.grad(0)}, PoolAttrs(c)));
  return c.status();
}

Status AvgPool3DSecondGrad(GradientContext& c) {
  c.SetInputGrad(1, Op("AvgPool3D", {c.grad(0)}, PoolAttrs(c)));
  return c.status();
}

Status MaxPool3DGrad(GradientContext& c) {
  c.SetInputGrad(0, Op("MaxPool3DGrad", {c.input(0), c.output(0), c.grad(0)}, PoolAttrs(c)));
  return c.status();
}

// MaxPool3DGrad and MaxPool3DGradGrad are each other's gradients. Which element is the largest does not
// change with a small change of the input.
void NoGradOfChoice(GradientContext& c) {
  for (int i = 0; i < 2; ++i) {
    if (c.wants(i)) c.SetInputGrad(i, ZerosLike(c.input(i)));
  }
}
template <const char* kInverse>
Status MaxPool3DSecondGrad(GradientContext& c) {
  NoGradOfChoice(c);
  if (c.wants(2)) c.SetInputGrad(2, Op(kInverse, {c.input(0), c.input(1), c.grad(0)}, PoolAttrs(c)));
  return c.status();
}

// The attributes of ops that take ksize and strides as inputs.
AttrMap InputPoolAttrs(GradientContext& c) { return c.CopyAttrs({"padding", "data_format"}); }

Status MaxPoolV2Grad(GradientContext& c) {
  c.SetInputGrad(0, Op("MaxPoolGradV2", {c.input(0), c.output(0), c.grad(0), c.input(1), c.input(2)},
                       InputPoolAttrs(c)));
  return c.status();
}
template <const char* kInverse>
Status MaxPoolV2SecondGrad(GradientContext& c) {
  NoGradOfChoice(c);
  if (c.wants(2)) {
    c.SetInputGrad(
        2, Op(kInverse, {c.input(0), c.input(1), c.grad(0), c.input(3), c.input(4)}, InputPoolAttrs(c)));
  }
  return c.status();
}

Status FractionalMaxPoolGrad(GradientContext& c) {
  if (!c.has_grad(0)) return c.status();
  c.SetInputGrad(0,
                 Op("FractionalMaxPoolGrad", {c.input(0), c.output(0), c.grad(0), c.output(1), c.output(2)},
                    c.CopyAttrs({"overlapping"})));
  return c.status();
}
Status FractionalAvgPoolGrad(GradientContext& c) {
  if (!c.has_grad(0)) return c.status();
  c.SetInputGrad(0, Op("FractionalAvgPoolGrad",
                       {ShapeOf(c.input(0), DataType::kInt64), c.grad(0), c.output(1), c.output(2)},
                       c.CopyAttrs({"overlapping"})));
  return c.status();
}

constexpr char kMaxPool3DGrad[] = "MaxPool3DGrad";
constexpr char kMaxPool3DGradGrad[] = "MaxPool3DGradGrad";
constexpr char kMaxPoolGradV2[] = "MaxPoolGradV2";
constexpr char kMaxPoolGradGradV2[] = "MaxPoolGradGradV2";

constexpr Row kRows[] = {
    {"AvgPool3D", AvgPool3DGrad},
    {"AvgPool3DGrad", AvgPool3DSecondGrad},
    {"Conv3D", Conv3DGrad},
    {"Conv3DBackpropFilterV2", Conv3DBackpropFilterGrad},
    {"Conv3DBackpropInputV2", Conv3DBackpropInputGrad},
    {"FractionalAvgPool", FractionalAvgPoolGrad},
    {"FractionalMaxPool", FractionalMaxPoolGrad},
    {"MaxPool3D", MaxPool3DGrad},
    {"MaxPool3DGrad", MaxPool3DSecondGrad<kMaxPool3DGradGrad>},
    {"MaxPool3DGradGrad", MaxPool3DSecondGrad<kMaxPool3DGrad>},
    {"MaxPoolGradGradV2", MaxPoolV2SecondGrad<kMaxPoolGradV2>},
    {"MaxPoolGradV2", MaxPoolV2SecondGrad<kMaxPoolGradGradV2>},
    {"MaxPoolV2", MaxPoolV2Grad},
};

}  // namespace

Status RegisterVolumeGradients(GradientRegistry& registry) {
  return gradients::RegisterEach(registry, kRows);
}

}  // namespace millrace
