// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/math/shapes.h"

#include "op/range_size.h"

namespace millrace::ops {
namespace {

template <typename T>
StatusOr<int64_t> RangeSizeOf(const Tensor* const (&values)[3]) {
  return RangeSize<T>(values[0]->scalar<T>(), values[1]->scalar<T>(), values[2]->scalar<T>());
}

// Dimension `axis` of `rank`, from a scalar tensor.
StatusOr<int64_t> AxisOf(const Tensor& value, int rank) {
  if (value.num_elements() != 1) return errors::InvalidArgument("The axis must be a scalar");
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, IntegerValues(value));
  return axes[0] < 0 ? axes[0] + rank : axes[0];
}

}  // namespace

Status LikeFirstInputShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.Merge(c.input(0), c.input(1)).status());
  c.set_output(0, c.input(0));
  return Status::Ok();
}

Status AddNShape(InferenceContext& c) {
  ShapeHandle sum = c.input(c.num_inputs() - 1);
  for (int i = c.num_inputs() - 2; i >= 0; --i) {
    auto merged = c.Merge(c.input(i), sum);
    if (!merged.ok()) {
      return merged.status().WithContext(StrCat("\n\tFrom merging shape ", i, " with other shapes."));
    }
    sum = *merged;
  }
  c.set_output(0, sum);
  return Status::Ok();
}

Status SelectShape(InferenceContext& c) {
  ShapeHandle condition = c.input(0);
  MR_ASSIGN_OR_RETURN(ShapeHandle data, c.Merge(c.input(1), c.input(2)));
  const bool ranks_known = c.RankKnown(condition) && c.RankKnown(data);
  if (ranks_known && c.Rank(condition) == 1 && c.Rank(data) >= 1) {
    // A vector selects whole rows.
    MR_RETURN_IF_ERROR(c.Merge(condition, c.Vector(c.Dim(data, 0))).status());
    MR_ASSIGN_OR_RETURN(data, c.MergePrefix(data, condition));
  } else if (ranks_known && c.Rank(condition) != 0) {
    MR_ASSIGN_OR_RETURN(data, c.Merge(data, condition));
  }
  c.set_output(0, data);
  return Status::Ok();
}

namespace {

// The matrices of two batches; `join` makes one shape of the shapes of the batches.
template <typename Join>
Status ProductsShape(InferenceContext& c, const Join& join) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle x, c.WithRankAtLeast(c.input(0), 2));
  MR_ASSIGN_OR_RETURN(const ShapeHandle y, c.WithRankAtLeast(c.input(1), 2));
  MR_ASSIGN_OR_RETURN(const bool adj_x, c.Attr<bool>("adj_x"));
  MR_ASSIGN_OR_RETURN(const bool adj_y, c.Attr<bool>("adj_y"));
  MR_ASSIGN_OR_RETURN(const ShapeHandle batch_x, c.Subshape(x, 0, -2));
  MR_ASSIGN_OR_RETURN(const ShapeHandle batch_y, c.Subshape(y, 0, -2));
  MR_ASSIGN_OR_RETURN(const ShapeHandle batch, join(batch_x, batch_y));
  MR_RETURN_IF_ERROR(c.Merge(c.Dim(x, adj_x ? -2 : -1), c.Dim(y, adj_y ? -1 : -2)).status());
  const ShapeHandle matrix = c.Matrix(c.Dim(x, adj_x ? -1 : -2), c.Dim(y, adj_y ? -2 : -1));
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.Concatenate(batch, matrix));
  c.set_output(0, out);
  return Status::Ok();
}

}  // namespace

Status BatchMatMulShape(InferenceContext& c) {
  return ProductsShape(c, [&](const ShapeHandle& x, const ShapeHandle& y) { return c.Merge(x, y); });
}

Status BatchMatMulV2Shape(InferenceContext& c) {
  return ProductsShape(c, [&](const ShapeHandle& x, const ShapeHandle& y) { return Broadcast(c, x, y); });
}

Status ArgReductionShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(1), 0).status());
  const ShapeHandle input = c.input(0);
  if (!c.RankKnown(input)) {
    c.set_output(0, c.UnknownShape());
    return Status::Ok();
  }
  const int rank = c.Rank(input);
  // The reduction of a vector is a scalar, for every axis.
  const Tensor* axis_value = rank > 1 ? c.input_tensor(1) : nullptr;
  if (axis_value == nullptr) {
    c.set_output(0, rank <= 1 ? c.Scalar() : c.UnknownShapeOfRank(rank - 1));
    return Status::Ok();
  }
  MR_ASSIGN_OR_RETURN(const int64_t axis, AxisOf(*axis_value, rank));
  if (axis < 0 || axis >= rank) {
    return errors::InvalidArgument("Dimension (", axis < 0 ? axis - rank : axis, ") must be in the range [",
                                   -rank, ", ", rank, "), where ", rank,
                                   " is the number of dimensions in the input.");
  }
  std::vector<DimHandle> dims;
  for (int i = 0; i < rank; ++i) {
    if (i != axis) dims.push_back(c.Dim(input, i));
  }
  c.set_output(0, c.MakeShape(dims));
  return Status::Ok();
}

Status BincountShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(1), 0).status());
  const Tensor* const size = c.input_tensor(1);
  if (size != nullptr && size->scalar<int32_t>() < 0)
    return errors::InvalidArgument("size (", size->scalar<int32_t>(), ") must be non-negative");
  c.set_output(0, c.Vector(size == nullptr ? c.UnknownDim() : c.MakeDim(size->scalar<int32_t>())));
  return Status();
}

Status SegmentShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle data, c.WithRankAtLeast(c.input(0), 1));
  MR_RETURN_IF_ERROR(c.WithRank(c.input(1), 1).status());
  MR_ASSIGN_OR_RETURN(const ShapeHandle rest, c.Subshape(data, 1));
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.Concatenate(c.Vector(c.UnknownDim()), rest));
  c.set_output(0, out);
  return Status::Ok();
}

Status UnsortedSegmentShape(InferenceContext& c) {
  const ShapeHandle ids = c.input(1);
  MR_RETURN_IF_ERROR(c.WithRank(c.input(2), 0).status());
  MR_ASSIGN_OR_RETURN(const ShapeHandle data, c.MergePrefix(c.input(0), ids));
  MR_ASSIGN_OR_RETURN(const DimHandle segments, c.MakeDimFromScalarInput(2));
  ShapeHandle rest = c.UnknownShape();
  if (c.RankKnown(ids)) {
    MR_ASSIGN_OR_RETURN(rest, c.Subshape(data, c.Rank(ids)));
  }
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.Concatenate(c.Vector(segments), rest));
  c.set_output(0, out);
  return Status::Ok();
}

Status LinSpaceShape(InferenceContext& c) {
  for (int i = 0; i < 3; ++i) {
    auto scalar = c.WithRank(c.input(i), 0);
    if (!scalar.ok()) {
      return scalar.status().WithContext(StrCat("\n\t for '",
                                                i == 0   ? "start"
                                                : i == 1 ? "stop"
                                                         : "num",
                                                "'"));
    }
  }
  const Tensor* value = c.input_tensor(2);
  if (value == nullptr || value->num_elements() != 1) {
    c.set_output(0, c.Vector(c.UnknownDim()));
    return Status::Ok();
  }
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> num, IntegerValues(*value));
  if (num[0] <= 0) return errors::InvalidArgument("Requires num > 0: ", num[0]);
  c.set_output(0, c.Vector(num[0]));
  return Status::Ok();
}

Status RangeShape(InferenceContext& c) {
  const Tensor* values[3];
  bool known = true;
  for (int i = 0; i < 3; ++i) {
    auto scalar = c.WithRank(c.input(i), 0);
    if (!scalar.ok()) {
      return scalar.status().WithContext(StrCat("\n\t for '",
                                                i == 0   ? "start"
                                                : i == 1 ? "limit"
                                                         : "delta",
                                                "'"));
    }
    values[i] = c.input_tensor(i);
    known = known && values[i] != nullptr && values[i]->num_elements() == 1;
  }
  if (!known) {
    c.set_output(0, c.Vector(c.UnknownDim()));
    return Status::Ok();
  }
  MR_ASSIGN_OR_RETURN(const DataType type, c.Attr<DataType>("Tidx"));
  for (const Tensor* value : values) {
    if (value->dtype() != type) {
      return errors::InvalidArgument("Input of type ", DataTypeName(value->dtype()), " where ",
                                     DataTypeName(type), " is expected");
    }
  }
  int64_t size = 0;
  if (type == DataType::kInt32) {
    MR_ASSIGN_OR_RETURN(size, RangeSizeOf<int32_t>(values));
  } else if (type == DataType::kInt64) {
    MR_ASSIGN_OR_RETURN(size, RangeSizeOf<int64_t>(values));
  } else if (type == DataType::kFloat) {
    MR_ASSIGN_OR_RETURN(size, RangeSizeOf<float>(values));
  } else if (type == DataType::kDouble) {
    MR_ASSIGN_OR_RETURN(size, RangeSizeOf<double>(values));
  } else {  // bfloat16: the kernel decides
    c.set_output(0, c.Vector(c.UnknownDim()));
    return Status::Ok();
  }
  c.set_output(0, c.Vector(size));
  return Status::Ok();
}

}  // namespace millrace::ops
