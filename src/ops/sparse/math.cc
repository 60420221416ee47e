// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Arithmetic of sparse tensors, and sets, which are the values in rows of the last dimension.
#include <vector>

#include "ops/family.h"

namespace millrace::ops {
namespace {

// Indices, values and dense shape: the three inputs from `first` on. The rank, as far as they determine it.
StatusOr<DimHandle> SparseRank(InferenceContext& c, int first) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle indices, c.WithRank(c.input(first), 2));
  MR_RETURN_IF_ERROR(c.WithRank(c.input(first + 1), 1).status());
  MR_ASSIGN_OR_RETURN(const ShapeHandle shape, c.WithRank(c.input(first + 2), 1));
  return c.Merge(c.Dim(indices, 1), c.Dim(shape, 0));
}

// Outputs 0 to 2: a sparse tensor with any number of values.
void SetSparse(InferenceContext& c, DimHandle rank) {
  const DimHandle n = c.UnknownDim();
  c.set_output(0, c.Matrix(n, rank));
  c.set_output(1, c.Vector(n));
  c.set_output(2, c.Vector(rank));
}

Status SparseAddShape(InferenceContext& c) {
  // As in TensorFlow; the kernel checks the rest.
  MR_ASSIGN_OR_RETURN(const ShapeHandle shape, c.WithRank(c.input(2), 1));
  SetSparse(c, c.Dim(shape, 0));
  return Status::Ok();
}

Status SparseAddGradShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(0), 1).status());
  for (int i = 1; i <= 2; ++i) {
    MR_ASSIGN_OR_RETURN(const ShapeHandle indices, c.WithRank(c.input(i), 2));
    c.set_output(i - 1, c.Vector(c.Dim(indices, 0)));
  }
  return c.WithRank(c.input(3), 2).status();
}

// A value for each explicit element.
Status SparseValuesShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(SparseRank(c, 0).status());
  MR_ASSIGN_OR_RETURN(const DimHandle n, c.Merge(c.Dim(c.input(0), 0), c.Dim(c.input(1), 0)));
  c.set_output(0, c.Vector(n));
  return Status::Ok();
}

Status SparseExtremumShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const DimHandle a, SparseRank(c, 0));
  MR_ASSIGN_OR_RETURN(const DimHandle b, SparseRank(c, 3));
  MR_ASSIGN_OR_RETURN(const DimHandle rank, c.Merge(a, b));
  const DimHandle n = c.UnknownDim();
  c.set_output(0, c.Matrix(n, rank));
  c.set_output(1, c.Vector(n));
  return Status::Ok();
}

Status SparseTensorDenseAddShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(SparseRank(c, 0).status());
  c.set_output(0, c.input(3));
  return Status::Ok();
}

Status SparseSliceGradShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(0), 1).status());
  MR_ASSIGN_OR_RETURN(const ShapeHandle indices, c.WithRank(c.input(1), 2));
  c.set_output(0, c.Vector(c.Dim(indices, 0)));
  return Status::Ok();
}

// Known where shape and axes are constants.
Status SparseReduceShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(SparseRank(c, 0).status());
  MR_ASSIGN_OR_RETURN(const bool keep_dims, c.Attr<bool>("keep_dims"));
  const Tensor* const shape = c.input_tensor(2);
  const Tensor* const axes = c.input_tensor(3);
  c.set_output(0, c.UnknownShape());
  if (shape == nullptr || axes == nullptr) return Status::Ok();
  const auto sizes = shape->flat<int64_t>();
  const auto rank = static_cast<int64_t>(sizes.size());
  std::vector<bool> reduced(sizes.size(), false);
  for (const int32_t axis : axes->flat<int32_t>()) {
    if (axis < -rank || axis >= rank) return Status::Ok();  // the step refuses it
    reduced[static_cast<size_t>(axis < 0 ? axis + rank : axis)] = true;
  }
  std::vector<DimHandle> dims;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] < 0) return errors::InvalidArgument("Dimension ", sizes[d], " must be >= 0");
    if (!reduced[d]) {
      dims.push_back(c.MakeDim(sizes[d]));
    } else if (keep_dims) {
      dims.push_back(c.MakeDim(1));
    }
  }
  c.set_output(0, c.MakeShape(dims));
  return Status::Ok();
}

Status AnySparseShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(SparseRank(c, 0).status());
  SetSparse(c, c.UnknownDim());
  return Status::Ok();
}

// Operands are dense (one input) or sparse (three) tensors of one rank.
Status SetOperationShape(InferenceContext& c) {
  DimHandle rank = c.UnknownDim();
  for (int i = 0; i < c.num_inputs();) {
    const bool is_sparse =
        i + 3 <= c.num_inputs() && c.op().inputs[static_cast<size_t>(i)].name.ends_with("_indices");
    DimHandle own = c.UnknownDim();
    if (is_sparse) {
      MR_ASSIGN_OR_RETURN(own, SparseRank(c, i));
    } else if (c.RankKnown(c.input(i))) {
      MR_RETURN_IF_ERROR(c.WithRankAtLeast(c.input(i), 2).status());
      own = c.MakeDim(c.Rank(c.input(i)));
    }
    MR_ASSIGN_OR_RETURN(rank, c.Merge(rank, own));
    i += is_sparse ? 3 : 1;
  }
  SetSparse(c, rank);
  return Status::Ok();
}

// Of dense operands all sizes but the last must be equal.
Status DenseSetOperationShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(SetOperationShape(c));
  if (!c.RankKnown(c.input(0)) || !c.RankKnown(c.input(1))) return Status::Ok();
  MR_ASSIGN_OR_RETURN(const ShapeHandle a, c.Subshape(c.input(0), 0, -1));
  MR_ASSIGN_OR_RETURN(const ShapeHandle b, c.Subshape(c.input(1), 0, -1));
  return c.Merge(a, b).status();
}

Status SetSizeShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(SparseRank(c, 0).status());
  c.set_output(0, c.UnknownShape());
  return Status::Ok();
}

std::vector<OpBuilder> SparseSums() {
  return {
      OpBuilder("SparseAdd: The sum of two sparse tensors.")
          .Input("a_indices: int64")
          .Input("a_values: T")
          .Input("a_shape: int64")
          .Input("b_indices: int64")
          .Input("b_values: T")
          .Input("b_shape: int64")
          .Input("thresh: Treal")
          .Output("sum_indices: int64")
          .Output("sum_values: T")
          .Output("sum_shape: int64")
          .Attr("T: numbertype")
          .Attr("Treal: realnumbertype")
          .Shape(SparseAddShape),
      OpBuilder("SparseAddGrad: The gradient of SparseAdd with respect to the values of both inputs.")
          .Input("backprop_val_grad: T")
          .Input("a_indices: int64")
          .Input("b_indices: int64")
          .Input("sum_indices: int64")
          .Output("a_val_grad: T")
          .Output("b_val_grad: T")
          .Attr("T: numbertype")
          .Shape(SparseAddGradShape)
          .NotDifferentiable(),
      OpBuilder(
          "SparseDenseCwiseAdd: The values of a sparse tensor plus those of a dense one at the same indices.")
          .Input("sp_indices: int64")
          .Input("sp_values: T")
          .Input("sp_shape: int64")
          .Input("dense: T")
          .Output("output: T")
          .Attr("T: numbertype")
          .Shape(SparseValuesShape),
      OpBuilder("SparseDenseCwiseDiv: The values of a sparse tensor divided by those of a dense one at the "
                "same indices.")
          .Input("sp_indices: int64")
          .Input("sp_values: T")
          .Input("sp_shape: int64")
          .Input("dense: T")
          .Output("output: T")
          .Attr("T: numbertype")
          .Shape(SparseValuesShape),
      OpBuilder("SparseDenseCwiseMul: The values of a sparse tensor times those of a dense one at the same "
                "indices.")
          .Input("sp_indices: int64")
          .Input("sp_values: T")
          .Input("sp_shape: int64")
          .Input("dense: T")
          .Output("output: T")
          .Attr("T: numbertype")
          .Shape(SparseValuesShape),
  };
}

std::vector<OpBuilder> SparseReductions() {
  return {
      OpBuilder("SparseReduceMax: The maximum over dimensions of a sparse tensor, as a dense one.")
          .Input("input_indices: int64")
          .Input("input_values: T")
          .Input("input_shape: int64")
          .Input("reduction_axes: int32")
          .Output("output: T")
          .Attr("keep_dims: bool = false")
          .Attr("T: realnumbertype")
          .Shape(SparseReduceShape)
          .NotDifferentiable(),
      OpBuilder("SparseReduceMaxSparse: The maximum over dimensions of a sparse tensor, as a sparse one.")
          .Input("input_indices: int64")
          .Input("input_values: T")
          .Input("input_shape: int64")
          .Input("reduction_axes: int32")
          .Output("output_indices: int64")
          .Output("output_values: T")
          .Output("output_shape: int64")
          .Attr("keep_dims: bool = false")
          .Attr("T: realnumbertype")
          .Shape(AnySparseShape)
          .NotDifferentiable(),
      OpBuilder("SparseReduceSum: The sum over dimensions of a sparse tensor, as a dense one.")
          .Input("input_indices: int64")
          .Input("input_values: T")
          .Input("input_shape: int64")
          .Input("reduction_axes: int32")
          .Output("output: T")
          .Attr("keep_dims: bool = false")
          .Attr("T: numbertype")
          .Shape(SparseReduceShape),
      OpBuilder("SparseReduceSumSparse: The sum over dimensions of a sparse tensor, as a sparse one.")
          .Input("input_indices: int64")
          .Input("input_values: T")
          .Input("input_shape: int64")
          .Input("reduction_axes: int32")
          .Output("output_indices: int64")
          .Output("output_values: T")
          .Output("output_shape: int64")
          .Attr("keep_dims: bool = false")
          .Attr("T: numbertype")
          .Shape(AnySparseShape)
          .NotDifferentiable(),
      OpBuilder("SparseSliceGrad: The gradient of SparseSlice with respect to the values of its input.")
          .Input("backprop_val_grad: T")
          .Input("input_indices: int64")
          .Input("input_start: int64")
          .Input("output_indices: int64")
          .Output("val_grad: T")
          .Attr("T: numbertype")
          .Shape(SparseSliceGradShape)
          .NotDifferentiable(),
      OpBuilder("SparseSoftmax: Softmax over the values of each row of a sparse tensor.")
          .Input("sp_indices: int64")
          .Input("sp_values: T")
          .Input("sp_shape: int64")
          .Output("output: T")
          .Attr("T: {float, double}")
          .Shape(SparseValuesShape),
      OpBuilder("SparseSparseMaximum: The element-wise maximum of two sparse tensors.")
          .Input("a_indices: int64")
          .Input("a_values: T")
          .Input("a_shape: int64")
          .Input("b_indices: int64")
          .Input("b_values: T")
          .Input("b_shape: int64")
          .Output("output_indices: int64")
          .Output("output_values: T")
          .Attr("T: realnumbertype")
          .Shape(SparseExtremumShape),
      OpBuilder("SparseSparseMinimum: The element-wise minimum of two sparse tensors.")
          .Input("a_indices: int64")
          .Input("a_values: T")
          .Input("a_shape: int64")
          .Input("b_indices: int64")
          .Input("b_values: T")
          .Input("b_shape: int64")
          .Output("output_indices: int64")
          .Output("output_values: T")
          .Attr("T: numbertype")
          .Shape(SparseExtremumShape),
      OpBuilder("SparseTensorDenseAdd: The sum of a sparse tensor and a dense one.")
          .Input("a_indices: Tindices")
          .Input("a_values: T")
          .Input("a_shape: Tindices")
          .Input("b: T")
          .Output("output: T")
          .Attr("T: numbertype")
          .Attr("Tindices: {int32, int64}")
          .Shape(SparseTensorDenseAddShape),
  };
}

std::vector<OpBuilder> SetOps() {
  return {
      OpBuilder("DenseToDenseSetOperation: Unions, intersections or differences of the sets in rows of two "
                "dense tensors.")
          .Input("set1: T")
          .Input("set2: T")
          .Output("result_indices: int64")
          .Output("result_values: T")
          .Output("result_shape: int64")
          .Attr("set_operation: string")
          .Attr("validate_indices: bool = true")
          .Attr("T: {int8, int16, int32, int64, uint8, uint16, string}")
          .Shape(DenseSetOperationShape)
          .NotDifferentiable(),
      OpBuilder("DenseToSparseSetOperation: Unions, intersections or differences of the sets in rows of a "
                "dense tensor and a sparse one.")
          .Input("set1: T")
          .Input("set2_indices: int64")
          .Input("set2_values: T")
          .Input("set2_shape: int64")
          .Output("result_indices: int64")
          .Output("result_values: T")
          .Output("result_shape: int64")
          .Attr("set_operation: string")
          .Attr("validate_indices: bool = true")
          .Attr("T: {int8, int16, int32, int64, uint8, uint16, string}")
          .Shape(SetOperationShape)
          .NotDifferentiable(),
      OpBuilder("SetSize: The number of distinct values in each row of a sparse tensor.")
          .Input("set_indices: int64")
          .Input("set_values: T")
          .Input("set_shape: int64")
          .Output("size: int32")
          .Attr("validate_indices: bool = true")
          .Attr("T: {int8, int16, int32, int64, uint8, uint16, string}")
          .Shape(SetSizeShape)
          .NotDifferentiable(),
      OpBuilder("SparseToSparseSetOperation: Unions, intersections or differences of the sets in rows of two "
                "sparse tensors.")
          .Input("set1_indices: int64")
          .Input("set1_values: T")
          .Input("set1_shape: int64")
          .Input("set2_indices: int64")
          .Input("set2_values: T")
          .Input("set2_shape: int64")
          .Output("result_indices: int64")
          .Output("result_values: T")
          .Output("result_shape: int64")
          .Attr("set_operation: string")
          .Attr("validate_indices: bool = true")
          .Attr("T: {int8, int16, int32, int64, uint8, uint16, string}")
          .Shape(SetOperationShape)
          .NotDifferentiable(),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterSparseMathOps(OpRegistry& registry) {
  MR_RETURN_IF_ERROR(ops::RegisterEach(registry, ops::SparseSums()));
  MR_RETURN_IF_ERROR(ops::RegisterEach(registry, ops::SparseReductions()));
  return ops::RegisterEach(registry, ops::SetOps());
}

}  // namespace millrace
