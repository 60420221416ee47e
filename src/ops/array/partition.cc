// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Parts of tensors that values choose: partitions, sets, buckets.
#include <algorithm>
#include <vector>

#include "ops/family.h"

namespace millrace::ops {
namespace {

Status DynamicPartitionShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.MergePrefix(c.input(0), c.input(1)).status());
  ShapeHandle out = c.UnknownShape();
  if (c.RankKnown(c.input(0)) && c.RankKnown(c.input(1))) {
    MR_ASSIGN_OR_RETURN(const ShapeHandle rest, c.Subshape(c.input(0), c.Rank(c.input(1))));
    MR_ASSIGN_OR_RETURN(out, c.Concatenate(c.Vector(c.UnknownDim()), rest));
  }
  // Each output has a number of rows of its own.
  for (int i = 0; i < c.num_outputs(); ++i) {
    ShapeHandle own = out;
    if (c.RankKnown(out)) {
      MR_ASSIGN_OR_RETURN(own, c.ReplaceDim(out, 0, c.UnknownDim()));
    }
    c.set_output(i, own);
  }
  return Status::Ok();
}

Status DynamicStitchShape(InferenceContext& c) {
  const int n = c.num_inputs() / 2;
  ShapeHandle row = c.UnknownShape();
  int64_t last = -1;  // the largest index
  bool all_known = true;
  for (int i = 0; i < n; ++i) {
    const ShapeHandle indices = c.input(i), data = c.input(n + i);
    if (const Tensor* known = c.input_tensor(i); known != nullptr) {
      MR_ASSIGN_OR_RETURN(const std::vector<int64_t> values, IntegerValues(*known));
      for (const int64_t value : values) last = std::max(last, value);
    } else {
      all_known = false;
    }
    MR_RETURN_IF_ERROR(c.MergePrefix(data, indices).status());
    if (!c.RankKnown(indices) || !c.RankKnown(data)) continue;
    MR_ASSIGN_OR_RETURN(const ShapeHandle rest, c.Subshape(data, c.Rank(indices)));
    MR_ASSIGN_OR_RETURN(row, c.Merge(row, rest));
  }
  const ShapeHandle rows = c.Vector(all_known ? c.MakeDim(last + 1) : c.UnknownDim());
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.Concatenate(rows, row));
  c.set_output(0, out);
  return Status::Ok();
}

// Values, where each is, and how many of each there are.
Status UniqueShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(0), 1).status());
  const ShapeHandle values = c.Vector(c.UnknownDim());
  c.set_output(0, values);
  c.set_output(1, c.input(0));
  if (c.num_outputs() > 2) c.set_output(2, values);
  return Status::Ok();
}

Status UniqueV2Shape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRankAtMost(c.input(1), 1).status());
  const ShapeHandle x = c.input(0);
  c.set_output(0, c.RankKnown(x) ? c.UnknownShapeOfRank(c.Rank(x)) : c.UnknownShape());
  for (int i = 1; i < c.num_outputs(); ++i) c.set_output(i, c.Vector(c.UnknownDim()));
  return Status::Ok();
}

Status ListDiffShape(InferenceContext& c) {
  for (int i = 0; i < 2; ++i) MR_RETURN_IF_ERROR(c.WithRank(c.input(i), 1).status());
  const ShapeHandle out = c.Vector(c.UnknownDim());
  c.set_output(0, out);
  c.set_output(1, out);
  return Status::Ok();
}

std::vector<OpBuilder> PartitionOps() {
  return {
      OpBuilder("DynamicPartition: Distributes slices of a tensor over several tensors, by partition number.")
          .Input("data: T")
          .Input("partitions: int32")
          .Output("outputs: num_partitions * T")
          .Attr("num_partitions: int >= 1")
          .Attr("T: type")
          .Shape(DynamicPartitionShape),
      OpBuilder("DynamicStitch: Merges the slices of several tensors into one, by their indices.")
          .Input("indices: N * int32")
          .Input("data: N * T")
          .Output("merged: T")
          .Attr("N: int >= 1")
          .Attr("T: type")
          .Shape(DynamicStitchShape),
      OpBuilder("ParallelDynamicStitch: Merges the slices of several tensors into one, by their indices, in "
                "any order.")
          .Input("indices: N * int32")
          .Input("data: N * T")
          .Output("merged: T")
          .Attr("N: int >= 1")
          .Attr("T: type")
          .Shape(DynamicStitchShape),
      OpBuilder("Unique: The distinct values, in order of first occurrence, and the index of the value of "
                "each element.")
          .Input("x: T")
          .Output("y: T")
          .Output("idx: out_idx")
          .Attr("T: type")
          .Attr("out_idx: {int32, int64} = DT_INT32")
          .Shape(UniqueShape)
          .NotDifferentiable(),
      OpBuilder("UniqueWithCounts: The distinct values, in order of first occurrence, the index of the value "
                "of each element, and counts.")
          .Input("x: T")
          .Output("y: T")
          .Output("idx: out_idx")
          .Output("count: out_idx")
          .Attr("T: type")
          .Attr("out_idx: {int32, int64} = DT_INT32")
          .Shape(UniqueShape)
          .NotDifferentiable(),
      OpBuilder("UniqueV2: The distinct slices along an axis, in order of first occurrence, and the index of "
                "each slice's value.")
          .Input("x: T")
          .Input("axis: Taxis")
          .Output("y: T")
          .Output("idx: out_idx")
          .Attr("T: type")
          .Attr("Taxis: {int32, int64} = DT_INT64")
          .Attr("out_idx: {int32, int64} = DT_INT32")
          .Shape(UniqueV2Shape)
          .NotDifferentiable(),
      OpBuilder("UniqueWithCountsV2: The distinct slices along an axis, in order of first occurrence, the "
                "index of each slice's value, and counts.")
          .Input("x: T")
          .Input("axis: Taxis")
          .Output("y: T")
          .Output("idx: out_idx")
          .Output("count: out_idx")
          .Attr("T: type")
          .Attr("Taxis: {int32, int64} = DT_INT64")
          .Attr("out_idx: {int32, int64} = DT_INT32")
          .Shape(UniqueV2Shape)
          .NotDifferentiable(),
      OpBuilder("ListDiff: The values of x that are not in y, and their indices.")
          .Input("x: T")
          .Input("y: T")
          .Output("out: T")
          .Output("idx: out_idx")
          .Attr("T: type")
          .Attr("out_idx: {int32, int64} = DT_INT32")
          .Shape(ListDiffShape)
          .NotDifferentiable(),
      OpBuilder("Bucketize: The index of the interval between boundaries that contains each element.")
          .Input("input: T")
          .Output("output: int32")
          .Attr("T: {int32, int64, float, double}")
          .Attr("boundaries: list(float)")
          .Shape(shape_fns::Unchanged)
          .NotDifferentiable(),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterPartitionOps(OpRegistry& registry) { return ops::RegisterEach(registry, ops::PartitionOps()); }

}  // namespace millrace
