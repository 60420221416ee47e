// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Shape functions of ops that take parts of tensors: splits, slices, gathers, and scatters.
#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "op/strided_slice.h"
#include "ops/array/shapes.h"
#include "ops/state/variable_shapes.h"

namespace millrace::ops {
namespace {

// The dimension of `input` that scalar input `axis_input` names; -1 when the value or the rank is not known.
StatusOr<int64_t> AxisFromInput(InferenceContext& c, int axis_input, ShapeHandle input) {
  const Tensor* value = c.input_tensor(axis_input);
  if (value == nullptr || !c.RankKnown(input)) return -1;
  if (value->rank() != 0) return errors::InvalidArgument("Input must be scalar but has rank ", value->rank());
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, IntegerValues(*value));
  const int64_t rank = c.Rank(input);
  if (axes.size() != 1 || axes[0] < -rank || axes[0] >= rank) {
    return errors::InvalidArgument("Dimension size, given by scalar input ", axes.empty() ? 0 : axes[0],
                                   " must be in range [-", rank, ", ", rank, ")");
  }
  return axes[0] < 0 ? axes[0] + rank : axes[0];
}

// All outputs get the shape `out`.
void SetAllOutputs(InferenceContext& c, ShapeHandle out) {
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, out);
}

StatusOr<std::vector<int64_t>> ValuesOfInput(InferenceContext& c, int i) {
  const Tensor* value = c.input_tensor(i);
  if (value == nullptr) return errors::NotFound("the value of input ", i, " is not known");
  return IntegerValues(*value);
}

}  // namespace

Status SplitShape(InferenceContext& c) {
  const ShapeHandle input = c.input(1);
  MR_ASSIGN_OR_RETURN(const int64_t axis, AxisFromInput(c, 0, input));
  if (axis < 0) {
    SetAllOutputs(c, c.RankKnown(input) ? c.UnknownShapeOfRank(c.Rank(input)) : c.UnknownShape());
    return Status::Ok();
  }
  if (c.num_outputs() == 0) return errors::InvalidArgument("num_split must be positive");
  const auto part = c.Divide(c.Dim(input, axis), c.num_outputs(), true);
  if (!part.ok()) {
    return part.status().WithContext("\n\tNumber of ways to split should evenly divide the split dimension");
  }
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.ReplaceDim(input, axis, *part));
  SetAllOutputs(c, out);
  return Status::Ok();
}

namespace {

// The number of rows of each output of SplitV: `sizes`, one of which may be -1 for the rest of the axis.
StatusOr<std::vector<int64_t>> SplitSizes(const InferenceContext& c, std::vector<int64_t> sizes,
                                          DimHandle axis) {
  if (static_cast<int>(sizes.size()) != c.num_outputs()) {
    return errors::InvalidArgument("Length of size_splits should be equal to num_outputs");
  }
  int64_t total = 0;
  int64_t* rest = nullptr;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == -1) {
      if (rest != nullptr) return errors::InvalidArgument("size_splits can only have one -1");
      rest = &sizes[i];
    } else if (__builtin_add_overflow(total, sizes[i], &total)) {
      return errors::InvalidArgument("Split sizes add up to more than 2^63 - 1");
    }
  }
  if (!c.ValueKnown(axis)) return sizes;
  const int64_t whole = c.Value(axis);
  if (rest != nullptr ? total > whole : total != whole) {
    std::string list;
    for (const int64_t size : sizes) list += StrCat(list.empty() ? "" : ",", size);
    return errors::InvalidArgument("can't split axis of size ", whole, " into pieces of size [", list, "]");
  }
  if (rest != nullptr) *rest = whole - total;
  return sizes;
}

}  // namespace

Status SplitVShape(InferenceContext& c) {
  const ShapeHandle input = c.input(0);
  MR_ASSIGN_OR_RETURN(const int64_t axis, AxisFromInput(c, 2, input));
  const auto given = ValuesOfInput(c, 1);
  if (!given.ok() && !errors::IsNotFound(given.status())) return given.status();
  if (!c.RankKnown(input)) {
    SetAllOutputs(c, c.UnknownShape());
    return Status::Ok();
  }
  if (c.Rank(input) == 0) return errors::InvalidArgument("Can't split scalars");
  if (axis < 0) {
    SetAllOutputs(c, c.UnknownShapeOfRank(c.Rank(input)));
    return Status::Ok();
  }
  std::vector<int64_t> sizes(static_cast<size_t>(c.num_outputs()), -1);
  if (given.ok()) {
    MR_ASSIGN_OR_RETURN(sizes, SplitSizes(c, *given, c.Dim(input, axis)));
  }
  for (int i = 0; i < c.num_outputs(); ++i) {
    const DimHandle size = c.MakeDim(sizes[static_cast<size_t>(i)]);  // unknown for -1
    MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.ReplaceDim(input, axis, size));
    c.set_output(i, out);
  }
  return Status::Ok();
}

Status SliceShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle begin_shape, c.WithRank(c.input(1), 1));
  MR_ASSIGN_OR_RETURN(const ShapeHandle size_shape, c.WithRank(c.input(2), 1));
  MR_ASSIGN_OR_RETURN(const ShapeHandle bounds, c.Merge(begin_shape, size_shape));
  const DimHandle length = c.Dim(bounds, 0);
  ShapeHandle input = c.input(0);
  if (c.ValueKnown(length)) {
    if (c.Value(length) > TensorShape::kMaxRank) {
      return errors::InvalidArgument("begin has ", c.Value(length), " entries; the largest rank is ",
                                     TensorShape::kMaxRank);
    }
    MR_ASSIGN_OR_RETURN(input, c.WithRank(input, static_cast<int>(c.Value(length))));
  }
  // The kernel checks that begin and size are within the input.
  MR_ASSIGN_OR_RETURN(ShapeHandle begin, c.MakeShapeFromInput(1));
  if (c.input_tensor(2) == nullptr) {
    MR_ASSIGN_OR_RETURN(const ShapeHandle sizes, c.MakeShapeFromInput(2));
    if (c.RankKnown(sizes)) {
      MR_RETURN_IF_ERROR(c.WithRank(begin, c.Rank(sizes)).status());
      c.set_output(0, sizes);
    } else {
      c.set_output(0, c.RankKnown(input) ? c.UnknownShapeOfRank(c.Rank(input)) : c.UnknownShape());
    }
    return Status::Ok();
  }
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, ValuesOfInput(c, 2));
  MR_ASSIGN_OR_RETURN(begin, c.WithRank(begin, static_cast<int>(sizes.size())));
  std::vector<DimHandle> dims(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    if (sizes[i] != -1) {
      dims[i] = c.MakeDim(sizes[i]);
      continue;
    }
    // Up to the end.
    MR_ASSIGN_OR_RETURN(dims[i], c.Subtract(c.Dim(input, at), c.Dim(begin, at)));
  }
  c.set_output(0, c.MakeShape(dims));
  return Status::Ok();
}

Status StridedSliceShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle begin_shape, c.WithRank(c.input(1), 1));
  MR_ASSIGN_OR_RETURN(const ShapeHandle end_shape, c.WithRank(c.input(2), 1));
  MR_ASSIGN_OR_RETURN(const ShapeHandle strides_shape, c.WithRank(c.input(3), 1));
  MR_ASSIGN_OR_RETURN(const ShapeHandle common, c.Merge(begin_shape, end_shape));
  MR_RETURN_IF_ERROR(c.Merge(common, strides_shape).status());
  StridedSliceSpec spec;
  MR_ASSIGN_OR_RETURN(spec.begin_mask, c.Attr<int64_t>("begin_mask"));
  MR_ASSIGN_OR_RETURN(spec.end_mask, c.Attr<int64_t>("end_mask"));
  MR_ASSIGN_OR_RETURN(spec.ellipsis_mask, c.Attr<int64_t>("ellipsis_mask"));
  MR_ASSIGN_OR_RETURN(spec.new_axis_mask, c.Attr<int64_t>("new_axis_mask"));
  MR_ASSIGN_OR_RETURN(spec.shrink_axis_mask, c.Attr<int64_t>("shrink_axis_mask"));
  auto strides = ValuesOfInput(c, 3);
  if (!strides.ok() && !errors::IsNotFound(strides.status())) return strides.status();
  if (!strides.ok() || !c.RankKnown(c.input(0))) {
    c.set_output(0, c.UnknownShape());
    return Status::Ok();
  }
  // Requested after the strides: error messages list the requested values in order.
  auto begin = ValuesOfInput(c, 1);
  auto end = ValuesOfInput(c, 2);
  for (const Status& status : {begin.status(), end.status()}) {
    if (!status.ok() && !errors::IsNotFound(status)) return status;
  }
  if (begin.ok()) spec.begin = &*begin;
  if (end.ok()) spec.end = &*end;
  spec.strides = *std::move(strides);
  MR_ASSIGN_OR_RETURN(const StridedSlicePlan plan, PlanStridedSlice(spec, c.ToPartialShape(c.input(0))));
  if (plan.is_identity && plan.final_shape == plan.processing_shape) {
    c.set_output(0, c.input(0));
    return Status::Ok();
  }
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.MakeShapeFromPartial(plan.final_shape));
  c.set_output(0, out);
  return Status::Ok();
}

Status StridedSliceGradShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.MakeShapeFromInput(0));
  c.set_output(0, out);
  return Status::Ok();
}

Status GatherShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle params, c.WithRankAtLeast(c.input(0), 1));
  MR_ASSIGN_OR_RETURN(const ShapeHandle rest, c.Subshape(params, 1));
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.Concatenate(c.input(1), rest));
  c.set_output(0, out);
  return Status::Ok();
}

Status GatherV2Shape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle params, c.WithRankAtLeast(c.input(0), 1));
  const ShapeHandle indices = c.input(1);
  MR_ASSIGN_OR_RETURN(const int64_t batch_dims, c.Attr<int64_t>("batch_dims"));
  MR_RETURN_IF_ERROR(c.WithRank(c.input(2), 0).status());
  if (const Tensor* value = c.input_tensor(2); value != nullptr && c.RankKnown(params)) {
    MR_ASSIGN_OR_RETURN(const std::vector<int64_t> given, IntegerValues(*value));
    const int64_t bounded = std::clamp<int64_t>(given[0], -INT64_MAX, INT64_MAX - 1);
    const int64_t rank = bounded < 0 ? -bounded : bounded + 1;
    if (c.Rank(params) < rank) {
      return errors::InvalidArgument("Shape must be at least rank ", rank, " but is rank ", c.Rank(params));
    }
  }
  MR_ASSIGN_OR_RETURN(const int64_t axis, AxisFromInput(c, 2, params));
  const bool ranks_known = c.RankKnown(params) && c.RankKnown(indices);
  if (axis >= 0 && batch_dims != 0) {
    const int64_t rank = batch_dims < 0 ? -std::max(batch_dims, -INT64_MAX) : batch_dims + 1;
    if (c.Rank(params) < rank) {
      return errors::InvalidArgument("Shape must be at least rank ", rank, " but is rank ", c.Rank(params));
    }
  }
  // The kernel reports other errors of batch_dims.
  int64_t batch = ranks_known && batch_dims < 0 ? batch_dims + c.Rank(indices) : batch_dims;
  if (ranks_known && (batch < 0 || batch > c.Rank(indices) || batch > c.Rank(params))) {
    c.set_output(0, c.UnknownShape());
    return Status::Ok();
  }
  if (axis < 0 || batch < 0 || batch > axis) {
    // The rank is known even so.
    c.set_output(0, ranks_known ? c.UnknownShapeOfRank(c.Rank(params) + c.Rank(indices) - 1 - batch)
                                : c.UnknownShape());
    return Status::Ok();
  }
  MR_ASSIGN_OR_RETURN(const ShapeHandle front, c.Subshape(params, 0, axis));
  MR_ASSIGN_OR_RETURN(const ShapeHandle back, c.Subshape(params, axis + 1));
  MR_ASSIGN_OR_RETURN(const ShapeHandle own, c.Subshape(indices, batch));
  MR_ASSIGN_OR_RETURN(ShapeHandle out, c.Concatenate(front, own));
  MR_ASSIGN_OR_RETURN(out, c.Concatenate(out, back));
  c.set_output(0, out);
  return Status::Ok();
}

Status GatherNdShape(InferenceContext& c) { return SetGatherNdShape(c, c.input(0)); }

Status SetGatherNdShape(InferenceContext& c, ShapeHandle params) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle indices, c.WithRankAtLeast(c.input(1), 1));
  const DimHandle depth = c.Dim(indices, -1);
  if (!c.RankKnown(params) || !c.ValueKnown(depth)) {
    c.set_output(0, c.UnknownShape());
    return Status::Ok();
  }
  if (c.Value(depth) > c.Rank(params)) {
    return errors::InvalidArgument("indices.shape[-1] must be <= params.rank, but saw indices shape: ",
                                   c.DebugString(indices), " and params shape: ", c.DebugString(params));
  }
  MR_ASSIGN_OR_RETURN(const ShapeHandle front, c.Subshape(indices, 0, -1));
  MR_ASSIGN_OR_RETURN(const ShapeHandle back, c.Subshape(params, c.Value(depth)));
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.Concatenate(front, back));
  c.set_output(0, out);
  return Status::Ok();
}

Status ScatterNdShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle indices, c.WithRankAtLeast(c.input(0), 1));
  MR_ASSIGN_OR_RETURN(const ShapeHandle updates, c.WithRankAtLeast(c.input(1), 1));
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.MakeShapeFromInput(2));
  MR_RETURN_IF_ERROR(CheckScatterNd(c, {.indices = indices, .updates = updates, .target = out}, "output"));
  c.set_output(0, out);
  return Status::Ok();
}

}  // namespace millrace::ops
