// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/image/shapes.h"

namespace millrace::ops {
namespace {

StatusOr<DimHandle> ChannelsAttr(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const int64_t channels, c.Attr<int64_t>("channels"));
  if (channels < 0) return errors::InvalidArgument("channels must be non-negative, got ", channels);
  return channels == 0 ? c.UnknownDim() : c.MakeDim(channels);
}

// The two sizes that input i gives, a vector of two integers.
struct Plane {
  DimHandle height, width;
};
StatusOr<Plane> PlaneFromInput(InferenceContext& c, int i) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle vector, c.WithRank(c.input(i), 1));
  MR_RETURN_IF_ERROR(c.WithValue(c.Dim(vector, 0), 2).status());
  const Tensor* size = c.input_tensor(i);
  if (size == nullptr) return Plane{c.UnknownDim(), c.UnknownDim()};
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> values, IntegerValues(*size));
  if (values.size() != 2) {
    return errors::InvalidArgument("Shape must be rank 1 with 2 elements but has ", values.size());
  }
  // The kernel refuses negative sizes; here they are unknown.
  return Plane{c.MakeDim(values[0]), c.MakeDim(values[1])};
}

// The boxes, [n, 4] of input `boxes`, with one image number each in the next input.
StatusOr<DimHandle> CheckBoxes(InferenceContext& c, int boxes) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle matrix, c.WithRank(c.input(boxes), 2));
  MR_ASSIGN_OR_RETURN(const ShapeHandle numbers, c.WithRank(c.input(boxes + 1), 1));
  MR_RETURN_IF_ERROR(c.WithValue(c.Dim(matrix, 1), 4).status());
  return c.Merge(c.Dim(matrix, 0), c.Dim(numbers, 0));
}

}  // namespace

Status DecodeImageShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(0), 0).status());
  MR_ASSIGN_OR_RETURN(const DimHandle channels, ChannelsAttr(c));
  c.set_output(0, c.MakeShape({c.UnknownDim(), c.UnknownDim(), channels}));
  return Status();
}

Status DecodeAndCropShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(0), 0).status());
  MR_ASSIGN_OR_RETURN(const DimHandle channels, ChannelsAttr(c));
  MR_ASSIGN_OR_RETURN(const ShapeHandle window, c.WithRank(c.input(1), 1));
  MR_RETURN_IF_ERROR(c.WithValue(c.Dim(window, 0), 4).status());
  DimHandle height = c.UnknownDim(), width = c.UnknownDim();
  if (const Tensor* value = c.input_tensor(1); value != nullptr) {
    MR_ASSIGN_OR_RETURN(const std::vector<int64_t> values, IntegerValues(*value));
    if (values.size() == 4 && values[2] >= 0 && values[3] >= 0) {
      height = c.MakeDim(values[2]);
      width = c.MakeDim(values[3]);
    }
  }
  c.set_output(0, c.MakeShape({height, width, channels}));
  return Status();
}

Status DecodeGifShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(0), 0).status());
  c.set_output(0, c.MakeShape({c.UnknownDim(), c.UnknownDim(), c.UnknownDim(), c.MakeDim(3)}));
  return Status();
}

Status JpegShapeShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(0), 0).status());
  c.set_output(0, c.Vector(3));
  return Status();
}

Status EncodeImageShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(0), 3).status());
  c.set_output(0, c.Scalar());
  return Status();
}

Status EncodeWithQualityShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(1), 0).status());
  return EncodeImageShape(c);
}

Status ResizeShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle images, c.WithRank(c.input(0), 4));
  MR_ASSIGN_OR_RETURN(const Plane plane, PlaneFromInput(c, 1));
  c.set_output(0, c.MakeShape({c.Dim(images, 0), plane.height, plane.width, c.Dim(images, 3)}));
  return Status();
}

Status ResizeGradientShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle images, c.WithRank(c.input(1), 4));
  c.set_output(0, images);
  return Status();
}

Status CropAndResizeShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle images, c.WithRank(c.input(0), 4));
  MR_ASSIGN_OR_RETURN(const DimHandle boxes, CheckBoxes(c, 1));
  MR_ASSIGN_OR_RETURN(const Plane plane, PlaneFromInput(c, 3));
  c.set_output(0, c.MakeShape({boxes, plane.height, plane.width, c.Dim(images, 3)}));
  return Status();
}

Status CropGradBoxesShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle boxes, c.WithRank(c.input(2), 2));
  c.set_output(0, boxes);
  return Status();
}

Status CropGradImageShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(ShapeHandle image, c.MakeShapeFromInput(3));
  MR_ASSIGN_OR_RETURN(image, c.WithRank(image, 4));
  c.set_output(0, image);
  return Status();
}

Status ExtractGlimpseShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle images, c.WithRank(c.input(0), 4));
  MR_ASSIGN_OR_RETURN(const ShapeHandle offsets, c.WithRank(c.input(2), 2));
  MR_RETURN_IF_ERROR(c.WithValue(c.Dim(offsets, 1), 2).status());
  MR_ASSIGN_OR_RETURN(const DimHandle batch, c.Merge(c.Dim(images, 0), c.Dim(offsets, 0)));
  MR_ASSIGN_OR_RETURN(const Plane plane, PlaneFromInput(c, 1));
  c.set_output(0, c.MakeShape({batch, plane.height, plane.width, c.Dim(images, 3)}));
  return Status();
}

Status RandomCropShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle image, c.WithRank(c.input(0), 3));
  MR_ASSIGN_OR_RETURN(const Plane plane, PlaneFromInput(c, 1));
  c.set_output(0, c.MakeShape({plane.height, plane.width, c.Dim(image, 2)}));
  return Status();
}

Status UnchangedImagesShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle images, c.WithRankAtLeast(c.input(0), 3));
  c.set_output(0, images);
  return Status();
}

Status DrawBoxesV2Shape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(1), 3).status());
  MR_RETURN_IF_ERROR(c.WithRank(c.input(2), 2).status());
  return UnchangedImagesShape(c);
}

Status SampleBoxShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle size, c.WithRank(c.input(0), 1));
  MR_RETURN_IF_ERROR(c.WithValue(c.Dim(size, 0), 3).status());
  MR_ASSIGN_OR_RETURN(const ShapeHandle boxes, c.WithRank(c.input(1), 3));
  MR_RETURN_IF_ERROR(c.WithValue(c.Dim(boxes, 2), 4).status());
  if (c.num_inputs() > 2) MR_RETURN_IF_ERROR(c.WithRank(c.input(2), 0).status());
  c.set_output(0, c.Vector(3));
  c.set_output(1, c.Vector(3));
  c.set_output(2, c.MakeShape({c.MakeDim(1), c.MakeDim(1), c.MakeDim(4)}));
  return Status();
}

Status SuppressionShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle boxes, c.WithRank(c.input(0), 2));
  MR_ASSIGN_OR_RETURN(const ShapeHandle scores, c.WithRank(c.input(1), 1));
  for (int i = 2; i < c.num_inputs(); ++i) MR_RETURN_IF_ERROR(c.WithRank(c.input(i), 0).status());
  MR_RETURN_IF_ERROR(c.Merge(c.Dim(boxes, 0), c.Dim(scores, 0)).status());
  MR_RETURN_IF_ERROR(c.WithValue(c.Dim(boxes, 1), 4).status());
  DimHandle selected = c.UnknownDim();
  if (const StatusOr<bool> padded = c.Attr<bool>("pad_to_max_output_size"); padded.ok() && *padded) {
    MR_ASSIGN_OR_RETURN(selected, c.MakeDimFromScalarInput(2));
  }
  const int outputs = c.num_outputs();
  c.set_output(0, c.Vector(selected));
  if (outputs == 3) c.set_output(1, c.Vector(selected));
  if (outputs > 1) c.set_output(outputs - 1, c.Scalar());
  return Status();
}

Status SuppressionWithOverlapsShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle overlaps, c.WithRank(c.input(0), 2));
  MR_ASSIGN_OR_RETURN(const ShapeHandle scores, c.WithRank(c.input(1), 1));
  for (int i = 2; i < c.num_inputs(); ++i) MR_RETURN_IF_ERROR(c.WithRank(c.input(i), 0).status());
  MR_ASSIGN_OR_RETURN(const DimHandle boxes, c.Merge(c.Dim(overlaps, 0), c.Dim(scores, 0)));
  MR_RETURN_IF_ERROR(c.Merge(boxes, c.Dim(overlaps, 1)).status());
  c.set_output(0, c.Vector(c.UnknownDim()));
  return Status();
}

// Inputs: boxes, scores, max_output_size_per_class, max_total_size and two thresholds.
Status CombinedSuppressionShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle boxes, c.WithRank(c.input(0), 4));
  MR_ASSIGN_OR_RETURN(const ShapeHandle scores, c.WithRank(c.input(1), 3));
  for (int i = 2; i < 6; ++i) MR_RETURN_IF_ERROR(c.WithRank(c.input(i), 0).status());
  MR_ASSIGN_OR_RETURN(const DimHandle batch, c.Merge(c.Dim(boxes, 0), c.Dim(scores, 0)));
  MR_RETURN_IF_ERROR(c.Merge(c.Dim(boxes, 1), c.Dim(scores, 1)).status());
  MR_RETURN_IF_ERROR(c.WithValue(c.Dim(boxes, 3), 4).status());
  const DimHandle choices = c.Dim(boxes, 2), classes = c.Dim(scores, 2);
  if (c.ValueKnown(choices) && c.Value(choices) != 1) MR_RETURN_IF_ERROR(c.Merge(choices, classes).status());
  MR_ASSIGN_OR_RETURN(DimHandle detections, c.MakeDimFromScalarInput(3));
  MR_ASSIGN_OR_RETURN(const bool per_class, c.Attr<bool>("pad_per_class"));
  if (per_class) {
    MR_ASSIGN_OR_RETURN(const DimHandle most, c.MakeDimFromScalarInput(2));
    const bool known = c.ValueKnown(most) && c.ValueKnown(classes) && c.ValueKnown(detections);
    int64_t all = 0;
    if (!known) {
      detections = c.UnknownDim();
    } else if (!__builtin_mul_overflow(c.Value(most), c.Value(classes), &all) && all < c.Value(detections)) {
      detections = c.MakeDim(all);
    }
  }
  c.set_output(0, c.MakeShape({batch, detections, c.MakeDim(4)}));
  c.set_output(1, c.Matrix(batch, detections));
  c.set_output(2, c.Matrix(batch, detections));
  c.set_output(3, c.Vector(batch));
  return Status();
}

Status ScaleAndTranslateShape(InferenceContext& c) {
  for (const int i : {2, 3}) {
    MR_ASSIGN_OR_RETURN(const ShapeHandle vector, c.WithRank(c.input(i), 1));
    MR_RETURN_IF_ERROR(c.WithValue(c.Dim(vector, 0), 2).status());
  }
  return ResizeShape(c);
}

Status AdjustmentShape(InferenceContext& c) {
  for (int i = 1; i < c.num_inputs(); ++i) MR_RETURN_IF_ERROR(c.WithRank(c.input(i), 0).status());
  return UnchangedImagesShape(c);
}

Status ColorSpaceShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle images, c.WithRankAtLeast(c.input(0), 1));
  MR_ASSIGN_OR_RETURN(const DimHandle channels, c.WithValue(c.Dim(images, -1), 3));
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.ReplaceDim(images, -1, channels));
  c.set_output(0, out);
  return Status();
}

}  // namespace millrace::ops
