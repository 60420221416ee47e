// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Arithmetic on quantized numbers: small integers that represent the numbers of a range. After its tensors an
// op has the limits of their ranges, and after its result the limits of its range.
#include <vector>

#include "ops/array/shapes.h"
#include "ops/family.h"
#include "ops/image/shapes.h"

namespace millrace::ops {
namespace {

// Inputs from `first` on are scalars; outputs 1 and 2 are.
Status Ranges(InferenceContext& c, int first, Status main) {
  MR_RETURN_IF_ERROR(main);
  for (int i = first; i < c.num_inputs(); ++i) MR_RETURN_IF_ERROR(c.WithRank(c.input(i), 0).status());
  for (int i = 1; i < c.num_outputs(); ++i) c.set_output(i, c.Scalar());
  return Status();
}

Status ProductShape(InferenceContext& c) { return Ranges(c, 2, shape_fns::MatMul(c)); }
Status BiasShape(InferenceContext& c) { return Ranges(c, 2, shape_fns::BiasAdd(c)); }
Status ConvShape(InferenceContext& c) { return Ranges(c, 2, shape_fns::Conv2D(c)); }
Status PoolShape(InferenceContext& c) { return Ranges(c, 1, shape_fns::Pool(c)); }
Status BinaryShape(InferenceContext& c) { return Ranges(c, 2, shape_fns::BroadcastBinary(c)); }
Status SameShape(InferenceContext& c) { return Ranges(c, 1, shape_fns::Unchanged(c)); }
Status QuantizedReshapeShape(InferenceContext& c) { return Ranges(c, 2, ReshapeShape(c)); }
Status QuantizedResizeShape(InferenceContext& c) { return Ranges(c, 2, ResizeShape(c)); }

Status RangeShape(InferenceContext& c) {
  for (int i = 1; i < c.num_inputs(); ++i) MR_RETURN_IF_ERROR(c.WithRank(c.input(i), 0).status());
  c.set_output(0, c.Scalar());
  c.set_output(1, c.Scalar());
  return Status();
}

Status InstanceNormShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle images, c.WithRank(c.input(0), 4));
  c.set_output(0, images);
  return Ranges(c, 1, Status());
}

// Inputs: the images, mean, variance, beta and gamma, each with its range.
Status BatchNormShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle images, c.WithRank(c.input(0), 4));
  DimHandle depth = c.Dim(images, 3);
  for (int i = 1; i < c.num_inputs(); ++i) {
    const bool is_vector = i % 3 == 0;
    MR_ASSIGN_OR_RETURN(const ShapeHandle s, c.WithRank(c.input(i), is_vector ? 1 : 0));
    if (!is_vector) continue;
    MR_ASSIGN_OR_RETURN(depth, c.Merge(depth, c.Dim(s, 0)));
  }
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.ReplaceDim(images, 3, depth));
  c.set_output(0, out);
  return Ranges(c, c.num_inputs(), Status());
}

// Inputs: the dimension, N values, and two ends of a range for each.
Status QuantizedConcatShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(0), 0).status());
  MR_ASSIGN_OR_RETURN(const std::vector<ShapeHandle> values, c.InputsNamed("values"));
  const auto n = static_cast<int>(values.size());
  ShapeHandle known;
  for (const ShapeHandle s : values) {
    if (!c.RankKnown(s)) continue;
    if (known.IsSet()) MR_RETURN_IF_ERROR(c.WithRank(s, c.Rank(known)).status());
    MR_ASSIGN_OR_RETURN(known, c.WithRankAtLeast(s, 1));
  }
  c.set_output(0, known.IsSet() ? c.UnknownShapeOfRank(c.Rank(known)) : c.UnknownShape());
  return Ranges(c, 1 + n, Status());
}

std::vector<OpBuilder> Arithmetic() {
  return {
      OpBuilder("QuantizedAdd: The sum of quantized tensors, with broadcasting.")
          .Input("x: T1")
          .Input("y: T2")
          .Input("min_x: float")
          .Input("max_x: float")
          .Input("min_y: float")
          .Input("max_y: float")
          .Output("z: Toutput")
          .Output("min_z: float")
          .Output("max_z: float")
          .Attr("T1: {qint8, quint8, qint32, qint16, quint16}")
          .Attr("T2: {qint8, quint8, qint32, qint16, quint16}")
          .Attr("Toutput: {qint8, quint8, qint32, qint16, quint16} = DT_QINT32")
          .Shape(BinaryShape),
      OpBuilder("QuantizedBiasAdd: Adds a vector to the last dimension of a quantized tensor.")
          .Input("input: T1")
          .Input("bias: T2")
          .Input("min_input: float")
          .Input("max_input: float")
          .Input("min_bias: float")
          .Input("max_bias: float")
          .Output("output: out_type")
          .Output("min_out: float")
          .Output("max_out: float")
          .Attr("T1: {qint8, quint8, qint32, qint16, quint16}")
          .Attr("T2: {qint8, quint8, qint32, qint16, quint16}")
          .Attr("out_type: {qint8, quint8, qint32, qint16, quint16}")
          .Shape(BiasShape),
      OpBuilder("QuantizedConcat: Joins quantized tensors along a dimension, in a common range.")
          .Input("concat_dim: int32")
          .Input("values: N * T")
          .Input("input_mins: N * float")
          .Input("input_maxes: N * float")
          .Output("output: T")
          .Output("output_min: float")
          .Output("output_max: float")
          .Attr("N: int >= 2")
          .Attr("T: type")
          .Shape(QuantizedConcatShape),
      OpBuilder("QuantizedMatMul: The product of quantized matrices.")
          .Input("a: T1")
          .Input("b: T2")
          .Input("min_a: float")
          .Input("max_a: float")
          .Input("min_b: float")
          .Input("max_b: float")
          .Output("out: Toutput")
          .Output("min_out: float")
          .Output("max_out: float")
          .Attr("T1: {qint8, quint8, qint32, qint16, quint16}")
          .Attr("T2: {qint8, quint8, qint32, qint16, quint16}")
          .Attr("Toutput: {qint8, quint8, qint32, qint16, quint16} = DT_QINT32")
          .Attr("transpose_a: bool = false")
          .Attr("transpose_b: bool = false")
          .Attr("Tactivation: {qint8, quint8, qint32, qint16, quint16} = DT_QUINT8")
          .Shape(ProductShape),
      OpBuilder("QuantizedMul: The product of quantized tensors element by element, with broadcasting.")
          .Input("x: T1")
          .Input("y: T2")
          .Input("min_x: float")
          .Input("max_x: float")
          .Input("min_y: float")
          .Input("max_y: float")
          .Output("z: Toutput")
          .Output("min_z: float")
          .Output("max_z: float")
          .Attr("T1: {qint8, quint8, qint32, qint16, quint16}")
          .Attr("T2: {qint8, quint8, qint32, qint16, quint16}")
          .Attr("Toutput: {qint8, quint8, qint32, qint16, quint16} = DT_QINT32")
          .Shape(BinaryShape),
  };
}

std::vector<OpBuilder> ElementByElement() {
  return {
      OpBuilder("QuantizedRelu: The maximum of each element and zero.")
          .Input("features: Tinput")
          .Input("min_features: float")
          .Input("max_features: float")
          .Output("activations: out_type")
          .Output("min_activations: float")
          .Output("max_activations: float")
          .Attr("Tinput: {qint8, quint8, qint32, qint16, quint16}")
          .Attr("out_type: {qint8, quint8, qint32, qint16, quint16} = DT_QUINT8")
          .Shape(SameShape),
      OpBuilder("QuantizedRelu6: Each element clipped to the interval from 0 to 6.")
          .Input("features: Tinput")
          .Input("min_features: float")
          .Input("max_features: float")
          .Output("activations: out_type")
          .Output("min_activations: float")
          .Output("max_activations: float")
          .Attr("Tinput: {qint8, quint8, qint32, qint16, quint16}")
          .Attr("out_type: {qint8, quint8, qint32, qint16, quint16} = DT_QUINT8")
          .Shape(SameShape),
      OpBuilder("QuantizedReshape: A quantized tensor in another shape.")
          .Input("tensor: T")
          .Input("shape: Tshape")
          .Input("input_min: float")
          .Input("input_max: float")
          .Output("output: T")
          .Output("output_min: float")
          .Output("output_max: float")
          .Attr("T: type")
          .Attr("Tshape: {int32, int64} = DT_INT32")
          .Shape(QuantizedReshapeShape),
  };
}

std::vector<OpBuilder> Images() {
  return {
      OpBuilder("QuantizedAvgPool: The mean of each window of quantized images.")
          .Input("input: T")
          .Input("min_input: float")
          .Input("max_input: float")
          .Output("output: T")
          .Output("min_output: float")
          .Output("max_output: float")
          .Attr("T: {qint8, quint8, qint32, qint16, quint16}")
          .Attr("ksize: list(int)")
          .Attr("strides: list(int)")
          .Attr("padding: {'SAME', 'VALID'}")
          .Shape(PoolShape),
      OpBuilder("QuantizedBatchNormWithGlobalNormalization: Normalizes quantized images by given means and "
                "variances.")
          .Input("t: Tinput")
          .Input("t_min: float")
          .Input("t_max: float")
          .Input("m: Tinput")
          .Input("m_min: float")
          .Input("m_max: float")
          .Input("v: Tinput")
          .Input("v_min: float")
          .Input("v_max: float")
          .Input("beta: Tinput")
          .Input("beta_min: float")
          .Input("beta_max: float")
          .Input("gamma: Tinput")
          .Input("gamma_min: float")
          .Input("gamma_max: float")
          .Output("result: out_type")
          .Output("result_min: float")
          .Output("result_max: float")
          .Attr("Tinput: {qint8, quint8, qint32, qint16, quint16}")
          .Attr("out_type: {qint8, quint8, qint32, qint16, quint16}")
          .Attr("variance_epsilon: float")
          .Attr("scale_after_normalization: bool")
          .Shape(BatchNormShape),
      OpBuilder("QuantizedConv2D: The convolution of quantized images with quantized filters.")
          .Input("input: Tinput")
          .Input("filter: Tfilter")
          .Input("min_input: float")
          .Input("max_input: float")
          .Input("min_filter: float")
          .Input("max_filter: float")
          .Output("output: out_type")
          .Output("min_output: float")
          .Output("max_output: float")
          .Attr("Tinput: {qint8, quint8, qint32, qint16, quint16}")
          .Attr("Tfilter: {qint8, quint8, qint32, qint16, quint16}")
          .Attr("out_type: {qint8, quint8, qint32, qint16, quint16} = DT_QINT32")
          .Attr("strides: list(int)")
          .Attr("padding: {'SAME', 'VALID'}")
          .Attr("dilations: list(int) = [1, 1, 1, 1]")
          .Shape(ConvShape),
      OpBuilder("QuantizedInstanceNorm: Normalizes each channel of each quantized image by its own mean and "
                "variance.")
          .Input("x: T")
          .Input("x_min: float")
          .Input("x_max: float")
          .Output("y: T")
          .Output("y_min: float")
          .Output("y_max: float")
          .Attr("T: {qint8, quint8, qint32, qint16, quint16}")
          .Attr("output_range_given: bool = false")
          .Attr("given_y_min: float = 0")
          .Attr("given_y_max: float = 0")
          .Attr("variance_epsilon: float = 1e-05")
          .Attr("min_separation: float = 0.001")
          .Shape(InstanceNormShape),
      OpBuilder("QuantizedMaxPool: The largest element of each window of quantized images.")
          .Input("input: T")
          .Input("min_input: float")
          .Input("max_input: float")
          .Output("output: T")
          .Output("min_output: float")
          .Output("max_output: float")
          .Attr("T: {qint8, quint8, qint32, qint16, quint16}")
          .Attr("ksize: list(int)")
          .Attr("strides: list(int)")
          .Attr("padding: {'SAME', 'VALID'}")
          .Shape(PoolShape),
      OpBuilder("QuantizedResizeBilinear: Resizes quantized images by bilinear interpolation.")
          .Input("images: T")
          .Input("size: int32")
          .Input("min: float")
          .Input("max: float")
          .Output("resized_images: T")
          .Output("out_min: float")
          .Output("out_max: float")
          .Attr("T: {quint8, qint32, float}")
          .Attr("align_corners: bool = false")
          .Attr("half_pixel_centers: bool = false")
          .Shape(QuantizedResizeShape),
  };
}

std::vector<OpBuilder> Narrowing() {
  return {
      OpBuilder(
          "QuantizeDownAndShrinkRange: Requantizes numbers to fewer bits, in the range of their values.")
          .Input("input: Tinput")
          .Input("input_min: float")
          .Input("input_max: float")
          .Output("output: out_type")
          .Output("output_min: float")
          .Output("output_max: float")
          .Attr("Tinput: {qint8, quint8, qint32, qint16, quint16}")
          .Attr("out_type: {qint8, quint8, qint32, qint16, quint16}")
          .Shape(SameShape),
      OpBuilder("RequantizationRange: The range of the values of quantized numbers.")
          .Input("input: Tinput")
          .Input("input_min: float")
          .Input("input_max: float")
          .Output("output_min: float")
          .Output("output_max: float")
          .Attr("Tinput: {qint8, quint8, qint32, qint16, quint16}")
          .Shape(RangeShape),
      OpBuilder("Requantize: Requantizes numbers to fewer bits, in a given range.")
          .Input("input: Tinput")
          .Input("input_min: float")
          .Input("input_max: float")
          .Input("requested_output_min: float")
          .Input("requested_output_max: float")
          .Output("output: out_type")
          .Output("output_min: float")
          .Output("output_max: float")
          .Attr("Tinput: {qint8, quint8, qint32, qint16, quint16}")
          .Attr("out_type: {qint8, quint8, qint32, qint16, quint16}")
          .Shape(SameShape),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterQuantizedArithmeticOps(OpRegistry& registry) {
  for (const auto& family : {ops::Arithmetic(), ops::ElementByElement(), ops::Images(), ops::Narrowing()})
    MR_RETURN_IF_ERROR(ops::RegisterEach(registry, family));
  return Status();
}

}  // namespace millrace
