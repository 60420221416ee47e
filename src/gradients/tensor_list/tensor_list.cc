// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Lists of tensors. The gradient of a list is a list of gradients, in which an element without a value counts
// as zeros.
#include "gradients/family.h"

namespace millrace {
namespace {

constexpr DataType kInt32 = DataType::kInt32;

AttrMap Elements(DataType dtype) { return {{"element_dtype", dtype}}; }
AttrMap ElementsAndShape(DataType dtype) { return {{"element_dtype", dtype}, {"shape_type", kInt32}}; }

Expr ShapeOfElements(const Expr& list) {
  return Op("TensorListElementShape", {list}, {{"shape_type", kInt32}});
}

// All sizes but the first.
Expr RowShape(const Expr& tensor) {
  GraphBuilder& b = *tensor.builder();
  return Op("Slice", {ShapeOf(tensor), Vector(b, kInt32, {1}), Vector(b, kInt32, {-1})});
}

// As long as `list`, without values.
Expr ReservedLike(const Expr& list, DataType dtype) {
  return Op("TensorListReserve", {ShapeOfElements(list), Op("TensorListLength", list)},
            ElementsAndShape(dtype));
}

// list, tensor -> list
Status PushBackGrad(GradientContext& c) {
  const Expr item = c.input(1);
  const Expr list = Op("TensorListPopBack", {c.grad(0), ShapeOf(item)}, Elements(item.dtype()));
  c.SetInputGrad(0, list);
  c.SetInputGrad(1, list.Sibling(1));
  return c.status();
}

// list, element_shape -> list, tensor
Status PopBackGrad(GradientContext& c) {
  const DataType dtype = c.output(1).dtype();
  const Expr list = c.has_grad(0) ? c.grad(0) : ReservedLike(c.output(0), dtype);
  c.SetInputGrad(0, Op("TensorListPushBack", {list, c.grad_or_zeros(1)}));
  return c.status();
}

// list, element_shape -> tensor
Status StackGrad(GradientContext& c) {
  const Expr grad = c.grad(0);
  c.SetInputGrad(0, Op("TensorListFromTensor", {grad, RowShape(grad)}));
  return c.status();
}

// tensor, element_shape -> list
Status FromTensorGrad(GradientContext& c) {
  const Expr tensor = c.input(0);
  AttrMap attrs = Elements(tensor.dtype());
  const PartialShape shape = tensor.shape();
  if (shape.rank() > 0) attrs.Set("num_elements", shape.dim(0));
  c.SetInputGrad(0, Op("TensorListStack", {c.grad(0), RowShape(tensor)}, std::move(attrs)));
  return c.status();
}

// list[, element_shape, leading_dims] -> tensor, lengths
Status ConcatGrad(GradientContext& c) {
  if (!c.has_grad(0)) return c.status();
  c.SetInputGrad(0, Op("TensorListSplit", {c.grad(0), ShapeOfElements(c.input(0)), c.output(1)}));
  return c.status();
}

// tensor, element_shape, lengths -> list
Status SplitGrad(GradientContext& c) {
  const Expr tensor = c.input(0);
  const Expr shape = JoinVectors({Vector(c.builder(), kInt32, {-1}), RowShape(tensor)});
  c.SetInputGrad(0,
                 Op("TensorListConcatV2", {c.grad(0), shape, c.input(2)}, ElementsAndShape(tensor.dtype())));
  return c.status();
}

// list, index, element_shape -> item
Status GetItemGrad(GradientContext& c) {
  const Expr item = c.grad(0);
  c.SetInputGrad(0, Op("TensorListSetItem", {ReservedLike(c.input(0), item.dtype()), c.input(1), item}));
  return c.status();
}

// list, index, item -> list
Status SetItemGrad(GradientContext& c) {
  const Expr index = c.input(1), item = c.input(2), list = c.grad(0);
  if (c.wants(0)) c.SetInputGrad(0, Op("TensorListSetItem", {list, index, ZerosLike(item)}));
  if (c.wants(2))
    c.SetInputGrad(2, Op("TensorListGetItem", {list, index, ShapeOf(item)}, Elements(item.dtype())));
  return c.status();
}

// list, size -> list
Status ResizeGrad(GradientContext& c) {
  c.SetInputGrad(0, Op("TensorListResize", {c.grad(0), Op("TensorListLength", c.input(0))}));
  return c.status();
}

// list, indices, element_shape -> values. Of an element that was taken several times the last gradient
// counts, as in TensorFlow.
Status GatherGrad(GradientContext& c) {
  const Expr values = c.grad(0);
  const Expr list = ReservedLike(c.input(0), values.dtype());
  c.SetInputGrad(0, Op("TensorListScatterIntoExistingList", {list, values, c.input(1)}));
  return c.status();
}

Expr Gathered(const Expr& list, const Expr& indices, const Expr& like) {
  return Op("TensorListGather", {list, indices, RowShape(like)}, Elements(like.dtype()));
}

// tensor, indices, element_shape[, num_elements] -> list
Status ScatterGrad(GradientContext& c) {
  c.SetInputGrad(0, Gathered(c.grad(0), c.input(1), c.input(0)));
  return c.status();
}

// list, tensor, indices -> list
Status ScatterIntoGrad(GradientContext& c) {
  const Expr tensor = c.input(1), indices = c.input(2), list = c.grad(0);
  if (c.wants(0)) {
    const Expr rest = Op("TensorListScatterIntoExistingList", {list, ZerosLike(tensor), indices});
    c.SetInputGrad(0, Op("TensorListResize", {rest, Op("TensorListLength", c.input(0))}));
  }
  if (c.wants(1)) c.SetInputGrad(1, Gathered(list, indices, tensor));
  return c.status();
}

constexpr gradients::Row kRows[] = {
    {"TensorListConcat", ConcatGrad},         {"TensorListConcatV2", ConcatGrad},
    {"TensorListFromTensor", FromTensorGrad}, {"TensorListGather", GatherGrad},
    {"TensorListGetItem", GetItemGrad},       {"TensorListPopBack", PopBackGrad},
    {"TensorListPushBack", PushBackGrad},     {"TensorListResize", ResizeGrad},
    {"TensorListScatter", ScatterGrad},       {"TensorListScatterIntoExistingList", ScatterIntoGrad},
    {"TensorListScatterV2", ScatterGrad},     {"TensorListSetItem", SetItemGrad},
    {"TensorListSplit", SplitGrad},           {"TensorListStack", StackGrad},
};

}  // namespace

Status RegisterTensorListGradients(GradientRegistry& registry) {
  return gradients::RegisterEach(registry, kRows);
}

}  // namespace millrace
