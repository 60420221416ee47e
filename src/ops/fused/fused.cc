// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Ops by which passes replace several nodes. Graphs that TensorFlow's optimiser wrote contain _FusedMatMul
// and _FusedConv2D, too; clients cannot create the others.
#include <string>
#include <vector>

#include "op/elementwise_program.h"
#include "ops/family.h"

namespace millrace::ops {
namespace {

// `fused_ops` are the operations on the product, in this order: BiasAdd or FusedBatchNorm (scale, offset,
// mean, variance; not training), then Add, then an op that is element-wise in one float; each is optional.
// `args` are their arguments. AddN instead of Add takes an argument of the product's shape only.
// `keep_weights`: the second input is a constant or the value of a variable, so that packing it once pays
// off.
OpBuilder WithEpilogue(OpBuilder op) {
  return op.Attr("num_args: int >= 0")
      .Attr("fused_ops: list(string) = []")
      .Attr("epsilon: float = 0.0001")
      .Attr("keep_weights: bool = false");
}

// As Conv2D's, over an image with margins.
Status FusedConv2DShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> margins, c.Attr<std::vector<int64_t>>("margins"));
  if (margins.empty()) return shape_fns::Conv2D(c);
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> strides, c.Attr<std::vector<int64_t>>("strides"));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> dilations, c.Attr<std::vector<int64_t>>("dilations"));
  MR_ASSIGN_OR_RETURN(const std::string format, c.Attr<std::string>("data_format"));
  MR_ASSIGN_OR_RETURN(const ShapeHandle input, c.WithRank(c.input(0), 4));
  MR_ASSIGN_OR_RETURN(const ShapeHandle filter, c.WithRank(c.input(1), 4));
  if (margins.size() != 4 || strides.size() != 4 || dilations.size() != 4)
    return errors::InvalidArgument("Margins, strides and dilations must be four values each");
  for (const int64_t margin : margins) {
    if (margin < 0 || margin > int64_t{1} << 30) return errors::InvalidArgument("Margins must be sizes");
  }
  const int row = format == "NCHW" ? 2 : 1;
  std::vector<DimHandle> dims(4);
  dims[0] = c.Dim(input, 0);
  dims[format == "NCHW" ? 1 : 3] = c.Dim(filter, 3);
  for (int i = 0; i < 2; ++i) {
    const int64_t size = c.Value(c.Dim(input, row + i)), window = c.Value(c.Dim(filter, i));
    dims[row + i] = c.UnknownDim();
    if (size < 0 || window < 0) continue;
    MR_ASSIGN_OR_RETURN(const WindowedOutput out,
                        GetWindowedOutput(size + margins[2 * i] + margins[2 * i + 1], window,
                                          dilations[row + i], strides[row + i], Padding::kValid));
    dims[row + i] = c.MakeDim(out.size);
  }
  c.set_output(0, c.MakeShape(dims));
  return Status();
}

// As DepthwiseConv2dNative's of NHWC, over an image with margins.
Status FusedDepthwiseShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> given, c.Attr<std::vector<int64_t>>("margins"));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> strides, c.Attr<std::vector<int64_t>>("strides"));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> dilations, c.Attr<std::vector<int64_t>>("dilations"));
  MR_ASSIGN_OR_RETURN(const std::string text, c.Attr<std::string>("padding"));
  MR_ASSIGN_OR_RETURN(const Padding padding, ParsePadding(text));
  MR_ASSIGN_OR_RETURN(const ShapeHandle input, c.WithRank(c.input(0), 4));
  MR_ASSIGN_OR_RETURN(const ShapeHandle filter, c.WithRank(c.input(1), 4));
  const std::vector<int64_t> margins = given.empty() ? std::vector<int64_t>(4, 0) : given;
  if (margins.size() != 4 || strides.size() != 4 || dilations.size() != 4)
    return errors::InvalidArgument("Margins, strides and dilations must be four values each");
  for (const int64_t margin : margins) {
    if (margin < 0 || margin > int64_t{1} << 30) return errors::InvalidArgument("Margins must be sizes");
  }
  std::vector<DimHandle> dims = {c.Dim(input, 0), c.UnknownDim(), c.UnknownDim(), c.UnknownDim()};
  for (int i = 0; i < 2; ++i) {
    const int64_t size = c.Value(c.Dim(input, 1 + i)), window = c.Value(c.Dim(filter, i));
    if (size < 0 || window < 0) continue;
    MR_ASSIGN_OR_RETURN(const WindowedOutput out,
                        GetWindowedOutput(size + margins[2 * i] + margins[2 * i + 1], window,
                                          dilations[1 + i], strides[1 + i], padding));
    dims[1 + i] = c.MakeDim(out.size);
  }
  MR_ASSIGN_OR_RETURN(dims[3], c.Multiply(c.Dim(filter, 2), c.Dim(filter, 3)));
  c.set_output(0, c.MakeShape(dims));
  return Status();
}

// Infers the shape of each instruction as that of its op.
Status ElementwiseShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ElementwiseProgram program, ElementwiseProgram::Read(c.attrs()));
  if (program.num_inputs != c.num_inputs() || static_cast<int>(program.results.size()) != c.num_outputs())
    return errors::InvalidArgument("The element-wise program is for another number of inputs or outputs");
  std::vector<ShapeHandle> shapes;
  shapes.reserve(static_cast<size_t>(program.num_inputs));
  for (int i = 0; i < program.num_inputs; ++i) shapes.push_back(c.input(i));
  for (const ElementwiseProgram::Instruction& instruction : program.instructions) {
    const auto operand = [&](int i) { return shapes[instruction.operands[static_cast<size_t>(i)]]; };
    ShapeHandle shape = operand(0);
    switch (instruction.form().operands) {
      case ElementwiseForm::Operands::kOne:
        break;
      case ElementwiseForm::Operands::kBroadcast: {
        MR_ASSIGN_OR_RETURN(shape, Broadcast(c, operand(0), operand(1)));
        break;
      }
      case ElementwiseForm::Operands::kSelect: {
        MR_ASSIGN_OR_RETURN(shape, c.Merge(operand(1), operand(2)));
        break;
      }
      default: {
        MR_ASSIGN_OR_RETURN(shape, c.Merge(operand(0), operand(1)));
        break;
      }
    }
    shapes.push_back(shape);
  }
  for (size_t i = 0; i < program.results.size(); ++i)
    c.set_output(static_cast<int>(i), shapes[static_cast<size_t>(program.results[i])]);
  return Status();
}

// The size depends on the processor.
Status PackedShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(0), 2).status());
  c.set_output(0, c.MakeShape({c.UnknownDim()}));
  return Status();
}

std::vector<OpBuilder> FusedOps() {
  return {
      // `ops`, `types` and `nodes` have an entry for each instruction: its op, the type of its result and the
      // original node. `operands` are the operands of the instructions in order: numbers of inputs, followed
      // by numbers of results of earlier instructions. `results` are the outputs, with the same numbering.
      OpBuilder("_FusedElementwise: Several element-wise ops in one pass over the elements.")
          .Input("inputs: Tin")
          .Output("outputs: Tout")
          .Attr("Tin: list(type) >= 1")
          .Attr("Tout: list(type) >= 1")
          .Attr("ops: list(string) >= 1")
          .Attr("types: list(type) >= 1")
          .Attr("operands: list(int) >= 1")
          .Attr("results: list(int) >= 1")
          .Attr("nodes: list(string) = []")
          .Shape(ElementwiseShape)
          .Traits(kElementwise),
      WithEpilogue(
          OpBuilder("_FusedMatMul: A product of two matrices, followed by a bias and element-wise ops.")
              .Input("a: T")
              .Input("b: T")
              .Input("args: num_args * T")
              .Output("product: T")
              .Attr("transpose_a: bool = false")
              .Attr("transpose_b: bool = false")
              .Attr("packed: bool = false")  // the last argument is b by _PackMatrix
              .Attr("T: {float}")
              .Flops(FlopRule::kMatMul))
          .Shape(shape_fns::MatMul),
      OpBuilder("_PackMatrix: The second factor of products in the order in which their loops read it.")
          .Input("b: T")
          .Output("packed: T")
          .Attr("transpose: bool = false")
          .Attr("T: {float}")
          .Shape(PackedShape),
      WithEpilogue(
          OpBuilder("_FusedConv2D: A convolution of images, followed by a bias and element-wise ops.")
              .Input("input: T")
              .Input("filter: T")
              .Input("args: num_args * T")
              .Output("output: T")
              .Attr("T: {float}")
              .Attr("strides: list(int)")
              .Attr("padding: {'SAME', 'VALID', 'EXPLICIT'}")
              .Attr("explicit_paddings: list(int) = []")
              .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
              .Attr("dilations: list(int) = [1, 1, 1, 1]")
              .Attr("use_cudnn_on_gpu: bool = true")
              .Attr("margins: list(int) = []")
              .Flops(FlopRule::kConvolution))  // top, bottom, left, right; with VALID
          .Shape(FusedConv2DShape),
      WithEpilogue(
          OpBuilder("_FusedDepthwiseConv2dNative: A depthwise convolution of images, followed by a bias "
                    "and an element-wise op.")
              .Input("input: T")
              .Input("filter: T")
              .Input("args: num_args * T")
              .Output("output: T")
              .Attr("T: {float}")
              .Attr("strides: list(int)")
              .Attr("padding: {'SAME', 'VALID'}")
              .Attr("data_format: {'NHWC'} = 'NHWC'")
              .Attr("dilations: list(int) = [1, 1, 1, 1]")
              .Attr("margins: list(int) = []")
              .Flops(FlopRule::kDepthwiseConvolution))
          .Shape(FusedDepthwiseShape),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterFusedOps(OpRegistry& registry) {
  return ops::RegisterEach(registry, ops::NotDifferentiable(ops::FusedOps()));
}

}  // namespace millrace
