// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Kin of convolution, and what moves blocks and borders of images.

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

// Of ops that only move elements: the other one moves them back. Input 1 and, where there is one, input 2 say
// how.
template <const char* kOther>
Status MovedBack(GradientContext& c) {
  AttrMap attrs;
  for (const char* attr : {"mode", "block_size", "data_format"}) {
    if (const AttrValue* value = c.node().attrs().Find(attr); value != nullptr) attrs.Set(attr, *value);
  }
  const Expr dy = c.grad(0);
  switch (c.num_inputs()) {
    case 1:
      c.SetInputGrad(0, Op(kOther, {dy}, attrs));
      break;
    case 2:
      c.SetInputGrad(0, Op(kOther, {dy, c.input(1)}, attrs));
      break;
    default:
      c.SetInputGrad(0, Op(kOther, {dy, c.input(1), c.input(2)}, attrs));
      break;
  }
  return c.status();
}

AttrMap FakeQuantAttrs(GradientContext& c) { return c.CopyAttrs({"num_bits", "narrow_range"}); }

Status FakeQuantArgsGrad(GradientContext& c) {
  c.SetInputGrad(0, Op("FakeQuantWithMinMaxArgsGradient", {c.grad(0), c.input(0)},
                       c.CopyAttrs({"min", "max", "num_bits", "narrow_range"})));
  return c.status();
}

template <const char* kGradient>
Status FakeQuantVarsGrad(GradientContext& c) {
  const Expr dx = Op(kGradient, {c.grad(0), c.input(0), c.input(1), c.input(2)}, FakeQuantAttrs(c));
  for (int i = 0; i < 3; ++i) {
    if (c.wants(i)) c.SetInputGrad(i, dx.Sibling(i));
  }
  return c.status();
}

constexpr char kBatchToSpace[] = "BatchToSpace";
constexpr char kBatchToSpaceNd[] = "BatchToSpaceND";
constexpr char kDepthToSpace[] = "DepthToSpace";
constexpr char kMirrorPad[] = "MirrorPad";
constexpr char kMirrorPadGrad[] = "MirrorPadGrad";
constexpr char kSpaceToBatch[] = "SpaceToBatch";
constexpr char kSpaceToBatchNd[] = "SpaceToBatchND";
constexpr char kSpaceToDepth[] = "SpaceToDepth";
constexpr char kVars[] = "FakeQuantWithMinMaxVarsGradient";
constexpr char kVarsPerChannel[] = "FakeQuantWithMinMaxVarsPerChannelGradient";

constexpr Row kRows[] = {
    {"BatchToSpace", MovedBack<kSpaceToBatch>},
    {"BatchToSpaceND", MovedBack<kSpaceToBatchNd>},
    {"DepthToSpace", MovedBack<kSpaceToDepth>},
    {"DepthwiseConv2dNative", DepthwiseGrad},
    {"DepthwiseConv2dNativeBackpropFilter", DepthwiseBackpropFilterGrad},
    {"DepthwiseConv2dNativeBackpropInput", DepthwiseBackpropInputGrad},
    {"Dilation2D", DilationGrad},
    {"FakeQuantWithMinMaxArgs", FakeQuantArgsGrad},
    {"FakeQuantWithMinMaxVars", FakeQuantVarsGrad<kVars>},
    {"FakeQuantWithMinMaxVarsPerChannel", FakeQuantVarsGrad<kVarsPerChannel>},
    {"LRN", ResponseNormGrad},
    {"MaxPoolGradWithArgmax", MaxPoolGradWithArgmaxGrad},
    {"MaxPoolWithArgmax", MaxPoolWithArgmaxGrad},
    {"MirrorPad", MovedBack<kMirrorPadGrad>},
    {"MirrorPadGrad", MovedBack<kMirrorPad>},
    {"SpaceToBatch", MovedBack<kBatchToSpace>},
    {"SpaceToBatchND", MovedBack<kBatchToSpaceNd>},
    {"SpaceToDepth", MovedBack<kDepthToSpace>},
};

}  // namespace

Status RegisterNnSpatialGradients(GradientRegistry& registry) {
  return gradients::RegisterEach(registry, kRows);
}

}  // namespace millrace
