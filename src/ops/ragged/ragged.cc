// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Ragged tensors: rows of different lengths, as flat values and the places where rows end ("splits").
#include <string>
#include <vector>

#include "ops/family.h"

namespace millrace::ops {
namespace {

// Each a scalar or a vector; all vectors have one length.
Status RaggedRangeShape(InferenceContext& c) {
  DimHandle rows = c.UnknownDim();
  bool known = true, vectors = false;
  for (int i = 0; i < 3; ++i) {
    MR_ASSIGN_OR_RETURN(const ShapeHandle s, c.WithRankAtMost(c.input(i), 1));
    if (!c.RankKnown(s)) known = false;
    if (c.Rank(s) != 1) continue;
    MR_ASSIGN_OR_RETURN(rows, c.Merge(rows, c.Dim(s, 0)));
    vectors = true;
  }
  if (!vectors && known) rows = c.MakeDim(1);
  MR_ASSIGN_OR_RETURN(const DimHandle ends, c.Add(rows, c.MakeDim(1)));
  c.set_output(0, c.Vector(ends));
  c.set_output(1, c.Vector(c.UnknownDim()));
  return Status();
}

// The splits are vectors; the flat values have a first dimension.
Status CheckRagged(InferenceContext& c, int64_t ragged_rank) {
  for (int64_t i = 0; i < ragged_rank; ++i)
    MR_RETURN_IF_ERROR(c.WithRank(c.input(static_cast<int>(i)), 1).status());
  return c.WithRankAtLeast(c.input(static_cast<int>(ragged_rank)), 1).status();
}

Status RaggedGatherShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const int64_t params_rank, c.Attr<int64_t>("PARAMS_RAGGED_RANK"));
  MR_ASSIGN_OR_RETURN(const int64_t output_rank, c.Attr<int64_t>("OUTPUT_RAGGED_RANK"));
  MR_RETURN_IF_ERROR(CheckRagged(c, params_rank));
  const ShapeHandle values = c.input(static_cast<int>(params_rank));
  MR_RETURN_IF_ERROR(
      c.WithRank(c.input(c.num_inputs() - 1), static_cast<int>(output_rank - params_rank + 1)).status());
  for (int64_t i = 0; i < output_rank; ++i) c.set_output(static_cast<int>(i), c.Vector(c.UnknownDim()));
  if (c.RankKnown(values)) {
    MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.ReplaceDim(values, 0, c.UnknownDim()));
    c.set_output(static_cast<int>(output_rank), out);
  }
  return Status();
}

Status RaggedToSparseShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const int64_t ragged_rank, c.Attr<int64_t>("RAGGED_RANK"));
  MR_RETURN_IF_ERROR(CheckRagged(c, ragged_rank));
  const ShapeHandle values = c.input(static_cast<int>(ragged_rank));
  const DimHandle rank = c.RankKnown(values) ? c.MakeDim(ragged_rank + c.Rank(values)) : c.UnknownDim();
  const DimHandle elements = c.NumElements(values);
  c.set_output(0, c.Matrix(elements, rank));
  c.set_output(1, c.Vector(elements));
  c.set_output(2, c.Vector(rank));
  return Status();
}

// Inputs: shape, values, default_value, row partitions.
Status RaggedToTensorShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRankAtMost(c.input(0), 1).status());
  MR_RETURN_IF_ERROR(c.WithRankAtLeast(c.input(1), 1).status());
  c.set_output(0, c.UnknownShape());
  const Tensor* shape = c.input_tensor(0);
  if (shape == nullptr || !shape->shape().IsVector()) return Status();
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.MakeShapeFromInput(0));
  c.set_output(0, out);
  return Status();
}

// Without a batch one element holds the whole ragged tensor, else one each of its rows.
Status RaggedToVariantShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const int64_t ragged_rank, c.Attr<int64_t>("RAGGED_RANK"));
  MR_ASSIGN_OR_RETURN(const bool batched, c.Attr<bool>("batched_input"));
  MR_RETURN_IF_ERROR(CheckRagged(c, ragged_rank));
  c.set_output(0, c.Scalar());
  if (!batched) return Status();
  MR_ASSIGN_OR_RETURN(const DimHandle rows, c.Subtract(c.Dim(c.input(0), 0), c.MakeDim(1)));
  c.set_output(0, c.Vector(rows));
  return Status();
}

Status RaggedFromVariantShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const int64_t input_rank, c.Attr<int64_t>("input_ragged_rank"));
  MR_ASSIGN_OR_RETURN(const int64_t output_rank, c.Attr<int64_t>("output_ragged_rank"));
  if (input_rank >= 0) {
    if (output_rank < input_rank || output_rank - input_rank > TensorShape::kMaxRank) {
      return errors::InvalidArgument("output_ragged_rank ", output_rank, " does not match input_ragged_rank ",
                                     input_rank);
    }
    MR_RETURN_IF_ERROR(c.WithRank(c.input(0), static_cast<int>(output_rank - input_rank)).status());
  }
  for (int i = 0; i + 1 < c.num_outputs(); ++i) c.set_output(i, c.Vector(c.UnknownDim()));
  return Status();
}

std::vector<OpBuilder> Ragged() {
  return {
      OpBuilder("RaggedGather: Rows of a ragged tensor, by index.")
          .Input("params_nested_splits: PARAMS_RAGGED_RANK * Tsplits")
          .Input("params_dense_values: Tvalues")
          .Input("indices: Tindices")
          .Output("output_nested_splits: OUTPUT_RAGGED_RANK * Tsplits")
          .Output("output_dense_values: Tvalues")
          .Attr("Tvalues: type")
          .Attr("Tindices: {int32, int64}")
          .Attr("Tsplits: {int32, int64} = DT_INT64")
          .Attr("PARAMS_RAGGED_RANK: int >= 1")
          .Attr("OUTPUT_RAGGED_RANK: int >= 0")
          .Shape(RaggedGatherShape),
      OpBuilder("RaggedRange: Sequences of numbers, each a row of a ragged tensor.")
          .Input("starts: T")
          .Input("limits: T")
          .Input("deltas: T")
          .Output("rt_nested_splits: Tsplits")
          .Output("rt_dense_values: T")
          .Attr("T: {bfloat16, float, double, int32, int64} = DT_INT32")
          .Attr("Tsplits: {int32, int64} = DT_INT64")
          .Shape(RaggedRangeShape)
          .NotDifferentiable(),
      OpBuilder("RaggedTensorFromVariant: Decodes variants into one ragged tensor.")
          .Input("encoded_ragged: variant")
          .Output("output_nested_splits: output_ragged_rank * Tsplits")
          .Output("output_dense_values: Tvalues")
          .Attr("input_ragged_rank: int >= -1")
          .Attr("output_ragged_rank: int >= 1")
          .Attr("Tvalues: type")
          .Attr("Tsplits: {int32, int64}")
          .Shape(RaggedFromVariantShape)
          .NotDifferentiable(),
      OpBuilder("RaggedTensorToSparse: A ragged tensor as a sparse one.")
          .Input("rt_nested_splits: RAGGED_RANK * Tsplits")
          .Input("rt_dense_values: T")
          .Output("sparse_indices: int64")
          .Output("sparse_values: T")
          .Output("sparse_dense_shape: int64")
          .Attr("RAGGED_RANK: int >= 1")
          .Attr("T: type")
          .Attr("Tsplits: {int32, int64} = DT_INT64")
          .Shape(RaggedToSparseShape),
      OpBuilder("RaggedTensorToTensor: A ragged tensor as a dense one, padded with a default value.")
          .Input("shape: Tshape")
          .Input("values: T")
          .Input("default_value: T")
          .Input("row_partition_tensors: num_row_partition_tensors * Tindex")
          .Output("result: T")
          .Attr("T: type")
          .Attr("Tindex: {int64, int32}")
          .Attr("Tshape: {int64, int32}")
          .Attr("num_row_partition_tensors: int >= 1")
          .Attr("row_partition_types: list(string)")
          .Shape(RaggedToTensorShape),
      OpBuilder("RaggedTensorToVariant: Encodes a ragged tensor, or each of its rows, as a variant.")
          .Input("rt_nested_splits: RAGGED_RANK * Tsplits")
          .Input("rt_dense_values: Tvalues")
          .Output("encoded_ragged: variant")
          .Attr("RAGGED_RANK: int >= 1")
          .Attr("Tvalues: type")
          .Attr("Tsplits: {int32, int64}")
          .Attr("batched_input: bool")
          .Shape(RaggedToVariantShape)
          .NotDifferentiable(),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterRaggedOps(OpRegistry& registry) { return ops::RegisterEach(registry, ops::Ragged()); }

}  // namespace millrace
