// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Shape functions of ops that make tensors or read shapes. The others are in rearrange_shapes.cc,
// block_shapes.cc and part_shapes.cc.
#include "ops/array/shapes.h"

#include <algorithm>

namespace millrace::ops {

Status ConstShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const Tensor value, c.Attr<Tensor>("value"));
  MR_ASSIGN_OR_RETURN(const DataType dtype, c.Attr<DataType>("dtype"));
  if (value.dtype() != dtype) {
    return errors::InvalidArgument("Type mismatch between value (", DataTypeName(value.dtype()),
                                   ") and dtype (", DataTypeName(dtype), ")");
  }
  MR_ASSIGN_OR_RETURN(const ShapeHandle shape, c.MakeShapeFromPartial(value.shape()));
  c.set_output(0, shape);
  return Status::Ok();
}

Status PlaceholderWithDefaultShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(shape_fns::Explicit(c));
  // The default must fit; a fed value may be any tensor of the declared shape.
  return c.Merge(c.input(0), c.output(0)).status();
}

Status EnsureShapeShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(shape_fns::Explicit(c));
  const ShapeHandle wanted = c.output(0);
  if (c.RankKnown(wanted)) MR_RETURN_IF_ERROR(c.WithRank(c.input(0), c.Rank(wanted)).status());
  MR_ASSIGN_OR_RETURN(const ShapeHandle merged, c.Merge(wanted, c.input(0)));
  c.set_output(0, merged);
  return Status::Ok();
}

Status FillShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(0), 1).status());
  MR_RETURN_IF_ERROR(c.WithRank(c.input(1), 0).status());
  if (const Tensor* const dims = c.input_tensor(0); dims != nullptr && dims->rank() == 1) {
    MR_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, IntegerValues(*dims));
    if (std::ranges::any_of(sizes, [](int64_t size) { return size < 0; }))
      return errors::InvalidArgument("Fill dimensions must be >= 0");
  }
  MR_ASSIGN_OR_RETURN(const ShapeHandle shape, c.MakeShapeFromInput(0));
  c.set_output(0, shape);
  return Status::Ok();
}

Status ShapeShape(InferenceContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) {
    const ShapeHandle input = c.input(i);
    c.set_output(i, c.Vector(c.RankKnown(input) ? c.MakeDim(c.Rank(input)) : c.UnknownDim()));
  }
  return Status::Ok();
}

Status IdentityShape(InferenceContext& c) {
  c.set_output(0, c.input(0));
  if (!c.input_handle(0).empty()) c.set_output_handle(0, c.input_handle(0));
  return Status::Ok();
}

Status IdentityNShape(InferenceContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) {
    c.set_output(i, c.input(i));
    if (!c.input_handle(i).empty()) c.set_output_handle(i, c.input_handle(i));
  }
  return Status::Ok();
}

Status BitcastShape(InferenceContext& c) {
  const ShapeHandle input = c.input(0);
  MR_ASSIGN_OR_RETURN(const DataType from, c.Attr<DataType>("T"));
  MR_ASSIGN_OR_RETURN(const DataType to, c.Attr<DataType>("type"));
  const auto from_size = static_cast<int64_t>(DataTypeSize(from));
  const auto to_size = static_cast<int64_t>(DataTypeSize(to));
  if (from_size == 0 || to_size == 0) {
    return errors::InvalidArgument("Cannot bitcast types ", DataTypeName(from), " to ", DataTypeName(to),
                                   " because one of the type sizes is zero.");
  }
  ShapeHandle out = input;
  if (from_size > to_size) {
    // Each element becomes a row of smaller ones.
    MR_ASSIGN_OR_RETURN(out, c.Concatenate(input, c.Vector(from_size / to_size)));
  } else if (from_size < to_size) {
    MR_RETURN_IF_ERROR(c.WithRankAtLeast(input, 1).status());
    const DimHandle last = c.Dim(input, -1);
    if (c.ValueKnown(last) && c.Value(last) != to_size / from_size) {
      return errors::InvalidArgument("Cannot bitcast due to shape. ", c.Value(last), " does not match ",
                                     to_size / from_size);
    }
    MR_ASSIGN_OR_RETURN(out, c.Subshape(input, 0, -1));
  }
  c.set_output(0, out);
  return Status::Ok();
}

Status OneHotShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const int64_t axis, c.Attr<int64_t>("axis"));
  if (axis < -1) return errors::InvalidArgument("axis must be >= -1");
  MR_ASSIGN_OR_RETURN(const DimHandle depth, c.MakeDimFromScalarInput(1));
  const ShapeHandle indices = c.input(0);
  if (!c.RankKnown(indices)) {
    c.set_output(0, c.UnknownShape());
    return Status::Ok();
  }
  const int64_t rank = c.Rank(indices);
  // The kernel refuses an axis that is too large.
  const int64_t place = axis == -1 ? rank : axis % (rank + 1);
  MR_ASSIGN_OR_RETURN(const ShapeHandle front, c.Subshape(indices, 0, place));
  MR_ASSIGN_OR_RETURN(const ShapeHandle back, c.Subshape(indices, place));
  MR_ASSIGN_OR_RETURN(ShapeHandle out, c.Concatenate(front, c.Vector(depth)));
  MR_ASSIGN_OR_RETURN(out, c.Concatenate(out, back));
  c.set_output(0, out);
  return Status::Ok();
}

Status WhereShape(InferenceContext& c) {
  const ShapeHandle input = c.input(0);
  const DimHandle columns = c.RankKnown(input) ? c.MakeDim(c.Rank(input)) : c.UnknownDim();
  c.set_output(0, c.Matrix(c.UnknownDim(), columns));
  return Status::Ok();
}

Status BroadcastArgsShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle x, c.WithRank(c.input(0), 1));
  MR_ASSIGN_OR_RETURN(const ShapeHandle y, c.WithRank(c.input(1), 1));
  const DimHandle a = c.Dim(x, 0);
  const DimHandle b = c.Dim(y, 0);
  if (!c.ValueKnown(a) || !c.ValueKnown(b)) {
    c.set_output(0, c.Vector(a.SameAs(b) ? a : c.UnknownDim()));
  } else {
    c.set_output(0, c.Vector(c.Value(a) < c.Value(b) ? b : a));
  }
  return Status::Ok();
}

Status BroadcastGradientArgsShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(0), 1).status());
  MR_RETURN_IF_ERROR(c.WithRank(c.input(1), 1).status());
  c.set_output(0, c.Vector(c.UnknownDim()));
  c.set_output(1, c.Vector(c.UnknownDim()));
  return Status::Ok();
}

Status BroadcastToShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.MakeShapeFromInput(1));
  const ShapeHandle input = c.input(0);
  c.set_output(0, out);
  if (!c.RankKnown(input) || !c.RankKnown(out)) return Status::Ok();
  MR_RETURN_IF_ERROR(c.WithRankAtMost(input, c.Rank(out)).status());
  for (int i = 1; i <= c.Rank(input); ++i) {
    const DimHandle from = c.Dim(input, -i);
    const DimHandle to = c.Dim(out, -i);
    if (c.Value(from) > 1) MR_RETURN_IF_ERROR(c.Merge(from, to).status());
  }
  return Status::Ok();
}

}  // namespace millrace::ops
