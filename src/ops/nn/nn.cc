// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Activations, losses, convolution, pooling, ranking.
#include "ops/family.h"
#include "ops/nn/shapes.h"

namespace millrace::ops {
namespace {

using Operands = ElementwiseForm::Operands;

constexpr char kFloatingAndBfloat[] = "T: {half, bfloat16, float, double}";
constexpr char kPadding[] = "padding: {'SAME', 'VALID'}";
constexpr char kDataFormat[] = "data_format: {'NHWC', 'NCHW'} = 'NHWC'";

struct ActivationRow {
  const char* name;
  const char* gradient;
  const char* types;
  const char* gradient_input;       // the other input of the gradient op
  const char* own_types = nullptr;  // of the op, where it has others than its gradient
};

constexpr ActivationRow kActivations[] = {
    {"Elu: x, and exp(x) - 1 where x is negative.", "EluGrad: The gradient of Elu.", kFloatingAndBfloat,
     "outputs: T"},
    {"Relu: x, and zero where x is negative.", "ReluGrad: The gradient of Relu.", kRealNumber, "features: T",
     "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64, qint8}"},
    {"Relu6: x clipped to the interval from 0 to 6.", "Relu6Grad: The gradient of Relu6.", kRealNumber,
     "features: T"},
    {"Selu: Scaled Elu, which preserves mean and variance through layers.", "SeluGrad: The gradient of Selu.",
     kFloatingAndBfloat, "outputs: T"},
    {"Softplus: log(1 + exp(x)).", "SoftplusGrad: The gradient of Softplus.", kFloatingAndBfloat,
     "features: T"},
    {"Softsign: x / (1 + |x|).", "SoftsignGrad: The gradient of Softsign.", kFloatingAndBfloat,
     "features: T"},
};

std::vector<OpBuilder> Activations() {
  std::vector<OpBuilder> ops;
  for (const ActivationRow& row : kActivations) {
    ops.push_back(OpBuilder(row.name)
                      .Input("features: T")
                      .Output("activations: T")
                      .Attr(row.own_types != nullptr ? row.own_types : row.types)
                      .Shape(shape_fns::Unchanged)
                      .Traits(kElementwise)
                      .Fuses({.operands = Operands::kOne}));
    ops.push_back(OpBuilder(row.gradient)
                      .Input("gradients: T")
                      .Input(row.gradient_input)
                      .Output("backprops: T")
                      .Attr(row.types)
                      .Shape(shape_fns::MergeBothInputs)
                      .Traits(kElementwise)
                      .Fuses({.operands = Operands::kSame}));
  }
  return ops;
}

// With a slope of their own where features are negative.
std::vector<OpBuilder> LeakyActivations() {
  constexpr char kTypes[] = "T: {half, bfloat16, float, double} = DT_FLOAT";
  return {
      OpBuilder("LeakyRelu: x, and alpha times x where x is negative.")
          .Input("features: T")
          .Output("activations: T")
          .Attr("alpha: float = 0.2")
          .Attr(kTypes)
          .Shape(shape_fns::Unchanged)
          .Traits(kElementwise),
      OpBuilder("LeakyReluGrad: The gradient of LeakyRelu.")
          .Input("gradients: T")
          .Input("features: T")
          .Output("backprops: T")
          .Attr("alpha: float = 0.2")
          .Attr(kTypes)
          .Shape(shape_fns::MergeBothInputs)
          .Traits(kElementwise),
  };
}

std::vector<OpBuilder> Biases() {
  return {
      OpBuilder("BiasAdd: Adds a vector along the channels.")
          .Input("value: T")
          .Input("bias: T")
          .Output("output: T")
          .Attr(kNumber)
          .Attr(kDataFormat)
          .Shape(shape_fns::BiasAdd)
          .Flops(FlopRule::kOutputs),
      OpBuilder("BiasAddGrad: The gradient of BiasAdd with respect to the bias: the sum over all dimensions "
                "but the channels.")
          .Input("out_backprop: T")
          .Output("output: T")
          .Attr(kNumber)
          .Attr(kDataFormat)
          .Shape(shape_fns::BiasAddGrad),
      OpBuilder("BiasAddV1: Adds a vector along the last dimension.")
          .Input("value: T")
          .Input("bias: T")
          .Output("output: T")
          .Attr(kNumber)
          .Shape(shape_fns::BiasAdd)
          .Flops(FlopRule::kOutputs),
  };
}

OpBuilder WithNormAttrs(OpBuilder op) {
  return op.Attr("T: {float}")
      .Attr("epsilon: float = 0.0001")
      .Attr(kDataFormat)
      .Attr("is_training: bool = true");
}

constexpr char kBatchNorm[] =
    "FusedBatchNorm: Normalises each channel of images by its mean and variance, then scales and shifts it.";
constexpr char kBatchNormGrad[] = "FusedBatchNormGrad: The gradient of FusedBatchNorm.";

std::vector<OpBuilder> Normalizations() {
  return {
      WithNormAttrs(OpBuilder(kBatchNorm)
                        .Input("x: T")
                        .Input("scale: T")
                        .Input("offset: T")
                        .Input("mean: T")
                        .Input("variance: T")
                        .Output("y: T")
                        .Output("batch_mean: T")
                        .Output("batch_variance: T")
                        .Output("reserve_space_1: T")
                        .Output("reserve_space_2: T"))
          .Shape(FusedBatchNormShape)
          .Flops(FlopRule::kInputs, 4),
      WithNormAttrs(OpBuilder(kBatchNormGrad)
                        .Input("y_backprop: T")
                        .Input("x: T")
                        .Input("scale: T")
                        .Input("reserve_space_1: T")
                        .Input("reserve_space_2: T")
                        .Output("x_backprop: T")
                        .Output("scale_backprop: T")
                        .Output("offset_backprop: T")
                        .Output("reserve_space_3: T")
                        .Output("reserve_space_4: T"))
          .Shape(FusedBatchNormGradShape),
  };
}

// Statistics and scales of type U beside images of type T.
OpBuilder MixedNorm(const std::string& version) {
  OpBuilder op(WithSuffix(kBatchNorm, version));
  op.Input("x: T").Input("scale: U").Input("offset: U").Input("mean: U").Input("variance: U");
  op.Output("y: T").Output("batch_mean: U").Output("batch_variance: U");
  op.Output("reserve_space_1: U").Output("reserve_space_2: U");
  if (version == "V3") op.Output("reserve_space_3: U");
  return op.Shape(FusedBatchNormShape).Flops(FlopRule::kInputs, 4);
}

OpBuilder MixedNormGrad(const std::string& version) {
  const bool v3 = version == "V3";
  OpBuilder op(WithSuffix(kBatchNormGrad, version));
  op.Input("y_backprop: T").Input("x: T").Input("scale: float");
  op.Input("reserve_space_1: U").Input("reserve_space_2: U");
  if (v3) op.Input("reserve_space_3: U");
  op.Output("x_backprop: T").Output("scale_backprop: U").Output("offset_backprop: U");
  op.Output(v3 ? "reserve_space_4: U" : "reserve_space_3: U");
  op.Output(v3 ? "reserve_space_5: U" : "reserve_space_4: U");
  return op.Shape(FusedBatchNormGradShape);
}

std::vector<OpBuilder> LaterNormalizations() {
  std::vector<OpBuilder> ops;
  for (const std::string version : {"V2", "V3"}) {
    for (const bool gradient : {false, true}) {
      ops.push_back((gradient ? MixedNormGrad(version) : MixedNorm(version))
                        .Attr("T: {half, bfloat16, float}")
                        .Attr("U: {float}")
                        .Attr("epsilon: float = 0.0001")
                        .Attr(version == "V2" ? kDataFormat
                                              : "data_format: {'NHWC', 'NCHW', 'NDHWC', 'NCDHW'} = 'NHWC'")
                        .Attr("is_training: bool = true"));
    }
  }
  ops.push_back(OpBuilder("BatchNormWithGlobalNormalization: Normalises images by a given mean and variance, "
                          "then scales and shifts them.")
                    .Input("t: T")
                    .Input("m: T")
                    .Input("v: T")
                    .Input("beta: T")
                    .Input("gamma: T")
                    .Output("result: T")
                    .Attr(kNumber)
                    .Attr("variance_epsilon: float")
                    .Attr("scale_after_normalization: bool")
                    .Deprecated(9, "Use tf.nn.batch_normalization()")
                    .Shape(GlobalNormalizationShape));
  return ops;
}

std::vector<OpBuilder> Losses() {
  return {
      OpBuilder("L2Loss: Half the sum of squares.")
          .Input("t: T")
          .Output("output: T")
          .Attr(kFloatingAndBfloat)
          .Shape(shape_fns::Scalar)
          .Flops(FlopRule::kInputs),
      OpBuilder("LogSoftmax: The logarithm of Softmax, computed stably.")
          .Input("logits: T")
          .Output("logsoftmax: T")
          .Attr(kFloatingAndBfloat)
          .Shape(SoftmaxShape)
          .Flops(FlopRule::kInputs, 5),
      OpBuilder("Softmax: exp(x) divided by its sum along the last dimension.")
          .Input("logits: T")
          .Output("softmax: T")
          .Attr(kFloatingAndBfloat)
          .Shape(SoftmaxShape)
          .Flops(FlopRule::kInputs, 5),
      OpBuilder("SoftmaxCrossEntropyWithLogits: The cross entropy of Softmax with given probabilities, and "
                "its gradient.")
          .Input("features: T")
          .Input("labels: T")
          .Output("loss: T")
          .Output("backprop: T")
          .Attr(kFloatingAndBfloat)
          .Shape(SoftmaxCrossEntropyShape),
      OpBuilder("SparseSoftmaxCrossEntropyWithLogits: The cross entropy of Softmax with given classes, and "
                "its gradient.")
          .Input("features: T")
          .Input("labels: Tlabels")
          .Output("loss: T")
          .Output("backprop: T")
          .Attr(kFloatingAndBfloat)
          .Attr("Tlabels: {int32, int64} = DT_INT64")
          .Shape(SparseSoftmaxCrossEntropyShape),
  };
}

OpBuilder Convolution(const char* name, const char* first, const char* second) {
  return OpBuilder(name)
      .Input(first)
      .Input(second)
      .Output("output: T")
      .Attr(kFloatingAndBfloat)
      .Attr("strides: list(int)")
      .Attr("use_cudnn_on_gpu: bool = true")
      .Attr("padding: {'SAME', 'VALID', 'EXPLICIT'}")
      .Attr("explicit_paddings: list(int) = []")
      .Attr(kDataFormat)
      .Attr("dilations: list(int) = [1, 1, 1, 1]");
}

std::vector<OpBuilder> Convolutions() {
  return {
      Convolution("Conv2D: Convolves images with filters.", "input: T", "filter: T")
          .Shape(shape_fns::Conv2D)
          .Flops(FlopRule::kConvolution),
      Convolution("Conv2DBackpropInput: The gradient of Conv2D with respect to the images; also a transposed "
                  "convolution.",
                  "input_sizes: int32", "filter: T")
          .Input("out_backprop: T")
          .Shape(Conv2DBackpropInputShape)
          .Flops(FlopRule::kConvolutionInput),
      Convolution("Conv2DBackpropFilter: The gradient of Conv2D with respect to the filters.", "input: T",
                  "filter_sizes: int32")
          .Input("out_backprop: T")
          .Shape(Conv2DBackpropFilterShape)
          .Flops(FlopRule::kConvolutionFilter),
  };
}

OpBuilder WithPoolAttrs(OpBuilder op) {
  return op.Attr("ksize: list(int) >= 4").Attr("strides: list(int) >= 4").Attr(kPadding).Attr(kDataFormat);
}

std::vector<OpBuilder> Pools() {
  constexpr char kRealWithDefault[] = "T: realnumbertype = DT_FLOAT";
  return {
      WithPoolAttrs(OpBuilder("AvgPool: The mean of each window of images.")
                        .Input("value: T")
                        .Output("output: T")
                        .Flops(FlopRule::kWindows))
          .Attr(kFloatingAndBfloat)
          .Shape(shape_fns::Pool),
      WithPoolAttrs(OpBuilder("AvgPoolGrad: The gradient of AvgPool.")
                        .Input("orig_input_shape: int32")
                        .Input("grad: T")
                        .Output("output: T"))
          .Attr(kFloatingAndBfloat)
          .Shape(AvgPoolGradShape),
      OpBuilder("MaxPool: The largest element of each window of images.")
          .Input("input: T")
          .Output("output: T")
          .Attr("T: {half, bfloat16, float, double, int32, int64, uint8, int16, int8, uint16, qint8} = "
                "DT_FLOAT")
          .Attr("ksize: list(int) >= 4")
          .Attr("strides: list(int) >= 4")
          .Attr(kPadding)
          .Attr("data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'")
          .Shape(shape_fns::Pool)
          .Flops(FlopRule::kWindows),
      WithPoolAttrs(OpBuilder("MaxPoolGrad: The gradient of MaxPool.")
                        .Input("orig_input: T")
                        .Input("orig_output: T")
                        .Input("grad: T")
                        .Output("output: T"))
          .Attr(kRealWithDefault)
          .Shape(MaxPoolGradShape),
      WithPoolAttrs(OpBuilder("MaxPoolGradGrad: The second gradient of MaxPool.")
                        .Input("orig_input: T")
                        .Input("orig_output: T")
                        .Input("grad: T")
                        .Output("output: T"))
          .Attr(kRealNumber)
          .Shape(MaxPoolGradGradShape),
  };
}

Status NthElementShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle in, c.WithRankAtLeast(c.input(0), 1));
  MR_ASSIGN_OR_RETURN(const DimHandle n, c.MakeDimFromScalarInput(1));
  const DimHandle last = c.Dim(in, -1);
  if (c.ValueKnown(last) && c.ValueKnown(n) && c.Value(last) <= c.Value(n)) {
    return errors::InvalidArgument("Input must have last dimension > n = ", c.Value(n), " but is ",
                                   c.Value(last));
  }
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.Subshape(in, 0, -1));
  c.set_output(0, out);
  return Status::Ok();
}

Status InTopKV2Shape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(2), 0).status());
  return InTopKShape(c);
}

std::vector<OpBuilder> Rankings() {
  return {
      OpBuilder("InTopKV2: Whether the target class is among the k largest predictions.")
          .Input("predictions: float")
          .Input("targets: T")
          .Input("k: T")
          .Output("precision: bool")
          .Attr("T: {int32, int64} = DT_INT32")
          .Shape(InTopKV2Shape)
          .NotDifferentiable(),
      OpBuilder("NthElement: The n-th smallest element of each row.")
          .Input("input: T")
          .Input("n: int32")
          .Output("values: T")
          .Attr("reverse: bool = false")
          .Attr("T: realnumbertype")
          .Shape(NthElementShape),
      OpBuilder("InTopK: Whether the target class is among the k largest predictions.")
          .Input("predictions: float")
          .Input("targets: T")
          .Output("precision: bool")
          .Attr("k: int")
          .Attr("T: {int32, int64} = DT_INT32")
          .Shape(InTopKShape)
          .NotDifferentiable(),
      OpBuilder("TopK: The k largest elements of each row, and their indices.")
          .Input("input: T")
          .Output("values: T")
          .Output("indices: int32")
          .Attr("k: int >= 0")
          .Attr("sorted: bool = true")
          .Attr(kRealNumber)
          .Deprecated(7, "Use TopKV2 instead")
          .Shape(TopKShape),
      OpBuilder("TopKV2: The k largest elements of each row, and their indices.")
          .Input("input: T")
          .Input("k: int32")
          .Output("values: T")
          .Output("indices: int32")
          .Attr("sorted: bool = true")
          .Attr(kRealNumber)
          .Shape(TopKV2Shape),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterNnOps(OpRegistry& registry) {
  for (const auto part :
       {ops::Activations, ops::LeakyActivations, ops::Biases, ops::Normalizations, ops::LaterNormalizations,
        ops::Losses, ops::Convolutions, ops::Pools, ops::Rankings}) {
    MR_RETURN_IF_ERROR(ops::RegisterEach(registry, part()));
  }
  return Status::Ok();
}

}  // namespace millrace
