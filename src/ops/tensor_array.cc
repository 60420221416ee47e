// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Arrays and stacks of tensors that live for one step.
#include "ops/family.h"
#include "ops/register.h"

namespace millrace::ops {
namespace {

Status ArrayShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(0), 0).status());
  c.set_output(0, c.Scalar());
  c.set_output(1, c.Scalar());
  MR_ASSIGN_OR_RETURN(const DataType dtype, c.Attr<DataType>("dtype"));
  MR_ASSIGN_OR_RETURN(const bool identical, c.Attr<bool>("identical_element_shapes"));
  MR_ASSIGN_OR_RETURN(const PartialShape partial, c.Attr<PartialShape>("element_shape"));
  MR_ASSIGN_OR_RETURN(const ShapeHandle shape, c.MakeShapeFromPartial(partial));
  if (identical || c.FullyDefined(shape)) c.set_output_handle(0, {{shape, dtype}});
  return Status();
}

Status CheckScalar(InferenceContext& c, int i) { return c.WithRank(c.input(i), 0).status(); }

Status GradShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(CheckScalar(c, 1));
  if (c.num_inputs() > 2) MR_RETURN_IF_ERROR(c.WithRankAtMost(c.input(2), 1).status());
  c.set_output(0, c.Scalar());
  c.set_output(1, c.Scalar());
  if (c.num_inputs() == 2 && !c.input_handle(0).empty()) c.set_output_handle(0, c.input_handle(0));
  return Status();
}

// The shape of the elements, when the handle tells it.
StatusOr<ShapeHandle> ElementShape(InferenceContext& c, std::string_view type_attr) {
  if (c.input_handle(0).empty()) return c.UnknownShape();
  const HandleShapeAndType& element = c.input_handle(0)[0];
  MR_ASSIGN_OR_RETURN(const DataType dtype, c.Attr<DataType>(type_attr));
  if (element.dtype != dtype) {
    return errors::InvalidArgument("TensorArray dtype is ", DataTypeName(element.dtype),
                                   " but Op requested dtype ", DataTypeName(dtype), ".");
  }
  return element.shape;
}

Status ReadShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(CheckScalar(c, 1));
  MR_RETURN_IF_ERROR(CheckScalar(c, 2));
  MR_ASSIGN_OR_RETURN(const ShapeHandle element, ElementShape(c, "dtype"));
  c.set_output(0, element);
  return Status();
}

Status WriteShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(CheckScalar(c, 1));
  MR_RETURN_IF_ERROR(CheckScalar(c, 3));
  MR_ASSIGN_OR_RETURN(const ShapeHandle element, ElementShape(c, "T"));
  MR_RETURN_IF_ERROR(c.Merge(element, c.input(2)).status());
  c.set_output(0, c.Scalar());
  return Status();
}

Status GatherShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle indices, c.WithRank(c.input(1), 1));
  MR_RETURN_IF_ERROR(CheckScalar(c, 2));
  MR_ASSIGN_OR_RETURN(ShapeHandle element, ElementShape(c, "dtype"));
  MR_ASSIGN_OR_RETURN(const PartialShape partial, c.Attr<PartialShape>("element_shape"));
  MR_ASSIGN_OR_RETURN(const ShapeHandle given, c.MakeShapeFromPartial(partial));
  MR_ASSIGN_OR_RETURN(element, c.Merge(element, given));
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.Concatenate(indices, element));
  c.set_output(0, out);
  return Status();
}

Status ScatterShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle indices, c.WithRank(c.input(1), 1));
  MR_ASSIGN_OR_RETURN(const ShapeHandle value, c.WithRankAtLeast(c.input(2), 1));
  MR_RETURN_IF_ERROR(CheckScalar(c, 3));
  MR_RETURN_IF_ERROR(c.Merge(c.Dim(indices, 0), c.Dim(value, 0)).status());
  c.set_output(0, c.Scalar());
  return Status();
}

Status SplitShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRankAtLeast(c.input(1), 1).status());
  MR_RETURN_IF_ERROR(c.WithRank(c.input(2), 1).status());
  MR_RETURN_IF_ERROR(CheckScalar(c, 3));
  c.set_output(0, c.Scalar());
  return Status();
}

Status ConcatShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(CheckScalar(c, 1));
  MR_ASSIGN_OR_RETURN(const PartialShape partial, c.Attr<PartialShape>("element_shape_except0"));
  MR_ASSIGN_OR_RETURN(const ShapeHandle rest, c.MakeShapeFromPartial(partial));
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.Concatenate(c.Vector(c.UnknownDim()), rest));
  c.set_output(0, out);
  c.set_output(1, c.Vector(c.UnknownDim()));
  return Status();
}

Status SizeShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(CheckScalar(c, 1));
  c.set_output(0, c.Scalar());
  return Status();
}

// An op on the array behind input 0.
OpBuilder OnArray(const char* name) { return OpBuilder(name).Input("handle: resource").Stateful(); }

std::vector<OpBuilder> Arrays() {
  return {
      OpBuilder("TensorArrayV3")
          .Input("size: int32")
          .Output("handle: resource")
          .Output("flow: float")
          .Attr("dtype: type")
          .Attr("element_shape: shape = { unknown_rank: true }")
          .Attr("dynamic_size: bool = false")
          .Attr("clear_after_read: bool = true")
          .Attr("identical_element_shapes: bool = false")
          .Attr("tensor_array_name: string = ''")
          .Stateful()
          .Shape(ArrayShape)
          .Traits(kCheap),
      OnArray("TensorArrayGradV3")
          .Input("flow_in: float")
          .Output("grad_handle: resource")
          .Output("flow_out: float")
          .Attr("source: string")
          .Shape(GradShape)
          .Traits(kCheap),
      OnArray("TensorArrayGradWithShape")
          .Input("flow_in: float")
          .Input("shape_to_prepend: int32")
          .Output("grad_handle: resource")
          .Output("flow_out: float")
          .Attr("source: string")
          .Shape(GradShape)
          .Traits(kCheap),
      OnArray("TensorArraySizeV3")
          .Input("flow_in: float")
          .Output("size: int32")
          .Shape(SizeShape)
          .Traits(kCheap),
      OnArray("TensorArrayCloseV3").Shape(shape_fns::NoOutputs).Traits(kEffect),
  };
}

std::vector<OpBuilder> Elements() {
  return {
      OnArray("TensorArrayReadV3")
          .Input("index: int32")
          .Input("flow_in: float")
          .Output("value: dtype")
          .Attr("dtype: type")
          .Shape(ReadShape)
          .Traits(kAliasing),
      OnArray("TensorArrayWriteV3")
          .Input("index: int32")
          .Input("value: T")
          .Input("flow_in: float")
          .Output("flow_out: float")
          .Attr(kAnyType)
          .Shape(WriteShape)
          .Traits({.cheap = true, .has_side_effects = true}),
      OnArray("TensorArrayGatherV3")
          .Input("indices: int32")
          .Input("flow_in: float")
          .Output("value: dtype")
          .Attr("dtype: type")
          .Attr("element_shape: shape = { unknown_rank: true }")
          .Shape(GatherShape),
      OnArray("TensorArrayScatterV3")
          .Input("indices: int32")
          .Input("value: T")
          .Input("flow_in: float")
          .Output("flow_out: float")
          .Attr(kAnyType)
          .Shape(ScatterShape)
          .Traits(kEffect),
      OnArray("TensorArraySplitV3")
          .Input("value: T")
          .Input("lengths: int64")
          .Input("flow_in: float")
          .Output("flow_out: float")
          .Attr(kAnyType)
          .Shape(SplitShape)
          .Traits(kEffect),
      OnArray("TensorArrayConcatV3")
          .Input("flow_in: float")
          .Output("value: dtype")
          .Output("lengths: int64")
          .Attr("dtype: type")
          .Attr("element_shape_except0: shape = { unknown_rank: true }")
          .Shape(ConcatShape),
  };
}

Status PushShape(InferenceContext& c) {
  c.set_output(0, c.input(1));
  if (!c.input_handle(1).empty()) c.set_output_handle(0, c.input_handle(1));
  return Status();
}

Status StackShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(CheckScalar(c, 0));
  c.set_output(0, c.Scalar());
  return Status();
}

std::vector<OpBuilder> Stacks() {
  return {
      OpBuilder("StackV2")
          .Input("max_size: int32")
          .Output("handle: resource")
          .Attr("elem_type: type")
          .Attr("stack_name: string = ''")
          .Stateful()
          .Shape(StackShape)
          .Traits(kCheap),
      OnArray("StackPushV2")
          .Input("elem: T")
          .Output("output: T")
          .Attr(kAnyType)
          .Attr("swap_memory: bool = false")
          .Shape(PushShape)
          .Traits({.cheap = true, .aliasing = true, .has_side_effects = true}),
      OnArray("StackPopV2")
          .Output("elem: elem_type")
          .Attr("elem_type: type")
          .Shape(shape_fns::Unknown)
          .Traits({.cheap = true, .has_side_effects = true}),
      OnArray("StackCloseV2").Shape(shape_fns::NoOutputs).Traits(kEffect),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterTensorArrayOps(OpRegistry& registry) {
  for (const auto part : {ops::Arrays, ops::Elements, ops::Stacks}) {
    MR_RETURN_IF_ERROR(ops::RegisterEach(registry, part()));
  }
  return Status();
}

}  // namespace millrace
