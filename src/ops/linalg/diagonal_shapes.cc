// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "op/diagonals.h"
#include "op/einsum_equation.h"
#include "ops/linalg/shapes.h"

namespace millrace::ops {
namespace {

// Value of a scalar input, -1 when it is not known.
int64_t ScalarOr(InferenceContext& c, int i, int64_t otherwise) {
  const Tensor* t = c.input_tensor(i);
  return t == nullptr || t->num_elements() != 1 ? otherwise : t->data<int32_t>()[0];
}

// The smaller of two sizes; unknown unless both are known, or one is 0.
DimHandle Smaller(InferenceContext& c, DimHandle a, DimHandle b) {
  if (c.ValueKnown(a) && c.Value(a) == 0) return a;
  if (c.ValueKnown(b) && c.Value(b) == 0) return b;
  if (!c.ValueKnown(a) || !c.ValueKnown(b)) return c.UnknownDim();
  return c.Value(a) <= c.Value(b) ? a : b;
}

// The batch of a matrix followed by what stacks the diagonals of one matrix.
StatusOr<ShapeHandle> StackShape(InferenceContext& c, ShapeHandle matrix, const DiagonalRange& range) {
  const DimHandle rows = c.Dim(matrix, -2), columns = c.Dim(matrix, -1);
  const int64_t r = c.Value(rows), n = c.Value(columns);
  MR_RETURN_IF_ERROR(CheckDiagonals(range, r, n));
  DimHandle length = c.UnknownDim();
  if (r >= 0 && n >= 0) length = c.MakeDim(range.MaxLength(r, n));
  MR_ASSIGN_OR_RETURN(const ShapeHandle batch, c.Subshape(matrix, 0, -2));
  if (range.count() == 1) return c.Concatenate(batch, c.Vector(length));
  return c.Concatenate(batch, c.Matrix(c.MakeDim(range.count()), length));
}

}  // namespace

Status DiagShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle in, c.WithRankAtLeast(c.input(0), 1));
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.Concatenate(in, in));
  c.set_output(0, out);
  return Status();
}

Status DiagPartShape(InferenceContext& c) {
  const ShapeHandle in = c.input(0);
  if (!c.RankKnown(in)) return shape_fns::Unknown(c);
  const int rank = c.Rank(in);
  if (rank == 0 || rank % 2 != 0) {
    return errors::InvalidArgument("Input must have even and non-zero rank, input rank is ", rank);
  }
  std::vector<DimHandle> dims(static_cast<size_t>(rank) / 2);
  for (int i = 0; i < rank / 2; ++i) {
    MR_ASSIGN_OR_RETURN(dims[static_cast<size_t>(i)], c.Merge(c.Dim(in, i), c.Dim(in, i + rank / 2)));
  }
  c.set_output(0, c.MakeShape(dims));
  return Status();
}

Status MatrixDiagShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle in, c.WithRankAtLeast(c.input(0), 1));
  if (!c.RankKnown(in)) return shape_fns::Unknown(c);
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.Concatenate(in, c.Vector(c.Dim(in, -1))));
  c.set_output(0, out);
  return Status();
}

Status MatrixDiagPartShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle in, c.WithRankAtLeast(c.input(0), 2));
  if (!c.RankKnown(in)) return shape_fns::Unknown(c);
  MR_ASSIGN_OR_RETURN(const ShapeHandle batch, c.Subshape(in, 0, -2));
  MR_ASSIGN_OR_RETURN(const ShapeHandle out,
                      c.Concatenate(batch, c.Vector(Smaller(c, c.Dim(in, -2), c.Dim(in, -1)))));
  c.set_output(0, out);
  return Status();
}

Status MatrixSetDiagShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(ShapeHandle in, c.WithRankAtLeast(c.input(0), 2));
  MR_ASSIGN_OR_RETURN(const ShapeHandle diagonal, c.WithRankAtLeast(c.input(1), 1));
  if (c.RankKnown(in)) {
    const DimHandle smaller = Smaller(c, c.Dim(in, -2), c.Dim(in, -1));
    if (c.RankKnown(diagonal)) MR_RETURN_IF_ERROR(c.Merge(smaller, c.Dim(diagonal, -1)).status());
  }
  if (c.RankKnown(in) && c.RankKnown(diagonal)) {
    MR_RETURN_IF_ERROR(c.WithRank(in, c.Rank(diagonal) + 1).status());
    MR_ASSIGN_OR_RETURN(const ShapeHandle batch, c.Subshape(diagonal, 0, -1));
    MR_ASSIGN_OR_RETURN(in, c.MergePrefix(in, batch));
  }
  c.set_output(0, in);
  return Status();
}

// Inputs: diagonal, k, num_rows, num_cols, padding_value.
Status MatrixDiagV2Shape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle in, c.WithRankAtLeast(c.input(0), 1));
  MR_RETURN_IF_ERROR(c.WithRankAtMost(c.input(1), 1).status());
  for (int i = 2; i < 5; ++i) MR_RETURN_IF_ERROR(c.WithRank(c.input(i), 0).status());
  const Tensor* k = c.input_tensor(1);
  const Tensor *rows = c.input_tensor(2), *columns = c.input_tensor(3);
  if (k == nullptr || !c.RankKnown(in)) return shape_fns::Unknown(c);
  MR_ASSIGN_OR_RETURN(const DiagonalRange range, ReadDiagonals(*k));
  const bool stacked = range.count() > 1;
  if (stacked) {
    MR_RETURN_IF_ERROR(c.WithRankAtLeast(in, 2).status());
    auto count = c.WithValue(c.Dim(in, -2), range.count());
    if (!count.ok()) {
      return errors::InvalidArgument(
          "The number of rows of `diagonal` doesn't match the number of diagonals implied from `d_lower` and "
          "`d_upper`.\nnum_diags = ",
          c.Value(c.Dim(in, -2)), ", d_lower = ", range.lower, ", d_upper = ", range.upper);
    }
  }
  MatrixSize size;
  DimHandle row_dim = c.UnknownDim(), column_dim = c.UnknownDim();
  const DimHandle length = c.Dim(in, -1);
  if (rows != nullptr && columns != nullptr && c.ValueKnown(length)) {
    const MatrixSize wanted{ScalarOr(c, 2, -1), ScalarOr(c, 3, -1)};
    MR_ASSIGN_OR_RETURN(size, FitMatrix(range, c.Value(length), wanted));
    row_dim = c.MakeDim(size.rows);
    column_dim = c.MakeDim(size.columns);
  }
  MR_ASSIGN_OR_RETURN(const ShapeHandle batch, c.Subshape(in, 0, stacked ? -2 : -1));
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.Concatenate(batch, c.Matrix(row_dim, column_dim)));
  c.set_output(0, out);
  return Status();
}

// Inputs: input, k, padding_value.
Status MatrixDiagPartV2Shape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle in, c.WithRankAtLeast(c.input(0), 2));
  MR_RETURN_IF_ERROR(c.WithRankAtMost(c.input(1), 1).status());
  MR_RETURN_IF_ERROR(c.WithRank(c.input(2), 0).status());
  const Tensor* k = c.input_tensor(1);
  if (k == nullptr || !c.RankKnown(in)) return shape_fns::Unknown(c);
  MR_ASSIGN_OR_RETURN(const DiagonalRange range, ReadDiagonals(*k));
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, StackShape(c, in, range));
  c.set_output(0, out);
  return Status();
}

// Inputs: input, diagonal, k.
Status MatrixSetDiagV2Shape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle in, c.WithRankAtLeast(c.input(0), 2));
  MR_ASSIGN_OR_RETURN(const ShapeHandle diagonal, c.WithRankAtLeast(c.input(1), 1));
  MR_RETURN_IF_ERROR(c.WithRankAtMost(c.input(2), 1).status());
  const Tensor* k = c.input_tensor(2);
  if (k != nullptr && c.RankKnown(in)) {
    MR_ASSIGN_OR_RETURN(const DiagonalRange range, ReadDiagonals(*k));
    MR_ASSIGN_OR_RETURN(const ShapeHandle stack, StackShape(c, in, range));
    MR_RETURN_IF_ERROR(c.Merge(stack, diagonal).status());
  }
  c.set_output(0, in);
  return Status();
}

Status BandPartShape(InferenceContext& c) {
  for (int i = 1; i < 3; ++i) MR_RETURN_IF_ERROR(c.WithRank(c.input(i), 0).status());
  MR_ASSIGN_OR_RETURN(const ShapeHandle in, c.WithRankAtLeast(c.input(0), 2));
  c.set_output(0, in);
  return Status();
}

Status CrossShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(ShapeHandle shape, c.WithRankAtLeast(c.input(0), 1));
  MR_ASSIGN_OR_RETURN(shape, c.Merge(shape, c.input(1)));
  if (c.RankKnown(shape)) MR_RETURN_IF_ERROR(c.WithValue(c.Dim(shape, -1), 3).status());
  c.set_output(0, shape);
  return Status();
}

Status EinsumShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const std::string text, c.Attr<std::string>("equation"));
  MR_ASSIGN_OR_RETURN(const EinsumEquation equation, ParseEinsum(text));
  if (c.num_inputs() != static_cast<int>(equation.inputs.size())) {
    return errors::InvalidArgument("Expected ", equation.inputs.size(), " inputs for the equation '", text,
                                   "' but got: ", c.num_inputs());
  }
  std::vector<std::vector<int>> operands;
  std::map<int, DimHandle> sizes;
  bool ranks_known = true;
  for (int i = 0; i < c.num_inputs(); ++i) {
    const std::string& subscripts = equation.inputs[static_cast<size_t>(i)];
    ShapeHandle in = c.input(i);
    if (!c.RankKnown(in) && subscripts.find('.') == std::string::npos)
      in = c.UnknownShapeOfRank(static_cast<int64_t>(subscripts.size()));
    if (!c.RankKnown(in)) {
      ranks_known = false;
      continue;
    }
    MR_ASSIGN_OR_RETURN(const std::vector<int> labels, EinsumLabels(subscripts, c.Rank(in)));
    for (size_t axis = 0; axis < labels.size(); ++axis) {
      const DimHandle dim = c.Dim(in, static_cast<int64_t>(axis));
      const auto [it, added] = sizes.emplace(labels[axis], dim);
      if (added) continue;
      if (labels[axis] < kEllipsisLabel) {
        MR_ASSIGN_OR_RETURN(it->second, c.Merge(it->second, dim));
      } else {
        MR_ASSIGN_OR_RETURN(const ShapeHandle both, Broadcast(c, c.Vector(it->second), c.Vector(dim)));
        it->second = c.Dim(both, 0);
      }
    }
    operands.push_back(labels);
  }
  if (!ranks_known && equation.output.find('.') != std::string::npos) return shape_fns::Unknown(c);
  std::vector<DimHandle> dims;
  for (const int label : EinsumOutputLabels(equation.output, operands)) {
    const auto it = sizes.find(label);
    dims.push_back(it == sizes.end() ? c.UnknownDim() : it->second);
  }
  c.set_output(0, c.MakeShape(dims));
  return Status();
}

}  // namespace millrace::ops
