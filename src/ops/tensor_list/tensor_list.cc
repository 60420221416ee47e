// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Lists of tensors, which are immutable values: an op that changes one returns another.
#include "ops/family.h"

namespace millrace::ops {
namespace {

// A constant cannot hold a list.
constexpr OpTraits kList{.cheap = true, .never_fold = true};
constexpr OpTraits kRows{.never_fold = true};

constexpr char kDtype[] = "element_dtype: type";
constexpr char kShapeType[] = "shape_type: {int32, int64}";

// The shape of an element, given by input `i`: a scalar means unknown.
StatusOr<ShapeHandle> ElementShape(InferenceContext& c, int i) {
  if (!c.RankKnown(c.input(i)) || c.Rank(c.input(i)) == 0) return c.UnknownShape();
  return c.MakeShapeFromInput(i);
}

Status ListOut(InferenceContext& c) {
  c.set_output(0, c.Scalar());
  return Status();
}

Status NewListShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(ElementShape(c, 0).status());
  MR_RETURN_IF_ERROR(c.WithRank(c.input(1), 0).status());
  return ListOut(c);
}

Status FromTensorShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRankAtLeast(c.input(0), 1).status());
  MR_ASSIGN_OR_RETURN(const ShapeHandle element, ElementShape(c, 1));
  MR_ASSIGN_OR_RETURN(const ShapeHandle row, c.Subshape(c.input(0), 1));
  MR_RETURN_IF_ERROR(c.Merge(row, element).status());
  return ListOut(c);
}

Status PopBackShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle element, ElementShape(c, 1));
  c.set_output(1, element);
  return ListOut(c);
}

Status GetItemShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(1), 0).status());
  MR_ASSIGN_OR_RETURN(const ShapeHandle element, ElementShape(c, 2));
  c.set_output(0, element);
  return Status();
}

Status SetItemShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(1), 0).status());
  return ListOut(c);
}

Status StackShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle element, ElementShape(c, 1));
  MR_ASSIGN_OR_RETURN(const int64_t count, c.Attr<int64_t>("num_elements"));
  if (count < -1) return errors::InvalidArgument("num_elements must be at least -1");
  MR_ASSIGN_OR_RETURN(const ShapeHandle out,
                      c.Concatenate(c.Vector(count < 0 ? c.UnknownDim() : c.MakeDim(count)), element));
  c.set_output(0, out);
  return Status();
}

Status GatherShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle indices, c.WithRank(c.input(1), 1));
  MR_ASSIGN_OR_RETURN(const ShapeHandle element, ElementShape(c, 2));
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.Concatenate(indices, element));
  c.set_output(0, out);
  return Status();
}

Status ScatterShape(InferenceContext& c) {
  const int tensor = c.op().inputs[0].name == "tensor" ? 0 : 1;
  MR_ASSIGN_OR_RETURN(const ShapeHandle value, c.WithRankAtLeast(c.input(tensor), 1));
  MR_ASSIGN_OR_RETURN(const ShapeHandle indices, c.WithRank(c.input(tensor + 1), 1));
  MR_RETURN_IF_ERROR(c.Merge(c.Dim(indices, 0), c.Dim(value, 0)).status());
  if (tensor == 0) {
    MR_ASSIGN_OR_RETURN(const ShapeHandle element, ElementShape(c, 2));
    MR_ASSIGN_OR_RETURN(const ShapeHandle row, c.Subshape(value, 1));
    MR_RETURN_IF_ERROR(c.Merge(row, element).status());
  }
  return ListOut(c);
}

Status ConcatShape(InferenceContext& c) {
  ShapeHandle element = c.UnknownShape();
  if (c.num_inputs() > 1) {
    MR_ASSIGN_OR_RETURN(element, ElementShape(c, 1));
  } else {
    MR_ASSIGN_OR_RETURN(const PartialShape given, c.Attr<PartialShape>("element_shape"));
    MR_ASSIGN_OR_RETURN(element, c.MakeShapeFromPartial(given));
  }
  c.set_output(1, c.Vector(c.UnknownDim()));
  if (!c.RankKnown(element)) return Status();
  MR_ASSIGN_OR_RETURN(element, c.WithRankAtLeast(element, 1));
  MR_ASSIGN_OR_RETURN(const ShapeHandle rest, c.Subshape(element, 1));
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.Concatenate(c.Vector(c.UnknownDim()), rest));
  c.set_output(0, out);
  return Status();
}

Status SplitShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRankAtLeast(c.input(0), 1).status());
  MR_RETURN_IF_ERROR(c.WithRank(c.input(2), 1).status());
  return ListOut(c);
}

Status ElementShapeShape(InferenceContext& c) {
  c.set_output(0, c.UnknownShape());
  return Status();
}

std::vector<OpBuilder> Elements() {
  return {
      OpBuilder("EmptyTensorList: A list of tensors with no elements.")
          .Input("element_shape: shape_type")
          .Input("max_num_elements: int32")
          .Output("handle: variant")
          .Attr(kDtype)
          .Attr(kShapeType)
          .Shape(NewListShape)
          .Traits(kList)
          .NotDifferentiable(),
      OpBuilder("TensorListReserve: A list of a given length whose elements are not yet set.")
          .Input("element_shape: shape_type")
          .Input("num_elements: int32")
          .Output("handle: variant")
          .Attr(kDtype)
          .Attr(kShapeType)
          .Shape(NewListShape)
          .Traits(kList)
          .NotDifferentiable(),
      OpBuilder("TensorListPushBack: A list with one more element.")
          .Input("input_handle: variant")
          .Input("tensor: element_dtype")
          .Output("output_handle: variant")
          .Attr(kDtype)
          .Shape(ListOut)
          .Traits(kList),
      OpBuilder("TensorListPushBackBatch: Lists with one more element each: the rows of a tensor.")
          .Input("input_handles: variant")
          .Input("tensor: element_dtype")
          .Output("output_handles: variant")
          .Attr(kDtype)
          .Shape(shape_fns::Unchanged)
          .Traits(kRows)
          .NotDifferentiable(),
      OpBuilder("TensorListPopBack: A list without its last element, and that element.")
          .Input("input_handle: variant")
          .Input("element_shape: int32")
          .Output("output_handle: variant")
          .Output("tensor: element_dtype")
          .Attr(kDtype)
          .Shape(PopBackShape)
          .Traits(kList),
      OpBuilder("TensorListGetItem: One element of a list.")
          .Input("input_handle: variant")
          .Input("index: int32")
          .Input("element_shape: int32")
          .Output("item: element_dtype")
          .Attr(kDtype)
          .Shape(GetItemShape)
          .Traits(kList),
      OpBuilder("TensorListSetItem: A list with another element at an index.")
          .Input("input_handle: variant")
          .Input("index: int32")
          .Input("item: element_dtype")
          .Output("output_handle: variant")
          .Attr(kDtype)
          .Shape(SetItemShape)
          .Traits(kList),
      OpBuilder("TensorListLength: The number of elements of a list.")
          .Input("input_handle: variant")
          .Output("length: int32")
          .Shape(shape_fns::Scalar)
          .Traits(kList)
          .NotDifferentiable(),
      OpBuilder("TensorListElementShape: The shape that all elements of a list have.")
          .Input("input_handle: variant")
          .Output("element_shape: shape_type")
          .Attr(kShapeType)
          .Shape(ElementShapeShape)
          .Traits(kList)
          .NotDifferentiable(),
      OpBuilder("TensorListResize: A list of another length, cut or extended by unset elements.")
          .Input("input_handle: variant")
          .Input("size: int32")
          .Output("output_handle: variant")
          .Stateful()
          .Shape(SetItemShape)
          .Traits(kList),
      OpBuilder("TensorListConcatLists: Joins lists of tensors in pairs.")
          .Input("input_a: variant")
          .Input("input_b: variant")
          .Output("output: variant")
          .Attr(kDtype)
          .Shape(shape_fns::MergeBothInputs)
          .Traits(kRows)
          .NotDifferentiable(),
  };
}

OpBuilder Scatter(const char* name) {
  return OpBuilder(name)
      .Input("tensor: element_dtype")
      .Input("indices: int32")
      .Input("element_shape: shape_type")
      .Output("output_handle: variant")
      .Attr(kDtype)
      .Attr(kShapeType)
      .Shape(ScatterShape)
      .Traits(kRows);
}

std::vector<OpBuilder> WholeLists() {
  return {
      OpBuilder("TensorListFromTensor: A list of the rows of a tensor.")
          .Input("tensor: element_dtype")
          .Input("element_shape: shape_type")
          .Output("output_handle: variant")
          .Attr(kDtype)
          .Attr(kShapeType)
          .Shape(FromTensorShape)
          .Traits(kRows),
      OpBuilder("TensorListStack: The elements of a list, stacked along a new dimension.")
          .Input("input_handle: variant")
          .Input("element_shape: int32")
          .Output("tensor: element_dtype")
          .Attr(kDtype)
          .Attr("num_elements: int = -1")
          .Shape(StackShape)
          .Traits(kRows),
      OpBuilder("TensorListGather: Elements of a list, by index, stacked along a new dimension.")
          .Input("input_handle: variant")
          .Input("indices: int32")
          .Input("element_shape: int32")
          .Output("values: element_dtype")
          .Attr(kDtype)
          .Shape(GatherShape)
          .Traits(kRows),
      Scatter("TensorListScatter: A list with the rows of a tensor at given indices."),
      Scatter("TensorListScatterV2: A list of a given length with the rows of a tensor at given indices.")
          .Input("num_elements: int32"),
      OpBuilder("TensorListScatterIntoExistingList: A list in which the rows of a tensor replace the "
                "elements at given indices.")
          .Input("input_handle: variant")
          .Input("tensor: element_dtype")
          .Input("indices: int32")
          .Output("output_handle: variant")
          .Attr(kDtype)
          .Shape(ScatterShape)
          .Traits(kRows),
      OpBuilder("TensorListConcat: The elements of a list, joined along their first dimension.")
          .Input("input_handle: variant")
          .Output("tensor: element_dtype")
          .Output("lengths: int64")
          .Attr(kDtype)
          .Attr("element_shape: shape = { unknown_rank: true }")
          .Shape(ConcatShape)
          .Traits(kRows),
      OpBuilder("TensorListConcatV2: The elements of a list, joined along their first dimension, and their "
                "lengths.")
          .Input("input_handle: variant")
          .Input("element_shape: shape_type")
          .Input("leading_dims: int64")
          .Output("tensor: element_dtype")
          .Output("lengths: int64")
          .Attr(kDtype)
          .Attr(kShapeType)
          .Shape(ConcatShape)
          .Traits(kRows),
      OpBuilder("TensorListSplit: A list of parts of a tensor, by their lengths.")
          .Input("tensor: element_dtype")
          .Input("element_shape: shape_type")
          .Input("lengths: int64")
          .Output("output_handle: variant")
          .Attr(kDtype)
          .Attr(kShapeType)
          .Shape(SplitShape)
          .Traits(kRows),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterTensorListOps(OpRegistry& registry) {
  MR_RETURN_IF_ERROR(ops::RegisterEach(registry, ops::Elements()));
  return ops::RegisterEach(registry, ops::WholeLists());
}

}  // namespace millrace
