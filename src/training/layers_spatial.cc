// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Convolutions and pooling.
#include "millrace/ops.h"
#include "training/formula.h"
#include "training/layers_common.h"

namespace millrace::layers {
namespace {

const char* NameOf(Padding padding) { return padding == Padding::kSame ? "SAME" : "VALID"; }

// 1, sizes, 1: one number for each axis of the input.
std::vector<int64_t> Full(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> full = {1};
  full.insert(full.end(), sizes.begin(), sizes.end());
  full.push_back(1);
  return full;
}

// The sizes of a convolution along the axes of the image.
struct Sizes {
  std::vector<int64_t> kernel, strides, dilation;
  int64_t channels = 0;
};

StatusOr<Sizes> CheckConv(const Scope& scope, const char* layer, const Output& x, size_t axes,
                          const std::vector<int64_t>& kernel, int64_t filters, const ConvOptions& conv) {
  MR_RETURN_IF_ERROR(CheckInput(scope, layer, x, static_cast<int>(axes) + 2));
  if (filters < 1) return errors::InvalidArgument(layer, ": expected at least 1 filter, got ", filters);
  if (conv.depth_multiplier < 1) return errors::InvalidArgument(layer, ": depth_multiplier must be positive");
  Sizes sizes;
  MR_ASSIGN_OR_RETURN(sizes.kernel, PerAxis(layer, "kernel_size", kernel, axes));
  MR_ASSIGN_OR_RETURN(sizes.strides, PerAxis(layer, "strides", conv.strides, axes));
  MR_ASSIGN_OR_RETURN(sizes.dilation, PerAxis(layer, "dilation", conv.dilation, axes));
  sizes.channels = scope.ShapeOf(x).dim(static_cast<int>(axes) + 1);
  return sizes;
}

PartialShape KernelShape(const std::vector<int64_t>& sizes, int64_t in, int64_t out) {
  std::vector<int64_t> dims = sizes;
  dims.push_back(in);
  dims.push_back(out);
  return PartialShape(dims);
}

Output Conv(const Scope& scope, const char* layer, const char* op, size_t axes, const Output& x,
            int64_t filters, const std::vector<int64_t>& kernel_size, const ConvOptions& conv,
            const WeightOptions& options) {
  const auto sizes = CheckConv(scope, layer, x, axes, kernel_size, filters, conv);
  scope.UpdateStatus(sizes.status());
  if (!scope.ok()) return {};
  const Scope own = EnterLayer(scope, options.name, layer);
  const Output kernel = GetPartitionedVariable(
      own, "kernel", KernelShape(sizes->kernel, sizes->channels, filters), KernelOptions(x, options));
  OpAttrs attrs;
  attrs.Set("strides", Full(sizes->strides));
  attrs.Set("dilations", Full(sizes->dilation));
  attrs.Set("padding", NameOf(conv.padding));
  return Finish(own, AddOp(own, op, {x, kernel}, attrs), filters, options);
}

Output Pool(const Scope& scope, const char* layer, const char* op, size_t axes, const Output& x,
            const std::vector<int64_t>& pool_size, const std::vector<int64_t>& strides,
            const PoolOptions& options) {
  const auto size = PerAxis(layer, "pool_size", pool_size, axes);
  const auto stride = PerAxis(layer, "strides", strides, axes);
  scope.UpdateStatus(size.status());
  scope.UpdateStatus(stride.status());
  if (!scope.ok()) return {};
  OpAttrs attrs;
  attrs.Set("ksize", Full(*size));
  attrs.Set("strides", Full(*stride));
  attrs.Set("padding", NameOf(options.padding));
  return AddOp(EnterLayer(scope, options.name, layer), op, {x}, attrs);
}

}  // namespace

Output Conv2D(const Scope& scope, const Output& x, int64_t filters, const Pair& kernel_size,
              const ConvOptions& conv, const WeightOptions& options) {
  return Conv(scope, "conv2d", "Conv2D", 2, x, filters, kernel_size, conv, options);
}

Output Conv3D(const Scope& scope, const Output& x, int64_t filters, const std::vector<int64_t>& kernel_size,
              const ConvOptions& conv, const WeightOptions& options) {
  return Conv(scope, "conv3d", "Conv3D", 3, x, filters, kernel_size, conv, options);
}

Output SeparableConv2D(const Scope& scope, const Output& x, int64_t filters, const Pair& kernel_size,
                       const ConvOptions& conv, const WeightOptions& options) {
  const auto sizes = CheckConv(scope, "separable_conv2d", x, 2, kernel_size, filters, conv);
  scope.UpdateStatus(sizes.status());
  if (!scope.ok()) return {};
  const Scope own = EnterLayer(scope, options.name, "separable_conv2d");
  const int64_t channels = sizes->channels, multiplier = conv.depth_multiplier;
  const Output depthwise = GetPartitionedVariable(
      own, "depthwise_kernel", KernelShape(sizes->kernel, channels, multiplier), KernelOptions(x, options));
  GetVariableOptions of_points = KernelOptions(x, options);
  of_points.initializer = conv.pointwise_initializer;
  of_points.regularizer = conv.pointwise_regularizer;
  const Output pointwise =
      GetPartitionedVariable(own, "pointwise_kernel", {1, 1, channels * multiplier, filters}, of_points);
  const Scope steps = own.NewSubScope("separable_conv2d");
  const Output each = ops::DepthwiseConv2dNative(
      steps.WithOpName("depthwise"), x, depthwise, Full(sizes->strides), NameOf(conv.padding),
      ops::DepthwiseConv2dNative::Dilations(Full(sizes->dilation)));
  const Output all = ops::Conv2D(steps.WithOpName("/"), each, pointwise, {1, 1, 1, 1}, "VALID");
  return Finish(own, all, filters, options);
}

Output Conv2DTranspose(const Scope& scope, const Output& x, int64_t filters, const Pair& kernel_size,
                       const ConvOptions& conv, const WeightOptions& options) {
  const auto sizes = CheckConv(scope, "conv2d_transpose", x, 2, kernel_size, filters, conv);
  scope.UpdateStatus(sizes.status());
  if (scope.ok() && sizes->dilation != Pair{1, 1}) {
    scope.UpdateStatus(errors::Unimplemented("conv2d_transpose: dilation"));
  }
  if (!scope.ok()) return {};
  const Scope own = EnterLayer(scope, options.name, "conv2d_transpose");
  const Output kernel = GetPartitionedVariable(
      own, "kernel", KernelShape(sizes->kernel, filters, sizes->channels), KernelOptions(x, options));
  const Output shape = ops::Shape(own, x);
  std::vector<Input> wanted = {ops::StridedSlice(own.WithOpName("strided_slice"), shape, {0}, {1}, {1},
                                                 ops::StridedSlice::ShrinkAxisMask(1))
                                   .output};
  const PartialShape known = scope.ShapeOf(x);
  for (int i = 0; i < 2; ++i) {
    const auto axis = static_cast<size_t>(i);
    const int64_t stride = sizes->strides[axis];
    const int64_t more =
        conv.padding == Padding::kSame ? 0 : std::max<int64_t>(sizes->kernel[axis] - stride, 0);
    if (known.dim(i + 1) >= 0) {
      wanted.emplace_back(static_cast<int32_t>(known.dim(i + 1) * stride + more));
      continue;
    }
    const Output size = ops::StridedSlice(own.WithOpName("strided_slice"), shape, {i + 1}, {i + 2}, {1},
                                          ops::StridedSlice::ShrinkAxisMask(1));
    wanted.emplace_back(
        (Formula(own, size) * static_cast<double>(stride) + static_cast<double>(more)).tensor());
  }
  wanted.emplace_back(static_cast<int32_t>(filters));
  const Output result_shape = ops::Pack(own.WithOpName("stack"), InputList(wanted));
  const Output grown = ops::Conv2DBackpropInput(own.WithOpName("conv2d_transpose"), result_shape, kernel, x,
                                                Full(sizes->strides), NameOf(conv.padding));
  return Finish(own, grown, filters, options);
}

Output MaxPooling2D(const Scope& scope, const Output& x, const Pair& pool_size, const Pair& strides,
                    const PoolOptions& options) {
  return Pool(scope, "max_pooling2d", "MaxPool", 2, x, pool_size, strides, options);
}
Output AveragePooling2D(const Scope& scope, const Output& x, const Pair& pool_size, const Pair& strides,
                        const PoolOptions& options) {
  return Pool(scope, "average_pooling2d", "AvgPool", 2, x, pool_size, strides, options);
}
Output MaxPooling3D(const Scope& scope, const Output& x, const std::vector<int64_t>& pool_size,
                    const std::vector<int64_t>& strides, const PoolOptions& options) {
  return Pool(scope, "max_pooling3d", "MaxPool3D", 3, x, pool_size, strides, options);
}
Output AveragePooling3D(const Scope& scope, const Output& x, const std::vector<int64_t>& pool_size,
                        const std::vector<int64_t>& strides, const PoolOptions& options) {
  return Pool(scope, "average_pooling3d", "AvgPool3D", 3, x, pool_size, strides, options);
}

}  // namespace millrace::layers
