// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Rows and elements that move, change in place, are found or hashed.
#include "ops/family.h"

namespace millrace::ops {
namespace {

Status ParallelConcatShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const PartialShape said, c.Attr<PartialShape>("shape"));
  if (!said.IsFullyDefined()) return errors::InvalidArgument("shape attr must be fully defined.");
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.MakeShapeFromPartial(said));
  MR_RETURN_IF_ERROR(c.WithRankAtLeast(out, 1).status());
  MR_RETURN_IF_ERROR(c.WithValue(c.Dim(out, 0), c.num_inputs()).status());
  MR_ASSIGN_OR_RETURN(const ShapeHandle row, c.ReplaceDim(out, 0, c.MakeDim(1)));
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (!c.WithValue(c.Dim(c.input(i), 0), 1).ok()) {
      return errors::InvalidArgument("Size of first dimension must be 1.");
    }
    auto merged = c.Merge(c.input(i), row);
    if (!merged.ok()) {
      return merged.status().WithContext(StrCat("\n\tFrom merging shape ", i, " with other shapes."));
    }
  }
  c.set_output(0, out);
  return Status::Ok();
}

Status EmptyShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.MakeShapeFromInput(0));
  c.set_output(0, out);
  return Status::Ok();
}

Status ReverseSequenceShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle lengths, c.WithRank(c.input(1), 1));
  MR_ASSIGN_OR_RETURN(const int64_t seq_dim, c.Attr<int64_t>("seq_dim"));
  MR_ASSIGN_OR_RETURN(const int64_t batch_dim, c.Attr<int64_t>("batch_dim"));
  ShapeHandle in = c.input(0);
  if (!c.RankKnown(in)) return Status::Ok();
  for (const auto& [name, dim] : {std::pair("batch_dim", batch_dim), std::pair("seq_dim", seq_dim)}) {
    if (dim < 0 || dim >= c.Rank(in)) {
      return errors::InvalidArgument(name, " must be < input rank: ", dim, " vs. ", c.Rank(in));
    }
  }
  MR_ASSIGN_OR_RETURN(const DimHandle batches, c.Merge(c.Dim(in, batch_dim), c.Dim(lengths, 0)));
  MR_ASSIGN_OR_RETURN(in, c.ReplaceDim(in, batch_dim, batches));
  c.set_output(0, in);
  return Status::Ok();
}

Status RollShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRankAtLeast(c.input(0), 1).status());
  MR_RETURN_IF_ERROR(c.WithRankAtMost(c.input(1), 1).status());
  MR_RETURN_IF_ERROR(c.WithRankAtMost(c.input(2), 1).status());
  return shape_fns::Unchanged(c);
}

// A column of coordinates for each index.
Status UnravelIndexShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle dims, c.WithRank(c.input(1), 1));
  MR_ASSIGN_OR_RETURN(const ShapeHandle indices, c.WithRankAtMost(c.input(0), 1));
  if (!c.RankKnown(indices)) return Status::Ok();
  c.set_output(0,
               c.Rank(indices) == 0 ? c.Vector(c.Dim(dims, 0)) : c.Matrix(c.Dim(dims, 0), c.Dim(indices, 0)));
  return Status::Ok();
}

Status TensorScatterShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle tensor, c.WithRankAtLeast(c.input(0), 1));
  MR_RETURN_IF_ERROR(c.WithRankAtLeast(c.input(1), 1).status());
  MR_RETURN_IF_ERROR(c.WithRankAtLeast(c.input(2), 1).status());
  c.set_output(0, tensor);
  return Status::Ok();
}

Status BoundShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle sorted, c.WithRank(c.input(0), 2));
  MR_ASSIGN_OR_RETURN(const ShapeHandle values, c.WithRank(c.input(1), 2));
  MR_RETURN_IF_ERROR(c.Merge(c.Dim(sorted, 0), c.Dim(values, 0)).status());
  c.set_output(0, values);
  return Status::Ok();
}

Status FingerprintShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle data, c.WithRankAtLeast(c.input(0), 1));
  MR_RETURN_IF_ERROR(c.WithRank(c.input(1), 0).status());
  c.set_output(0, c.Matrix(c.Dim(data, 0), c.MakeDim(8)));
  return Status::Ok();
}

std::vector<OpBuilder> ChangingOps() {
  return {
      OpBuilder("GuaranteeConst: The input, unchanged, with the promise that it is constant.")
          .Input("input: T")
          .Output("output: T")
          .Attr("T: type")
          .Stateful()
          .Shape(shape_fns::Unchanged),
      OpBuilder("DeepCopy: A copy of the input in a buffer of its own.")
          .Input("x: T")
          .Output("y: T")
          .Attr("T: type")
          .Stateful()
          .Shape(shape_fns::Unchanged)
          .NotDifferentiable(),
      OpBuilder("Empty: An uninitialized or zero-filled tensor.")
          .Input("shape: int32")
          .Output("output: dtype")
          .Attr("dtype: type")
          .Attr("init: bool = false")
          .Stateful()
          .Shape(EmptyShape)
          .NotDifferentiable(),
      OpBuilder("InplaceUpdate: Replaces rows of a tensor in place.")
          .Input("x: T")
          .Input("i: int32")
          .Input("v: T")
          .Output("y: T")
          .Attr("T: type")
          .Shape(shape_fns::Unchanged)
          .NotDifferentiable(),
      OpBuilder("InplaceAdd: Adds to rows of a tensor in place.")
          .Input("x: T")
          .Input("i: int32")
          .Input("v: T")
          .Output("y: T")
          .Attr("T: type")
          .Shape(shape_fns::Unchanged)
          .NotDifferentiable(),
      OpBuilder("InplaceSub: Subtracts from rows of a tensor in place.")
          .Input("x: T")
          .Input("i: int32")
          .Input("v: T")
          .Output("y: T")
          .Attr("T: type")
          .Shape(shape_fns::Unchanged)
          .NotDifferentiable(),
  };
}

std::vector<OpBuilder> MovingOps() {
  return {
      OpBuilder("ParallelConcat: Joins rows along the first dimension; the shape is an attribute.")
          .Input("values: N*T")
          .Output("output: T")
          .Attr("N: int >= 1")
          .Attr("T: type")
          .Attr("shape: shape")
          .Shape(ParallelConcatShape)
          .NotDifferentiable(),
      OpBuilder("ReverseSequence: Reverses the start of each sequence, by given lengths.")
          .Input("input: T")
          .Input("seq_lengths: Tlen")
          .Output("output: T")
          .Attr("seq_dim: int")
          .Attr("batch_dim: int = 0")
          .Attr("T: type")
          .Attr("Tlen: {int32, int64} = DT_INT64")
          .Shape(ReverseSequenceShape),
      OpBuilder("Roll: Rotates elements along dimensions.")
          .Input("input: T")
          .Input("shift: Tshift")
          .Input("axis: Taxis")
          .Output("output: T")
          .Attr("T: type")
          .Attr("Tshift: {int32, int64}")
          .Attr("Taxis: {int32, int64}")
          .Shape(RollShape),
      OpBuilder("UnravelIndex: Flat indices as indices of each dimension.")
          .Input("indices: Tidx")
          .Input("dims: Tidx")
          .Output("output: Tidx")
          .Attr("Tidx: {int32, int64} = DT_INT32")
          .Shape(UnravelIndexShape)
          .NotDifferentiable(),
      OpBuilder(
          "ScatterNdNonAliasingAdd: A copy of a tensor with values added to slices, by vectors of indices.")
          .Input("input: T")
          .Input("indices: Tindices")
          .Input("updates: T")
          .Output("output: T")
          .Attr("T: {float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, "
                "bfloat16, uint16, complex128, half, uint32, uint64, bool}")
          .Attr("Tindices: {int32, int64}")
          .Shape(TensorScatterShape),
      OpBuilder("TensorScatterUpdate: A copy of a tensor with slices replaced, by vectors of indices.")
          .Input("tensor: T")
          .Input("indices: Tindices")
          .Input("updates: T")
          .Output("output: T")
          .Attr("T: type")
          .Attr("Tindices: {int32, int64}")
          .Shape(TensorScatterShape),
      OpBuilder("TensorScatterAdd: A copy of a tensor with values added to slices, by vectors of indices.")
          .Input("tensor: T")
          .Input("indices: Tindices")
          .Input("updates: T")
          .Output("output: T")
          .Attr("T: type")
          .Attr("Tindices: {int32, int64}")
          .Shape(TensorScatterShape),
      OpBuilder(
          "TensorScatterSub: A copy of a tensor with values subtracted from slices, by vectors of indices.")
          .Input("tensor: T")
          .Input("indices: Tindices")
          .Input("updates: T")
          .Output("output: T")
          .Attr("T: type")
          .Attr("Tindices: {int32, int64}")
          .Shape(TensorScatterShape),
  };
}

std::vector<OpBuilder> FindingOps() {
  return {
      OpBuilder("LowerBound: The first index in each sorted row at which a value can be inserted.")
          .Input("sorted_inputs: T")
          .Input("values: T")
          .Output("output: out_type")
          .Attr("T: type")
          .Attr("out_type: {int32, int64} = DT_INT32")
          .Shape(BoundShape)
          .NotDifferentiable(),
      OpBuilder("UpperBound: The last index in each sorted row at which a value can be inserted.")
          .Input("sorted_inputs: T")
          .Input("values: T")
          .Output("output: out_type")
          .Attr("T: type")
          .Attr("out_type: {int32, int64} = DT_INT32")
          .Shape(BoundShape)
          .NotDifferentiable(),
      OpBuilder("Fingerprint: A hash of each row.")
          .Input("data: T")
          .Input("method: string")
          .Output("fingerprint: uint8")
          .Attr("T: type")
          .Shape(FingerprintShape)
          .NotDifferentiable(),
      OpBuilder("Timestamp: The seconds since 1970.")
          .Output("ts: double")
          .Stateful()
          .Shape(shape_fns::Scalar)
          .NotDifferentiable(),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterArrayRowOps(OpRegistry& registry) {
  MR_RETURN_IF_ERROR(ops::RegisterEach(registry, ops::ChangingOps()));
  MR_RETURN_IF_ERROR(ops::RegisterEach(registry, ops::MovingOps()));
  return ops::RegisterEach(registry, ops::FindingOps());
}

}  // namespace millrace
