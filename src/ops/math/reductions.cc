// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Reductions, cumulative and segment reductions, sums of tensors, counts.
#include "ops/family.h"
#include "ops/math/shapes.h"

namespace millrace::ops {
namespace {

constexpr OpTraits kReduction{.same_in_shape = true};

Status AccumulateShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(AddNShape(c));
  MR_ASSIGN_OR_RETURN(const PartialShape shape, c.Attr<PartialShape>("shape"));
  MR_ASSIGN_OR_RETURN(const ShapeHandle said, c.MakeShapeFromPartial(shape));
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.Merge(c.output(0), said));
  c.set_output(0, out);
  return Status::Ok();
}

Status HistogramShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle range, c.WithRank(c.input(1), 1));
  MR_RETURN_IF_ERROR(c.WithValue(c.Dim(range, 0), 2).status());
  MR_RETURN_IF_ERROR(c.WithRank(c.input(2), 0).status());
  const Tensor* bins = c.input_tensor(2);
  if (bins == nullptr || bins->num_elements() != 1) {
    c.set_output(0, c.Vector(c.UnknownDim()));
    return Status::Ok();
  }
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> count, IntegerValues(*bins));
  if (count[0] <= 0) return errors::InvalidArgument("Requires nbins > 0: ", count[0]);
  c.set_output(0, c.Vector(count[0]));
  return Status::Ok();
}

OpBuilder NumberReduction(const char* name) {
  return OpBuilder(name)
      .Input("input: T")
      .Input("reduction_indices: Tidx")
      .Output("output: T")
      .Attr("keep_dims: bool = false")
      .Attr(kNumber)
      .Attr(kIndex)
      .Shape(shape_fns::Reduction)
      .Traits(kReduction)
      .Flops(FlopRule::kInputs);
}

OpBuilder BoolReduction(const char* name) {
  return OpBuilder(name)
      .Input("input: bool")
      .Input("reduction_indices: Tidx")
      .Output("output: bool")
      .Attr("keep_dims: bool = false")
      .Attr(kIndex)
      .Shape(shape_fns::Reduction)
      .Traits(kReduction)
      .NotDifferentiable();
}

OpBuilder ArgReduction(const char* name) {
  return OpBuilder(name)
      .Input("input: T")
      .Input("dimension: Tidx")
      .Output("output: output_type")
      .Attr(kNumber)
      .Attr(kIndex)
      .Attr("output_type: {int32, int64} = DT_INT64")
      .Shape(ArgReductionShape)
      .Flops(FlopRule::kInputs)
      .NotDifferentiable();
}

OpBuilder Cumulative(const char* name) {
  return OpBuilder(name)
      .Input("x: T")
      .Input("axis: Tidx")
      .Output("out: T")
      .Attr("exclusive: bool = false")
      .Attr("reverse: bool = false")
      .Attr(kNumber)
      .Attr(kIndex)
      .Shape(shape_fns::Unchanged);
}

OpBuilder Segment(const char* name, const char* types) {
  return OpBuilder(name)
      .Input("data: T")
      .Input("segment_ids: Tindices")
      .Output("output: T")
      .Attr(types)
      .Attr(kIndices)
      .Shape(SegmentShape);
}

std::vector<OpBuilder> Reductions() {
  return {
      NumberReduction("Max: The largest element along the given dimensions."),
      NumberReduction("Mean: The mean along the given dimensions."),
      NumberReduction("Min: The smallest element along the given dimensions."),
      NumberReduction("Prod: The product along the given dimensions."),
      NumberReduction("Sum: The sum along the given dimensions."),
      BoolReduction("All: Whether all elements along the given dimensions are true."),
      BoolReduction("Any: Whether any element along the given dimensions is true."),
      ArgReduction("ArgMax: The index of the largest element along a dimension; the first of equals."),
      ArgReduction("ArgMin: The index of the smallest element along a dimension; the first of equals."),
      OpBuilder("Bincount: The number of occurrences of each number, optionally weighted.")
          .Input("arr: int32")
          .Input("size: int32")
          .Input("weights: T")
          .Output("bins: T")
          .Attr("T: {int32, int64, float, double}")
          .Shape(BincountShape)
          .NotDifferentiable(),
      Cumulative("Cumprod: Running products along a dimension."),
      Cumulative("Cumsum: Running sums along a dimension."),
      Segment("SegmentMax: The maximum of the rows of each segment (sorted segment ids).", kRealNumber),
      Segment("SegmentMean: The mean of the rows of each segment (sorted segment ids).", kNumber),
      Segment("SegmentMin: The minimum of the rows of each segment (sorted segment ids).", kRealNumber),
      Segment("SegmentProd: The product of the rows of each segment (sorted segment ids).", kNumber),
      Segment("SegmentSum: The sum of the rows of each segment (sorted segment ids).", kNumber),
      OpBuilder("UnsortedSegmentSum: The sum of the elements of each segment (segment ids in any order).")
          .Input("data: T")
          .Input("segment_ids: Tindices")
          .Input("num_segments: Tnumsegments")
          .Output("output: T")
          .Attr(kNumber)
          .Attr(kIndices)
          .Attr("Tnumsegments: {int32, int64} = DT_INT32")
          .Shape(UnsortedSegmentShape),
      OpBuilder("AccumulateNV2: The sum of all inputs, which have one shape.")
          .Input("inputs: N*T")
          .Output("sum: T")
          .Attr("N: int >= 1")
          .Attr("T: numbertype")
          .Attr("shape: shape")
          .Commutative()
          .Aggregate()
          .Shape(AccumulateShape),
      OpBuilder("EuclideanNorm: The square root of the sum of squares along the given dimensions.")
          .Input("input: T")
          .Input("reduction_indices: Tidx")
          .Output("output: T")
          .Attr("keep_dims: bool = false")
          .Attr("T: numbertype")
          .Attr("Tidx: {int32, int64} = DT_INT32")
          .Shape(shape_fns::Reduction),
      OpBuilder("CumulativeLogsumexp: The logarithms of running sums of exponentials along a dimension.")
          .Input("x: T")
          .Input("axis: Tidx")
          .Output("out: T")
          .Attr("exclusive: bool = false")
          .Attr("reverse: bool = false")
          .Attr("T: {half, float, double}")
          .Attr("Tidx: {int32, int64} = DT_INT32")
          .Shape(shape_fns::Unchanged),
      OpBuilder("UnsortedSegmentMax: The maximum of the elements of each segment (segment ids in any order).")
          .Input("data: T")
          .Input("segment_ids: Tindices")
          .Input("num_segments: Tnumsegments")
          .Output("output: T")
          .Attr("T: realnumbertype")
          .Attr("Tindices: {int32, int64}")
          .Attr("Tnumsegments: {int32, int64} = DT_INT32")
          .Shape(UnsortedSegmentShape),
      OpBuilder("UnsortedSegmentMin: The minimum of the elements of each segment (segment ids in any order).")
          .Input("data: T")
          .Input("segment_ids: Tindices")
          .Input("num_segments: Tnumsegments")
          .Output("output: T")
          .Attr("T: realnumbertype")
          .Attr("Tindices: {int32, int64}")
          .Attr("Tnumsegments: {int32, int64} = DT_INT32")
          .Shape(UnsortedSegmentShape),
      OpBuilder(
          "UnsortedSegmentProd: The product of the elements of each segment (segment ids in any order).")
          .Input("data: T")
          .Input("segment_ids: Tindices")
          .Input("num_segments: Tnumsegments")
          .Output("output: T")
          .Attr("T: numbertype")
          .Attr("Tindices: {int32, int64}")
          .Attr("Tnumsegments: {int32, int64} = DT_INT32")
          .Shape(UnsortedSegmentShape),
      OpBuilder("HistogramFixedWidth: The number of elements in each of a given number of equal intervals.")
          .Input("values: T")
          .Input("value_range: T")
          .Input("nbins: int32")
          .Output("out: dtype")
          .Attr("T: {int32, int64, float, double}")
          .Attr("dtype: {int32, int64} = DT_INT32")
          .Shape(HistogramShape)
          .NotDifferentiable(),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterReductionOps(OpRegistry& registry) { return ops::RegisterEach(registry, ops::Reductions()); }

}  // namespace millrace
