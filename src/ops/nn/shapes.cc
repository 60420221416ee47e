// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/nn/shapes.h"

namespace millrace::ops {
namespace {

// The output has the rank-4 shape that input i describes.
Status ImageShapeFromInput(InferenceContext& c, int i) {
  MR_ASSIGN_OR_RETURN(ShapeHandle out, c.MakeShapeFromInput(i));
  MR_ASSIGN_OR_RETURN(out, c.WithRank(out, 4));
  c.set_output(0, out);
  return Status::Ok();
}

// Values and indices of the k largest entries of each row of `input`.
Status SetTopKOutputs(InferenceContext& c, ShapeHandle input, DimHandle k) {
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

// The matrix that logits and labels make together.
StatusOr<ShapeHandle> FeaturesAndLabels(InferenceContext& c) {
  // An unknown shape may fit; TensorFlow refuses an unknown rank.
  const auto known = [&](int i) { return c.RankKnown(c.input(i)) ? c.input(i) : c.UnknownShapeOfRank(2); };
  MR_ASSIGN_OR_RETURN(const ShapeHandle both, Broadcast(c, known(0), known(1)));
  if (c.Rank(both) == 2) return both;
  return errors::InvalidArgument("Shape must be broadcasted with rank 2, but is rank ", c.Rank(both));
}

// The dimension of the channels of a batch normalisation.
StatusOr<int> NormChannelAxis(const InferenceContext& c) {
  const StatusOr<std::string> format = c.Attr<std::string>("data_format");
  if (!format.ok()) return format.status();
  if (*format == "NHWC") return 3;
  if (*format == "NCHW") return 1;
  return errors::InvalidArgument("Invalid data format: ", *format);
}

}  // namespace

Status SoftmaxShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.WithRankAtLeast(c.input(0), 1));
  c.set_output(0, out);
  return Status::Ok();
}

Status SoftmaxCrossEntropyShape(InferenceContext& c) {
  // Both are broadcast to one matrix shape.
  MR_ASSIGN_OR_RETURN(const ShapeHandle both, FeaturesAndLabels(c));
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

Status FusedBatchNormShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const int axis, NormChannelAxis(c));
  MR_ASSIGN_OR_RETURN(const bool training, c.Attr<bool>("is_training"));
  MR_ASSIGN_OR_RETURN(const ShapeHandle x, c.WithRank(c.input(0), 4));
  DimHandle channels = c.Dim(x, axis);
  // The estimates are inputs only for inference.
  for (int i = 1; i < (training ? 3 : 5); ++i) {
    MR_ASSIGN_OR_RETURN(const ShapeHandle vector, c.WithRank(c.input(i), 1));
    MR_ASSIGN_OR_RETURN(channels, c.Merge(channels, c.Dim(vector, 0)));
  }
  MR_ASSIGN_OR_RETURN(const ShapeHandle y, c.ReplaceDim(x, axis, channels));
  c.set_output(0, y);
  for (int i = 1; i < 5; ++i) c.set_output(i, c.Vector(channels));
  if (c.num_outputs() > 5) c.set_output(5, c.UnknownShape());
  return Status::Ok();
}

Status FusedBatchNormGradShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const int axis, NormChannelAxis(c));
  MR_ASSIGN_OR_RETURN(const ShapeHandle dy, c.WithRank(c.input(0), 4));
  MR_ASSIGN_OR_RETURN(const ShapeHandle x, c.WithRank(c.input(1), 4));
  MR_ASSIGN_OR_RETURN(DimHandle channels, c.Merge(c.Dim(dy, axis), c.Dim(x, axis)));
  for (int i = 2; i < 5; ++i) {
    MR_ASSIGN_OR_RETURN(const ShapeHandle vector, c.WithRank(c.input(i), 1));
    MR_ASSIGN_OR_RETURN(channels, c.Merge(channels, c.Dim(vector, 0)));
  }
  MR_ASSIGN_OR_RETURN(const ShapeHandle dx, c.ReplaceDim(dy, axis, channels));
  c.set_output(0, dx);
  c.set_output(1, c.Vector(channels));
  c.set_output(2, c.Vector(channels));
  MR_ASSIGN_OR_RETURN(const bool training, c.Attr<bool>("is_training"));
  for (const int i : {3, 4}) c.set_output(i, c.Vector(training ? c.MakeDim(0) : channels));
  return Status::Ok();
}

Status GlobalNormalizationShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle t, c.WithRank(c.input(0), 4));
  DimHandle channels = c.Dim(t, 3);
  for (int i = 1; i < 5; ++i) {
    MR_ASSIGN_OR_RETURN(const ShapeHandle vector, c.WithRank(c.input(i), 1));
    MR_ASSIGN_OR_RETURN(channels, c.Merge(channels, c.Dim(vector, 0)));
  }
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.ReplaceDim(t, 3, channels));
  c.set_output(0, out);
  return Status::Ok();
}

Status Conv2DBackpropInputShape(InferenceContext& c) { return ImageShapeFromInput(c, 0); }

Status Conv2DBackpropFilterShape(InferenceContext& c) { return ImageShapeFromInput(c, 1); }

Status AvgPoolGradShape(InferenceContext& c) { return ImageShapeFromInput(c, 0); }

Status MaxPoolGradShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.WithRank(c.input(0), 4));
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
  MR_ASSIGN_OR_RETURN(const ShapeHandle input, c.WithRankAtLeast(c.input(0), 1));
  MR_ASSIGN_OR_RETURN(const int64_t k, c.Attr<int64_t>("k"));
  if (k < 0) return errors::InvalidArgument("Need k >= 0, got ", k);
  return SetTopKOutputs(c, input, c.MakeDim(k));
}

Status TopKV2Shape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle input, c.WithRankAtLeast(c.input(0), 1));
  MR_ASSIGN_OR_RETURN(const DimHandle k, c.MakeDimFromScalarInput(1));
  return SetTopKOutputs(c, input, k);
}

}  // namespace millrace::ops
