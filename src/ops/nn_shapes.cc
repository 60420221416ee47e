// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/nn_shapes.h"

namespace millrace::ops {
namespace {

// The output has the rank-4 shape that input i describes.
Status ImageShapeFromInput(InferenceContext& c, int i) {
  MR_ASSIGN_OR_RETURN(ShapeHandle out, c.MakeShapeFromInput(i));
  MR_ASSIGN_OR_RETURN(out, c.WithRank(out, 4));
  c.set_output(0, out);
  return Status::Ok();
}

// Values and indices of the k largest entries of each row.
Status SetTopKOutputs(InferenceContext& c, DimHandle k) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle input, c.WithRankAtLeast(c.input(0), 1));
  const DimHandle last = c.Dim(input, -1);
  if (c.ValueKnown(last) && c.ValueKnown(k) && c.Value(last) < c.Value(k)) {
    return errors::InvalidArgument("input must have last dimension >= k = ", c.Value(k), " but is ",
                                   c.Value(last));
  }
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.ReplaceDim(input, -1, k));
  c.set_output(0, out);
  c.set_output(1, out);
  return Status::Ok();
}

}  // namespace

Status SoftmaxShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.WithRankAtLeast(c.input(0), 1));
  c.set_output(0, out);
  return Status::Ok();
}

Status SoftmaxCrossEntropyShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle features, c.WithRank(c.input(0), 2));
  MR_ASSIGN_OR_RETURN(const ShapeHandle both, c.Merge(features, c.input(1)));
  c.set_output(0, c.Vector(c.Dim(both, 0)));
  c.set_output(1, both);
  return Status::Ok();
}

Status SparseSoftmaxCrossEntropyShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(ShapeHandle features, c.WithRank(c.input(0), 2));
  MR_ASSIGN_OR_RETURN(const ShapeHandle labels, c.WithRank(c.input(1), 1));
  MR_ASSIGN_OR_RETURN(const DimHandle batch, c.Merge(c.Dim(features, 0), c.Dim(labels, 0)));
  MR_ASSIGN_OR_RETURN(features, c.ReplaceDim(features, 0, batch));
  c.set_output(0, c.Vector(batch));
  c.set_output(1, features);
  return Status::Ok();
}

Status Conv2DBackpropInputShape(InferenceContext& c) { return ImageShapeFromInput(c, 0); }

Status Conv2DBackpropFilterShape(InferenceContext& c) { return ImageShapeFromInput(c, 1); }

Status AvgPoolGradShape(InferenceContext& c) { return ImageShapeFromInput(c, 0); }

Status MaxPoolGradShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.WithRank(c.input(0), 4));
  MR_RETURN_IF_ERROR(c.Merge(c.input(1), c.input(2)).status());
  c.set_output(0, out);
  return Status::Ok();
}

Status MaxPoolGradGradShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(shape_fns::Pool(c));
  MR_RETURN_IF_ERROR(c.Merge(c.input(0), c.input(2)).status());
  return c.Merge(c.input(1), c.output(0)).status();
}

Status InTopKShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle predictions, c.WithRank(c.input(0), 2));
  MR_ASSIGN_OR_RETURN(const ShapeHandle targets, c.WithRank(c.input(1), 1));
  MR_ASSIGN_OR_RETURN(const DimHandle batch, c.Merge(c.Dim(predictions, 0), c.Dim(targets, 0)));
  c.set_output(0, c.Vector(batch));
  return Status::Ok();
}

Status TopKShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const int64_t k, c.Attr<int64_t>("k"));
  if (k < 0) return errors::InvalidArgument("Need k >= 0, got ", k);
  return SetTopKOutputs(c, c.MakeDim(k));
}

Status TopKV2Shape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(1), 0).status());
  MR_ASSIGN_OR_RETURN(const DimHandle k, c.MakeDimFromScalarInput(1));
  return SetTopKOutputs(c, k);
}

}  // namespace millrace::ops
