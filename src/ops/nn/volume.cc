// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Convolution and pooling of volumes, and pooling of images by fractions or with windows that are inputs.
#include "ops/family.h"
#include "ops/nn/volume_shapes.h"

namespace millrace::ops {
namespace {

std::vector<OpBuilder> Convolutions() {
  return {
      OpBuilder("Conv3D: Convolves volumes with filters.")
          .Input("input: T")
          .Input("filter: T")
          .Output("output: T")
          .Attr("T: {half, bfloat16, float, double}")
          .Attr("strides: list(int) >= 5")
          .Attr("padding: {'SAME', 'VALID'}")
          .Attr("data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'")
          .Attr("dilations: list(int) = [1, 1, 1, 1, 1]")
          .Shape(Conv3DShape)
          .Flops(FlopRule::kConvolution),
      OpBuilder("Conv3DBackpropFilter: The gradient of Conv3D with respect to the filters.")
          .Input("input: T")
          .Input("filter: T")
          .Input("out_backprop: T")
          .Output("output: T")
          .Attr("T: {half, float, double}")
          .Attr("strides: list(int) >= 5")
          .Attr("padding: {'SAME', 'VALID'}")
          .Attr("dilations: list(int) = [1, 1, 1, 1, 1]")
          .Deprecated(10, "Use Conv3DBackpropFilterV2")
          .Shape(VolumeLikeSecondShape),
      OpBuilder("Conv3DBackpropFilterV2: The gradient of Conv3D with respect to the filters.")
          .Input("input: T")
          .Input("filter_sizes: int32")
          .Input("out_backprop: T")
          .Output("output: T")
          .Attr("T: {half, bfloat16, float, double}")
          .Attr("strides: list(int) >= 5")
          .Attr("padding: {'SAME', 'VALID'}")
          .Attr("data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'")
          .Attr("dilations: list(int) = [1, 1, 1, 1, 1]")
          .Shape(VolumeFromSecondShape),
      OpBuilder("Conv3DBackpropInput: The gradient of Conv3D with respect to the volumes; also a transposed "
                "convolution.")
          .Input("input: T")
          .Input("filter: T")
          .Input("out_backprop: T")
          .Output("output: T")
          .Attr("T: {half, float, double}")
          .Attr("strides: list(int) >= 5")
          .Attr("padding: {'SAME', 'VALID'}")
          .Attr("dilations: list(int) = [1, 1, 1, 1, 1]")
          .Deprecated(10, "Use Conv3DBackpropInputV2")
          .Shape(VolumeLikeFirstShape),
      OpBuilder("Conv3DBackpropInputV2: The gradient of Conv3D with respect to the volumes; also a "
                "transposed convolution.")
          .Input("input_sizes: Tshape")
          .Input("filter: T")
          .Input("out_backprop: T")
          .Output("output: T")
          .Attr("T: {half, bfloat16, float, double}")
          .Attr("strides: list(int) >= 5")
          .Attr("padding: {'SAME', 'VALID'}")
          .Attr("data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'")
          .Attr("dilations: list(int) = [1, 1, 1, 1, 1]")
          .Attr("Tshape: {int32, int64} = DT_INT32")
          .Shape(VolumeFromFirstShape),
      OpBuilder("ExtractVolumePatches: The patches of volumes that a window sees, as channels.")
          .Input("input: T")
          .Output("patches: T")
          .Attr("ksizes: list(int) >= 5")
          .Attr("strides: list(int) >= 5")
          .Attr("T: realnumbertype")
          .Attr("padding: {'SAME', 'VALID'}")
          .Shape(ExtractVolumePatchesShape),
  };
}

std::vector<OpBuilder> VolumePools() {
  return {
      OpBuilder("AvgPool3D: The mean of each window of volumes.")
          .Input("input: T")
          .Output("output: T")
          .Attr("ksize: list(int) >= 5")
          .Attr("strides: list(int) >= 5")
          .Attr("padding: {'SAME', 'VALID'}")
          .Attr("data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'")
          .Attr("T: {half, bfloat16, float, double}")
          .Shape(Pool3DShape)
          .Flops(FlopRule::kWindows),
      OpBuilder("AvgPool3DGrad: The gradient of AvgPool3D.")
          .Input("orig_input_shape: int32")
          .Input("grad: T")
          .Output("output: T")
          .Attr("ksize: list(int) >= 5")
          .Attr("strides: list(int) >= 5")
          .Attr("padding: {'SAME', 'VALID'}")
          .Attr("data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'")
          .Attr("T: {half, bfloat16, float, double}")
          .Shape(VolumeFromFirstShape),
      OpBuilder("MaxPool3D: The largest element of each window of volumes.")
          .Input("input: T")
          .Output("output: T")
          .Attr("ksize: list(int) >= 5")
          .Attr("strides: list(int) >= 5")
          .Attr("padding: {'SAME', 'VALID'}")
          .Attr("data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'")
          .Attr("T: {half, bfloat16, float}")
          .Shape(Pool3DShape)
          .Flops(FlopRule::kWindows),
      OpBuilder("MaxPool3DGrad: The gradient of MaxPool3D.")
          .Input("orig_input: TInput")
          .Input("orig_output: TInput")
          .Input("grad: T")
          .Output("output: T")
          .Attr("ksize: list(int) >= 5")
          .Attr("strides: list(int) >= 5")
          .Attr("padding: {'SAME', 'VALID'}")
          .Attr("data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'")
          .Attr("T: {half, bfloat16, float} = DT_FLOAT")
          .Attr("TInput: {half, bfloat16, float} = DT_FLOAT")
          .Shape(MaxPool3DGradShape),
      OpBuilder("MaxPool3DGradGrad: The second gradient of MaxPool3D.")
          .Input("orig_input: T")
          .Input("orig_output: T")
          .Input("grad: T")
          .Output("output: T")
          .Attr("ksize: list(int) >= 5")
          .Attr("strides: list(int) >= 5")
          .Attr("padding: {'SAME', 'VALID'}")
          .Attr("data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'")
          .Attr("T: realnumbertype")
          .Shape(MaxPool3DGradGradShape),
  };
}

std::vector<OpBuilder> ImagePools() {
  return {
      OpBuilder("BatchNormWithGlobalNormalizationGrad: The gradient of BatchNormWithGlobalNormalization.")
          .Input("t: T")
          .Input("m: T")
          .Input("v: T")
          .Input("gamma: T")
          .Input("backprop: T")
          .Output("dx: T")
          .Output("dm: T")
          .Output("dv: T")
          .Output("db: T")
          .Output("dg: T")
          .Attr("T: numbertype")
          .Attr("variance_epsilon: float")
          .Attr("scale_after_normalization: bool")
          .Deprecated(9, "Use tf.nn.batch_normalization()")
          .Shape(GlobalNormalizationGradShape),
      OpBuilder("FractionalAvgPool: The mean of each window of images, with windows of random sizes.")
          .Input("value: T")
          .Output("output: T")
          .Output("row_pooling_sequence: int64")
          .Output("col_pooling_sequence: int64")
          .Attr("pooling_ratio: list(float) >= 4")
          .Attr("pseudo_random: bool = false")
          .Attr("overlapping: bool = false")
          .Attr("deterministic: bool = false")
          .Attr("seed: int = 0")
          .Attr("seed2: int = 0")
          .Attr("T: {float, double, int32, int64}")
          .Shape(FractionalPoolShape),
      OpBuilder("FractionalAvgPoolGrad: The gradient of FractionalAvgPool.")
          .Input("orig_input_tensor_shape: int64")
          .Input("out_backprop: T")
          .Input("row_pooling_sequence: int64")
          .Input("col_pooling_sequence: int64")
          .Output("output: T")
          .Attr("overlapping: bool = false")
          .Attr("T: {float, double, int32, int64}")
          .Shape(FractionalAvgPoolGradShape),
      OpBuilder(
          "FractionalMaxPool: The largest element of each window of images, with windows of random sizes.")
          .Input("value: T")
          .Output("output: T")
          .Output("row_pooling_sequence: int64")
          .Output("col_pooling_sequence: int64")
          .Attr("pooling_ratio: list(float) >= 4")
          .Attr("pseudo_random: bool = false")
          .Attr("overlapping: bool = false")
          .Attr("deterministic: bool = false")
          .Attr("seed: int = 0")
          .Attr("seed2: int = 0")
          .Attr("T: {float, double, int32, int64}")
          .Shape(FractionalPoolShape),
      OpBuilder("FractionalMaxPoolGrad: The gradient of FractionalMaxPool.")
          .Input("orig_input: T")
          .Input("orig_output: T")
          .Input("out_backprop: T")
          .Input("row_pooling_sequence: int64")
          .Input("col_pooling_sequence: int64")
          .Output("output: T")
          .Attr("overlapping: bool = false")
          .Attr("T: {float, double, int32, int64}")
          .Shape(FractionalMaxPoolGradShape),
      OpBuilder("MaxPoolGradGradV2: The second gradient of MaxPool.")
          .Input("orig_input: T")
          .Input("orig_output: T")
          .Input("grad: T")
          .Input("ksize: int32")
          .Input("strides: int32")
          .Output("output: T")
          .Attr("padding: {'SAME', 'VALID'}")
          .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
          .Attr("T: realnumbertype")
          .Shape(MaxPoolGradGradV2Shape),
      OpBuilder("MaxPoolGradV2: The gradient of MaxPool.")
          .Input("orig_input: T")
          .Input("orig_output: T")
          .Input("grad: T")
          .Input("ksize: int32")
          .Input("strides: int32")
          .Output("output: T")
          .Attr("padding: {'SAME', 'VALID'}")
          .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
          .Attr("T: realnumbertype = DT_FLOAT")
          .Shape(MaxPoolGradV2Shape),
      OpBuilder("MaxPoolV2: The largest element of each window of images.")
          .Input("input: T")
          .Input("ksize: int32")
          .Input("strides: int32")
          .Output("output: T")
          .Attr("T: {half, bfloat16, float, double, int32, int64, uint8, int16, int8, uint16, qint8} = "
                "DT_FLOAT")
          .Attr("padding: {'SAME', 'VALID'}")
          .Attr("data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'")
          .Shape(MaxPoolV2Shape),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterVolumeOps(OpRegistry& registry) {
  for (const auto part : {ops::Convolutions, ops::VolumePools, ops::ImagePools})
    MR_RETURN_IF_ERROR(ops::RegisterEach(registry, part()));
  return Status::Ok();
}

}  // namespace millrace
