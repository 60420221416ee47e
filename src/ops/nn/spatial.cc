// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Dilation, depthwise convolution, other forms of pooling, and data formats.
#include "ops/family.h"
#include "ops/nn/spatial_shapes.h"

namespace millrace::ops {
namespace {

constexpr char kPadding[] = "padding: {'SAME', 'VALID'}";
constexpr char kRealOf115[] =
    "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64}";

OpBuilder Depthwise(const char* name, const char* first, const char* second) {
  return OpBuilder(name)
      .Input(first)
      .Input(second)
      .Output("output: T")
      .Attr("T: {half, bfloat16, float, double}")
      .Attr("strides: list(int)")
      .Attr(kPadding)
      .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
      .Attr("dilations: list(int) = [1, 1, 1, 1]");
}

OpBuilder WithMorphologyAttrs(OpBuilder op) {
  return op.Attr(kRealOf115).Attr("strides: list(int) >= 4").Attr("rates: list(int) >= 4").Attr(kPadding);
}

OpBuilder WithResponseAttrs(OpBuilder op) {
  return op.Output("output: T")
      .Attr("depth_radius: int = 5")
      .Attr("bias: float = 1")
      .Attr("alpha: float = 1")
      .Attr("beta: float = 0.5")
      .Attr("T: {half, bfloat16, float} = DT_FLOAT");
}

std::vector<OpBuilder> Filters() {
  return {
      Depthwise("DepthwiseConv2dNative: Convolves each channel of images with filters of its own.",
                "input: T", "filter: T")
          .Shape(DepthwiseShape)
          .Flops(FlopRule::kDepthwiseConvolution),
      Depthwise("DepthwiseConv2dNativeBackpropInput: The gradient of DepthwiseConv2dNative with respect to "
                "the images.",
                "input_sizes: int32", "filter: T")
          .Input("out_backprop: T")
          .Shape(DepthwiseBackpropInputShape),
      Depthwise("DepthwiseConv2dNativeBackpropFilter: The gradient of DepthwiseConv2dNative with respect to "
                "the filters.",
                "input: T", "filter_sizes: int32")
          .Input("out_backprop: T")
          .Shape(DepthwiseBackpropFilterShape),
      WithMorphologyAttrs(
          OpBuilder(
              "Dilation2D: The maximum over each window of the sum of image and filter (grayscale dilation).")
              .Input("input: T")
              .Input("filter: T")
              .Output("output: T"))
          .Shape(DilationShape),
      WithMorphologyAttrs(
          OpBuilder("Dilation2DBackpropInput: The gradient of Dilation2D with respect to the images.")
              .Input("input: T")
              .Input("filter: T")
              .Input("out_backprop: T")
              .Output("in_backprop: T"))
          .Shape(shape_fns::Unchanged),
      WithMorphologyAttrs(
          OpBuilder("Dilation2DBackpropFilter: The gradient of Dilation2D with respect to the filter.")
              .Input("input: T")
              .Input("filter: T")
              .Input("out_backprop: T")
              .Output("filter_backprop: T"))
          .Shape(LikeSecondInputShape),
      WithResponseAttrs(
          OpBuilder("LRN: Local response normalisation: divides elements by a norm of neighbouring channels.")
              .Input("input: T"))
          .Shape(ResponseNormShape),
      WithResponseAttrs(OpBuilder("LRNGrad: The gradient of LRN.")
                            .Input("input_grads: T")
                            .Input("input_image: T")
                            .Input("output_image: T"))
          .Shape(ResponseNormShape),
      OpBuilder("FusedPadConv2D: Pads images by mirroring, then convolves them.")
          .Input("input: T")
          .Input("paddings: int32")
          .Input("filter: T")
          .Output("output: T")
          .Attr("T: {half, float, double}")
          .Attr("mode: {'REFLECT', 'SYMMETRIC'}")
          .Attr("strides: list(int)")
          .Attr(kPadding)
          .Shape(FusedPadConvShape),
      OpBuilder("FusedResizeAndPadConv2D: Resizes images, pads them by mirroring, then convolves them.")
          .Input("input: T")
          .Input("size: int32")
          .Input("paddings: int32")
          .Input("filter: T")
          .Output("output: T")
          .Attr("T: {half, float, double}")
          .Attr("resize_align_corners: bool = false")
          .Attr("mode: {'REFLECT', 'SYMMETRIC'}")
          .Attr("strides: list(int)")
          .Attr(kPadding)
          .Shape(FusedPadConvShape),
  };
}

std::vector<OpBuilder> ArgmaxPools() {
  const auto gradient = [](const char* name) {
    return OpBuilder(name)
        .Input("input: T")
        .Input("grad: T")
        .Input("argmax: Targmax")
        .Output("output: T")
        .Attr("ksize: list(int) >= 4")
        .Attr("strides: list(int) >= 4")
        .Attr(kPadding)
        .Attr("include_batch_in_index: bool = false")
        .Attr("Targmax: {int32, int64}")
        .Attr(kRealOf115);
  };
  return {
      OpBuilder("MaxPoolWithArgmax: The largest element of each window of images, and its index.")
          .Input("input: T")
          .Output("output: T")
          .Output("argmax: Targmax")
          .Attr("ksize: list(int) >= 4")
          .Attr("strides: list(int) >= 4")
          .Attr("Targmax: {int32, int64} = DT_INT64")
          .Attr(kPadding)
          .Attr("include_batch_in_index: bool = false")
          .Attr(kRealOf115)
          .Shape(MaxPoolWithArgmaxShape),
      gradient("MaxPoolGradWithArgmax: The gradient of MaxPool, by the indices of the largest elements.")
          .Shape(ResponseNormShape),
      gradient("MaxPoolGradGradWithArgmax: The second gradient of MaxPool, by the indices of the largest "
               "elements.")
          .Shape(MaxPoolGradGradWithArgmaxShape),
  };
}

std::vector<OpBuilder> DataFormats() {
  return {
      OpBuilder("DataFormatDimMap: The index of a dimension in another data format.")
          .Input("x: T")
          .Output("y: T")
          .Attr("T: {int32, int64} = DT_INT32")
          .Attr("src_format: string = 'NHWC'")
          .Attr("dst_format: string = 'NCHW'")
          .Shape(shape_fns::Unchanged)
          .Traits(kElementwise)
          .NotDifferentiable(),
      OpBuilder("DataFormatVecPermute: A vector of sizes in another data format.")
          .Input("x: T")
          .Output("y: T")
          .Attr("T: {int32, int64} = DT_INT32")
          .Attr("src_format: string = 'NHWC'")
          .Attr("dst_format: string = 'NCHW'")
          .Shape(shape_fns::Unchanged)
          .NotDifferentiable(),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterNnSpatialOps(OpRegistry& registry) {
  for (const auto part : {ops::Filters, ops::ArgmaxPools, ops::DataFormats})
    MR_RETURN_IF_ERROR(ops::RegisterEach(registry, part()));
  return Status::Ok();
}

}  // namespace millrace
