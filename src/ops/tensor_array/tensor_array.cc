// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Arrays and stacks of tensors that live for one step.
#include "ops/family.h"

namespace millrace::ops {
namespace {

Status CheckScalar(InferenceContext& c, int i) { return c.WithRank(c.input(i), 0).status(); }

Status ArrayShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(CheckScalar(c, 0));
  c.set_output(0, c.Scalar());
  c.set_output(1, c.Scalar());
  MR_ASSIGN_OR_RETURN(const DataType dtype, c.Attr<DataType>("dtype"));
  MR_ASSIGN_OR_RETURN(const bool identical, c.Attr<bool>("identical_element_shapes"));
  MR_ASSIGN_OR_RETURN(const PartialShape partial, c.Attr<PartialShape>("element_shape"));
  MR_ASSIGN_OR_RETURN(const ShapeHandle shape, c.MakeShapeFromPartial(partial));
  if (identical || c.FullyDefined(shape)) c.set_output_handle(0, {{shape, dtype}});
  return Status();
}

// The shape of handles that are names.
Status NamedArrayShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(CheckScalar(c, 0));
  c.set_output(0, c.Vector(2));
  return Status();
}

Status NamedGradShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(CheckScalar(c, 1));
  c.set_output(0, c.Vector(2));
  return Status();
}

Status GradShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(CheckScalar(c, 1));
  if (c.num_inputs() > 2) MR_RETURN_IF_ERROR(c.WithRankAtMost(c.input(2), 1).status());
  c.set_output(0, c.Scalar());
  c.set_output(1, c.Scalar());
  if (c.num_inputs() == 2 && !c.input_handle(0).empty()) c.set_output_handle(0, c.input_handle(0));
  return Status();
}

// The shape of the elements, if the handle has it.
StatusOr<ShapeHandle> ElementShape(InferenceContext& c, std::string_view type_attr) {
  if (c.input_handle(0).empty()) return c.UnknownShape();
  const HandleShapeAndType& element = c.input_handle(0)[0];
  MR_ASSIGN_OR_RETURN(const DataType dtype, c.Attr<DataType>(type_attr));
  return element.dtype == dtype ? element.shape : c.UnknownShape();  // the kernels report errors
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

Status PackShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(CheckScalar(c, 1));
  MR_ASSIGN_OR_RETURN(const PartialShape partial, c.Attr<PartialShape>("element_shape"));
  MR_ASSIGN_OR_RETURN(const ShapeHandle element, c.MakeShapeFromPartial(partial));
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.Concatenate(c.Vector(c.UnknownDim()), element));
  c.set_output(0, out);
  return Status();
}

Status UnpackShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRankAtLeast(c.input(1), 1).status());
  MR_RETURN_IF_ERROR(CheckScalar(c, 2));
  c.set_output(0, c.Scalar());
  return Status();
}

// The versions of ops on arrays and stacks differ in the form of the handle: a reference to the strings
// container and name, the two strings, a resource.
struct Version {
  const char* suffix;
  const char* handle_type;
};
constexpr Version kByReference{"", "Ref(string)"};
constexpr Version kByName{"V2", "string"};
constexpr Version kByResource{"V3", "resource"};

bool IsResource(const Version& v) { return std::string_view(v.handle_type) == "resource"; }

// An op on the resource that input 0 refers to.
OpBuilder On(const Version& v, const char* name) {
  OpBuilder op(WithSuffix(name, v.suffix));
  op.Input(StrCat("handle: ", v.handle_type));
  if (IsResource(v)) op.Stateful();
  return op;
}
OpBuilder OnArray(const Version& v, const char* name, int deprecated = 16) {
  OpBuilder op = On(v, name);
  // TensorFlow 1.15 lacks one op of the second version.
  const bool first = v.suffix[0] == '\0', forgotten = NameOf(name) == "TensorArrayConcat";
  if (first || (!IsResource(v) && !forgotten))
    op.Deprecated(first ? deprecated : 26, StrCat("Use ", NameOf(name), "V3"));
  return op;
}

OpBuilder NamedArray(const Version& v) {
  const bool first = v.suffix[0] == '\0';
  OpBuilder op(WithSuffix("TensorArray: An array of tensors that lives within a step.", v.suffix));
  op.Input("size: int32").Output(StrCat("handle: ", v.handle_type)).Attr("dtype: type");
  if (!first) op.Attr("element_shape: shape = { unknown_rank: true }");
  op.Attr("dynamic_size: bool = false")
      .Attr("clear_after_read: bool = true")
      .Attr("tensor_array_name: string = ''");
  if (first) op.Attr("element_shape: shape = { unknown_rank: true }");
  op.Deprecated(first ? 16 : 26, "Use TensorArrayV3");
  return op.Stateful().Shape(NamedArrayShape).Traits(kCheap).NotDifferentiable();
}

OpBuilder NamedGrad(const Version& v) {
  OpBuilder op(WithSuffix("TensorArrayGrad: The gradient of TensorArray.", v.suffix));
  op.Input("handle: string")
      .Input("flow_in: float")
      .Output(StrCat("grad_handle: ", v.handle_type))
      .Attr("source: string")
      .Stateful()
      .Shape(NamedGradShape)
      .Traits(kCheap)
      .NotDifferentiable();
  op.Deprecated(v.suffix[0] == '\0' ? 16 : 26, "Use TensorArrayGradV3");
  return op;
}

std::vector<OpBuilder> Arrays() {
  return {
      NamedArray(kByReference),
      NamedArray(kByName),
      OpBuilder("TensorArrayV3: An array of tensors that lives within a step.")
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
          .Traits(kCheap)
          .NotDifferentiable(),
      NamedGrad(kByReference),
      NamedGrad(kByName),
      OnArray(kByResource, "TensorArrayGrad: The gradient of TensorArray.")
          .Input("flow_in: float")
          .Output("grad_handle: resource")
          .Output("flow_out: float")
          .Attr("source: string")
          .Shape(GradShape)
          .Traits(kCheap),
      OpBuilder(
          "TensorArrayGradWithShape: The array of gradients of an array, with tensors of a larger shape.")
          .Input("handle: resource")
          .Input("flow_in: float")
          .Input("shape_to_prepend: int32")
          .Output("grad_handle: resource")
          .Output("flow_out: float")
          .Attr("source: string")
          .Stateful()
          .Shape(GradShape)
          .Traits(kCheap)
          .NotDifferentiable(),
  };
}

std::vector<OpBuilder> Elements(const Version& v) {
  return {
      OnArray(v, "TensorArrayRead: A tensor of an array.")
          .Input("index: int32")
          .Input("flow_in: float")
          .Output("value: dtype")
          .Attr("dtype: type")
          .Shape(ReadShape)
          .Traits({.cheap = true, .aliasing = true, .has_side_effects = !IsResource(v)}),
      OnArray(v, "TensorArrayWrite: Puts a tensor into an array.")
          .Input("index: int32")
          .Input("value: T")
          .Input("flow_in: float")
          .Output("flow_out: float")
          .Attr(kAnyType)
          .Shape(WriteShape)
          .Traits({.cheap = true, .has_side_effects = true}),
      OnArray(v, "TensorArrayGather: Tensors of an array, by index, stacked along a new dimension.")
          .Input("indices: int32")
          .Input("flow_in: float")
          .Output("value: dtype")
          .Attr("dtype: type")
          .Attr("element_shape: shape = { unknown_rank: true }")
          .Shape(GatherShape)
          .Traits({.has_side_effects = !IsResource(v)}),
      OnArray(v, "TensorArrayScatter: Puts the rows of a tensor into an array, by index.", 19)
          .Input("indices: int32")
          .Input("value: T")
          .Input("flow_in: float")
          .Output("flow_out: float")
          .Attr(kAnyType)
          .Shape(ScatterShape)
          .Traits(kEffect),
      OnArray(v, "TensorArraySplit: Puts parts of a tensor into an array, by their lengths.")
          .Input("value: T")
          .Input("lengths: int64")
          .Input("flow_in: float")
          .Output("flow_out: float")
          .Attr(kAnyType)
          .Shape(SplitShape)
          .Traits(kEffect),
      OnArray(v, "TensorArrayConcat: Joins all tensors of an array along their first dimension.")
          .Input("flow_in: float")
          .Output("value: dtype")
          .Output("lengths: int64")
          .Attr("dtype: type")
          .Attr("element_shape_except0: shape = { unknown_rank: true }")
          .Shape(ConcatShape)
          .Traits({.has_side_effects = !IsResource(v)}),
      OnArray(v, "TensorArraySize: The number of tensors in an array.")
          .Input("flow_in: float")
          .Output("size: int32")
          .Shape(SizeShape)
          .Traits({.cheap = true, .has_side_effects = !IsResource(v)})
          .NotDifferentiable(),
      OnArray(v, "TensorArrayClose: Deletes an array of tensors.")
          .Shape(shape_fns::NoOutputs)
          .Traits(kEffect)
          .NotDifferentiable(),
  };
}

// The ops that only the first version has.
std::vector<OpBuilder> WholeArrays() {
  return {
      On(kByReference, "TensorArrayPack: All tensors of an array, stacked along a new dimension.")
          .Input("flow_in: float")
          .Output("value: dtype")
          .Attr("dtype: type")
          .Attr("element_shape: shape = { unknown_rank: true }")
          .Deprecated(16, "Use TensorArrayGatherV3 with RangeOp")
          .Shape(PackShape)
          .Traits(kEffect),
      On(kByReference, "TensorArrayUnpack: Puts the rows of a tensor into an array.")
          .Input("value: T")
          .Input("flow_in: float")
          .Output("flow_out: float")
          .Attr(kAnyType)
          .Deprecated(20, "Use TensorArrayScatterV3 with RangeOp")
          .Shape(UnpackShape)
          .Traits(kEffect),
  };
}

Status PushShape(InferenceContext& c) {
  c.set_output(0, c.input(1));
  if (!c.input_handle(1).empty()) c.set_output_handle(0, c.input_handle(1));
  return Status();
}

Status StackShape(InferenceContext& c) {
  if (c.num_inputs() == 0) {
    c.set_output(0, c.Vector(2));
    return Status();
  }
  MR_RETURN_IF_ERROR(CheckScalar(c, 0));
  c.set_output(0, c.Scalar());
  return Status();
}

// `v` has the suffix of the stacks' second version for resources.
std::vector<OpBuilder> Stacks(const Version& v) {
  OpBuilder stack(WithSuffix("Stack: A stack of tensors that lives within a step.", v.suffix));
  if (IsResource(v)) stack.Input("max_size: int32");
  stack.Output(StrCat("handle: ", v.handle_type))
      .Attr("elem_type: type")
      .Attr("stack_name: string = ''")
      .Stateful()
      .Shape(StackShape)
      .Traits(kCheap);
  return {
      stack,
      On(v, "StackPush: Puts a tensor onto a stack.")
          .Input("elem: T")
          .Output("output: T")
          .Attr(kAnyType)
          .Attr("swap_memory: bool = false")
          .Shape(PushShape)
          .Traits({.cheap = true, .aliasing = true, .has_side_effects = true}),
      On(v, "StackPop: Removes the last tensor from a stack and returns it.")
          .Output("elem: elem_type")
          .Attr("elem_type: type")
          .Shape(shape_fns::Unknown)
          .Traits({.cheap = true, .has_side_effects = true}),
      On(v, "StackClose: Deletes a stack.").Shape(shape_fns::NoOutputs).Traits(kEffect),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterTensorArrayOps(OpRegistry& registry) {
  using ops::RegisterEach;
  MR_RETURN_IF_ERROR(RegisterEach(registry, ops::Arrays()));
  for (const ops::Version& v : {ops::kByReference, ops::kByName, ops::kByResource}) {
    MR_RETURN_IF_ERROR(RegisterEach(registry, ops::Elements(v)));
  }
  MR_RETURN_IF_ERROR(RegisterEach(registry, ops::WholeArrays()));
  for (const ops::Version& v : {ops::kByReference, ops::Version{"V2", "resource"}}) {
    MR_RETURN_IF_ERROR(RegisterEach(registry, ops::NotDifferentiable(ops::Stacks(v))));
  }
  return Status();
}

}  // namespace millrace
