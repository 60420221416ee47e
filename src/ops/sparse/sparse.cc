// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Sparse tensors: indices [n, rank], values [n], and the dense shape [rank].
#include <vector>

#include "ops/family.h"

namespace millrace::ops {
namespace {

// Checks the three inputs from `first` on. Returns [n, rank], as far as known.
StatusOr<ShapeHandle> CheckSparse(InferenceContext& c, int first) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle indices, c.WithRank(c.input(first), 2));
  MR_ASSIGN_OR_RETURN(const ShapeHandle values, c.WithRank(c.input(first + 1), 1));
  MR_ASSIGN_OR_RETURN(const ShapeHandle shape, c.WithRank(c.input(first + 2), 1));
  MR_ASSIGN_OR_RETURN(const DimHandle n, c.Merge(c.Dim(indices, 0), c.Dim(values, 0)));
  MR_ASSIGN_OR_RETURN(const DimHandle rank, c.Merge(c.Dim(indices, 1), c.Dim(shape, 0)));
  return c.Matrix(n, rank);
}

// Outputs from `first` on: a sparse tensor with any number of values.
void SetSparse(InferenceContext& c, int first, DimHandle rank) {
  const DimHandle n = c.UnknownDim();
  c.set_output(first, c.Matrix(n, rank));
  c.set_output(first + 1, c.Vector(n));
  c.set_output(first + 2, c.Vector(rank));
}

Status SparseToDenseShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.MakeShapeFromInput(1));
  c.set_output(0, out);
  return Status::Ok();
}

Status SparseReorderShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle indices, CheckSparse(c, 0));
  c.set_output(0, indices);
  c.set_output(1, c.Vector(c.Dim(indices, 0)));
  return Status::Ok();
}

Status SparseReshapeShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle indices, c.WithRank(c.input(0), 2));
  MR_RETURN_IF_ERROR(c.WithRank(c.input(1), 1).status());
  MR_ASSIGN_OR_RETURN(const ShapeHandle shape, c.WithRank(c.input(2), 1));
  c.set_output(0, c.Matrix(c.Dim(indices, 0), c.Dim(shape, 0)));
  c.set_output(1, shape);
  return Status::Ok();
}

Status SparseFillEmptyRowsShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle indices, CheckSparse(c, 0));
  MR_RETURN_IF_ERROR(c.WithRank(c.input(3), 0).status());
  const DimHandle n = c.UnknownDim();
  c.set_output(0, c.Matrix(n, c.Dim(indices, 1)));
  c.set_output(1, c.Vector(n));
  c.set_output(2, c.Vector(c.UnknownDim()));
  c.set_output(3, c.Vector(c.Dim(indices, 0)));
  return Status::Ok();
}

Status SparseFillEmptyRowsGradShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle map, c.WithRank(c.input(0), 1));
  MR_RETURN_IF_ERROR(c.WithRank(c.input(1), 1).status());
  c.set_output(0, map);
  c.set_output(1, c.Scalar());
  return Status::Ok();
}

Status SparseMatMulShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(0), 2).status());
  MR_RETURN_IF_ERROR(c.WithRank(c.input(1), 1).status());
  MR_ASSIGN_OR_RETURN(const ShapeHandle unchecked, c.MakeShapeFromInput(2));
  MR_ASSIGN_OR_RETURN(const ShapeHandle a, c.WithRank(unchecked, 2));
  MR_ASSIGN_OR_RETURN(const ShapeHandle b, c.WithRank(c.input(3), 2));
  MR_ASSIGN_OR_RETURN(const bool adjoint_a, c.Attr<bool>("adjoint_a"));
  MR_ASSIGN_OR_RETURN(const bool adjoint_b, c.Attr<bool>("adjoint_b"));
  MR_RETURN_IF_ERROR(c.Merge(c.Dim(a, adjoint_a ? 0 : 1), c.Dim(b, adjoint_b ? 1 : 0)).status());
  c.set_output(0, c.Matrix(c.Dim(a, adjoint_a ? 1 : 0), c.Dim(b, adjoint_b ? 0 : 1)));
  return Status::Ok();
}

// [rows] followed by all but the first dimension of `data`.
Status SetRows(InferenceContext& c, ShapeHandle data, DimHandle rows) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle row, c.Subshape(data, 1));
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.Concatenate(c.Vector(rows), row));
  c.set_output(0, out);
  return Status::Ok();
}

Status SparseSegmentShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle data, c.WithRankAtLeast(c.input(0), 1));
  MR_ASSIGN_OR_RETURN(const ShapeHandle indices, c.WithRank(c.input(1), 1));
  const bool is_gradient = c.op().name.ends_with("Grad");
  if (!is_gradient) {
    MR_ASSIGN_OR_RETURN(const ShapeHandle ids, c.WithRank(c.input(2), 1));
    // The number of segments.
    if (c.num_inputs() == 4) MR_RETURN_IF_ERROR(c.WithRank(c.input(3), 0).status());
    MR_RETURN_IF_ERROR(c.Merge(indices, ids).status());
    if (c.num_inputs() == 3) return SetRows(c, data, c.UnknownDim());
  } else {
    MR_RETURN_IF_ERROR(c.Merge(c.input(2), indices).status());
    // The number of rows of the forward op's input.
    MR_RETURN_IF_ERROR(c.WithRank(c.input(3), 0).status());
  }
  MR_ASSIGN_OR_RETURN(const DimHandle rows, c.MakeDimFromScalarInput(3));
  return SetRows(c, data, rows);
}

Status SparseConcatShape(InferenceContext& c) {
  const int n = c.num_inputs() / 3;
  DimHandle rank = c.UnknownDim();
  for (int i = 0; i < n; ++i) {
    MR_ASSIGN_OR_RETURN(const ShapeHandle indices, c.WithRank(c.input(i), 2));
    MR_ASSIGN_OR_RETURN(const ShapeHandle values, c.WithRank(c.input(n + i), 1));
    MR_ASSIGN_OR_RETURN(const ShapeHandle shape, c.WithRank(c.input(2 * n + i), 1));
    MR_RETURN_IF_ERROR(c.Merge(c.Dim(indices, 0), c.Dim(values, 0)).status());
    MR_ASSIGN_OR_RETURN(rank, c.Merge(rank, c.Dim(indices, 1)));
    MR_ASSIGN_OR_RETURN(rank, c.Merge(rank, c.Dim(shape, 0)));
  }
  SetSparse(c, 0, rank);
  return Status::Ok();
}

Status SparseSplitShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(0), 0).status());
  MR_ASSIGN_OR_RETURN(const ShapeHandle indices, CheckSparse(c, 1));
  const int n = c.num_outputs() / 3;
  for (int i = 0; i < n; ++i) {
    const DimHandle values = c.UnknownDim();
    c.set_output(i, c.Matrix(values, c.Dim(indices, 1)));
    c.set_output(n + i, c.Vector(values));
    c.set_output(2 * n + i, c.Vector(c.Dim(indices, 1)));
  }
  return Status::Ok();
}

Status SparseSliceShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle indices, CheckSparse(c, 0));
  for (int i = 3; i < 5; ++i) {
    MR_ASSIGN_OR_RETURN(const ShapeHandle box, c.WithRank(c.input(i), 1));
    MR_RETURN_IF_ERROR(c.Merge(c.Dim(box, 0), c.Dim(indices, 1)).status());
  }
  SetSparse(c, 0, c.Dim(indices, 1));
  return Status::Ok();
}

Status SerializeSparseShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(CheckSparse(c, 0).status());
  c.set_output(0, c.Vector(3));
  return Status::Ok();
}

Status SerializeManySparseShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(CheckSparse(c, 0).status());
  c.set_output(0, c.Matrix(c.UnknownDim(), c.MakeDim(3)));
  return Status::Ok();
}

Status DeserializeManySparseShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle serialized, c.WithRank(c.input(0), 2));
  MR_RETURN_IF_ERROR(c.WithValue(c.Dim(serialized, 1), 3).status());
  SetSparse(c, 0, c.UnknownDim());
  return Status::Ok();
}

Status DeserializeSparseShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle serialized, c.WithRankAtLeast(c.input(0), 1));
  MR_RETURN_IF_ERROR(c.WithValue(c.Dim(serialized, -1), 3).status());
  SetSparse(c, 0, c.UnknownDim());
  return Status::Ok();
}

Status AddSparseShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(CheckSparse(c, 0).status());
  c.set_output(0, c.Scalar());
  return Status::Ok();
}

Status AddManySparseShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(CheckSparse(c, 0).status());
  c.set_output(0, c.Vector(c.UnknownDim()));
  return Status::Ok();
}

Status TakeManySparseShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(0), 1).status());
  SetSparse(c, 0, c.UnknownDim());
  return Status::Ok();
}

Status SparseCrossShape(InferenceContext& c) {
  SetSparse(c, 0, c.MakeDim(2));
  return Status::Ok();
}

std::vector<OpBuilder> SparseRearranging() {
  return {
      OpBuilder("SparseToDense: A dense tensor with values at the given indices, and a default elsewhere.")
          .Input("sparse_indices: Tindices")
          .Input("output_shape: Tindices")
          .Input("sparse_values: T")
          .Input("default_value: T")
          .Output("dense: T")
          .Attr("validate_indices: bool = true")
          .Attr("T: type")
          .Attr("Tindices: {int32, int64}")
          .Shape(SparseToDenseShape),
      OpBuilder("SparseReorder: A sparse tensor with its elements in row-major order.")
          .Input("input_indices: int64")
          .Input("input_values: T")
          .Input("input_shape: int64")
          .Output("output_indices: int64")
          .Output("output_values: T")
          .Attr("T: type")
          .Shape(SparseReorderShape),
      OpBuilder("SparseReshape: A sparse tensor in another shape.")
          .Input("input_indices: int64")
          .Input("input_shape: int64")
          .Input("new_shape: int64")
          .Output("output_indices: int64")
          .Output("output_shape: int64")
          .Shape(SparseReshapeShape)
          .NotDifferentiable(),
      OpBuilder("SparseFillEmptyRows: A sparse tensor with a default value in empty rows.")
          .Input("indices: int64")
          .Input("values: T")
          .Input("dense_shape: int64")
          .Input("default_value: T")
          .Output("output_indices: int64")
          .Output("output_values: T")
          .Output("empty_row_indicator: bool")
          .Output("reverse_index_map: int64")
          .Attr("T: type")
          .Shape(SparseFillEmptyRowsShape),
      OpBuilder("SparseFillEmptyRowsGrad: The gradient of SparseFillEmptyRows.")
          .Input("reverse_index_map: int64")
          .Input("grad_values: T")
          .Output("d_values: T")
          .Output("d_default_value: T")
          .Attr("T: type")
          .Shape(SparseFillEmptyRowsGradShape),
  };
}

std::vector<OpBuilder> SparseJoining() {
  return {
      OpBuilder("SparseConcat: Joins sparse tensors along a dimension.")
          .Input("indices: N * int64")
          .Input("values: N * T")
          .Input("shapes: N * int64")
          .Output("output_indices: int64")
          .Output("output_values: T")
          .Output("output_shape: int64")
          .Attr("concat_dim: int")
          .Attr("N: int >= 2")
          .Attr("T: type")
          .Shape(SparseConcatShape)
          .NotDifferentiable(),
      OpBuilder("SparseSplit: Splits a sparse tensor along a dimension.")
          .Input("split_dim: int64")
          .Input("indices: int64")
          .Input("values: T")
          .Input("shape: int64")
          .Output("output_indices: num_split * int64")
          .Output("output_values: num_split * T")
          .Output("output_shape: num_split * int64")
          .Attr("num_split: int >= 1")
          .Attr("T: type")
          .Shape(SparseSplitShape)
          .NotDifferentiable(),
      OpBuilder("SparseSlice: A part of a sparse tensor.")
          .Input("indices: int64")
          .Input("values: T")
          .Input("shape: int64")
          .Input("start: int64")
          .Input("size: int64")
          .Output("output_indices: int64")
          .Output("output_values: T")
          .Output("output_shape: int64")
          .Attr("T: type")
          .Shape(SparseSliceShape),
      OpBuilder("SparseCross: Crosses features: a string or hash for each combination.")
          .Input("indices: N * int64")
          .Input("values: sparse_types")
          .Input("shapes: N * int64")
          .Input("dense_inputs: dense_types")
          .Output("output_indices: int64")
          .Output("output_values: out_type")
          .Output("output_shape: int64")
          .Attr("N: int >= 0")
          .Attr("hashed_output: bool")
          .Attr("num_buckets: int >= 0")
          .Attr("hash_key: int")
          .Attr("sparse_types: list({int64, string}) >= 0")
          .Attr("dense_types: list({int64, string}) >= 0")
          .Attr("out_type: {int64, string}")
          .Attr("internal_type: {int64, string}")
          .Shape(SparseCrossShape)
          .NotDifferentiable(),
  };
}

std::vector<OpBuilder> SparseArithmetic() {
  return {
      OpBuilder("SparseTensorDenseMatMul: The product of a sparse matrix and a dense one.")
          .Input("a_indices: Tindices")
          .Input("a_values: T")
          .Input("a_shape: int64")
          .Input("b: T")
          .Output("product: T")
          .Attr("T: type")
          .Attr("Tindices: {int32, int64} = DT_INT64")
          .Attr("adjoint_a: bool = false")
          .Attr("adjoint_b: bool = false")
          .Shape(SparseMatMulShape),
      OpBuilder("SparseSegmentSum: The sum of the selected rows of each segment.")
          .Input("data: T")
          .Input("indices: Tidx")
          .Input("segment_ids: int32")
          .Output("output: T")
          .Attr(
              "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64}")
          .Attr("Tidx: {int32, int64} = DT_INT32")
          .Shape(SparseSegmentShape),
      OpBuilder("SparseSegmentMean: The mean of the selected rows of each segment.")
          .Input("data: T")
          .Input("indices: Tidx")
          .Input("segment_ids: int32")
          .Output("output: T")
          .Attr("T: {float, double}")
          .Attr("Tidx: {int32, int64} = DT_INT32")
          .Shape(SparseSegmentShape),
      OpBuilder("SparseSegmentSqrtN: The sum of the selected rows of each segment, divided by the square "
                "root of their number.")
          .Input("data: T")
          .Input("indices: Tidx")
          .Input("segment_ids: int32")
          .Output("output: T")
          .Attr("T: {float, double}")
          .Attr("Tidx: {int32, int64} = DT_INT32")
          .Shape(SparseSegmentShape),
      OpBuilder("SparseSegmentSumWithNumSegments: The sum of the selected rows of each segment, with a given "
                "number of segments.")
          .Input("data: T")
          .Input("indices: Tidx")
          .Input("segment_ids: int32")
          .Input("num_segments: Tnumsegments")
          .Output("output: T")
          .Attr(
              "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64}")
          .Attr("Tidx: {int32, int64} = DT_INT32")
          .Attr("Tnumsegments: {int32, int64} = DT_INT32")
          .Shape(SparseSegmentShape),
      OpBuilder("SparseSegmentMeanWithNumSegments: The mean of the selected rows of each segment, with a "
                "given number of segments.")
          .Input("data: T")
          .Input("indices: Tidx")
          .Input("segment_ids: int32")
          .Input("num_segments: Tnumsegments")
          .Output("output: T")
          .Attr("T: {float, double}")
          .Attr("Tidx: {int32, int64} = DT_INT32")
          .Attr("Tnumsegments: {int32, int64} = DT_INT32")
          .Shape(SparseSegmentShape),
      OpBuilder("SparseSegmentSqrtNWithNumSegments: The sum of the selected rows of each segment, divided by "
                "the square root of their number, with a given number of segments.")
          .Input("data: T")
          .Input("indices: Tidx")
          .Input("segment_ids: int32")
          .Input("num_segments: Tnumsegments")
          .Output("output: T")
          .Attr("T: {float, double}")
          .Attr("Tidx: {int32, int64} = DT_INT32")
          .Attr("Tnumsegments: {int32, int64} = DT_INT32")
          .Shape(SparseSegmentShape),
      OpBuilder("SparseSegmentMeanGrad: The gradient of SparseSegmentMean.")
          .Input("grad: T")
          .Input("indices: Tidx")
          .Input("segment_ids: int32")
          .Input("output_dim0: int32")
          .Output("output: T")
          .Attr("T: {float, double}")
          .Attr("Tidx: {int32, int64} = DT_INT32")
          .Shape(SparseSegmentShape),
      OpBuilder("SparseSegmentSqrtNGrad: The gradient of SparseSegmentSqrtN.")
          .Input("grad: T")
          .Input("indices: Tidx")
          .Input("segment_ids: int32")
          .Input("output_dim0: int32")
          .Output("output: T")
          .Attr("T: {float, double}")
          .Attr("Tidx: {int32, int64} = DT_INT32")
          .Shape(SparseSegmentShape),
  };
}

std::vector<OpBuilder> SparseStorage() {
  return {
      OpBuilder("SerializeSparse: A sparse tensor as three strings or variants.")
          .Input("sparse_indices: int64")
          .Input("sparse_values: T")
          .Input("sparse_shape: int64")
          .Output("serialized_sparse: out_type")
          .Attr("T: type")
          .Attr("out_type: {string, variant} = DT_STRING")
          .Shape(SerializeSparseShape)
          .NotDifferentiable(),
      OpBuilder("SerializeManySparse: Each row of a sparse tensor as a serialised sparse tensor.")
          .Input("sparse_indices: int64")
          .Input("sparse_values: T")
          .Input("sparse_shape: int64")
          .Output("serialized_sparse: out_type")
          .Attr("T: type")
          .Attr("out_type: {string, variant} = DT_STRING")
          .Shape(SerializeManySparseShape)
          .NotDifferentiable(),
      OpBuilder("DeserializeManySparse: Joins serialised sparse tensors into one.")
          .Input("serialized_sparse: string")
          .Output("sparse_indices: int64")
          .Output("sparse_values: dtype")
          .Output("sparse_shape: int64")
          .Attr("dtype: type")
          .Shape(DeserializeManySparseShape)
          .NotDifferentiable(),
      OpBuilder("DeserializeSparse: Parses serialised sparse tensors.")
          .Input("serialized_sparse: Tserialized")
          .Output("sparse_indices: int64")
          .Output("sparse_values: dtype")
          .Output("sparse_shape: int64")
          .Attr("dtype: type")
          .Attr("Tserialized: {string, variant} = DT_STRING")
          .Shape(DeserializeSparseShape)
          .NotDifferentiable(),
      OpBuilder(
          "AddSparseToTensorsMap: Stores a sparse tensor in a map of the session and returns its handle.")
          .Input("sparse_indices: int64")
          .Input("sparse_values: T")
          .Input("sparse_shape: int64")
          .Output("sparse_handle: int64")
          .Attr("T: type")
          .Attr("container: string = ''")
          .Attr("shared_name: string = ''")
          .Stateful()
          .Shape(AddSparseShape)
          .Traits(kEffect)
          .NotDifferentiable(),
      OpBuilder("AddManySparseToTensorsMap: Stores the rows of a sparse tensor in a map of the session and "
                "returns a handle for each.")
          .Input("sparse_indices: int64")
          .Input("sparse_values: T")
          .Input("sparse_shape: int64")
          .Output("sparse_handles: int64")
          .Attr("T: type")
          .Attr("container: string = ''")
          .Attr("shared_name: string = ''")
          .Stateful()
          .Shape(AddManySparseShape)
          .Traits(kEffect)
          .NotDifferentiable(),
      OpBuilder("TakeManySparseFromTensorsMap: Removes sparse tensors from a map of the session, and joins "
                "them into one.")
          .Input("sparse_handles: int64")
          .Output("sparse_indices: int64")
          .Output("sparse_values: dtype")
          .Output("sparse_shape: int64")
          .Attr("dtype: type")
          .Attr("container: string = ''")
          .Attr("shared_name: string = ''")
          .Stateful()
          .Shape(TakeManySparseShape)
          .Traits(kEffect)
          .NotDifferentiable(),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterSparseOps(OpRegistry& registry) {
  MR_RETURN_IF_ERROR(ops::RegisterEach(registry, ops::SparseRearranging()));
  MR_RETURN_IF_ERROR(ops::RegisterEach(registry, ops::SparseJoining()));
  MR_RETURN_IF_ERROR(ops::RegisterEach(registry, ops::SparseArithmetic()));
  return ops::RegisterEach(registry, ops::SparseStorage());
}

}  // namespace millrace
