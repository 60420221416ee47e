// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/nn/volume_shapes.h"

#include <cmath>

namespace millrace::ops {
namespace {

// The dimensions of the sides and the channels of a batch of volumes.
struct VolumeLayout {
  int first_side = 1;
  int channel = 4;
};
StatusOr<VolumeLayout> LayoutOf(InferenceContext& c) {
  if (c.attrs().Find("data_format") == nullptr) return VolumeLayout{};
  MR_ASSIGN_OR_RETURN(const std::string format, c.Attr<std::string>("data_format"));
  if (format == "NDHWC") return VolumeLayout{};
  if (format == "NCDHW") return VolumeLayout{2, 1};
  return errors::InvalidArgument("Invalid data format string: ", format);
}

StatusOr<std::vector<int64_t>> FiveValues(InferenceContext& c, const char* attr, const char* what) {
  MR_ASSIGN_OR_RETURN(std::vector<int64_t> values, c.Attr<std::vector<int64_t>>(attr));
  if (values.size() != 5) {
    return errors::InvalidArgument(what, " attribute to contain 5 values, but got: ", values.size());
  }
  return values;
}

StatusOr<Padding> PaddingAttr(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const std::string text, c.Attr<std::string>("padding"));
  return ParsePadding(text);
}

// The output of windows along one side; unknown when a size is.
StatusOr<DimHandle> WindowDim(InferenceContext& c, DimHandle in, DimHandle window, int64_t dilation,
                              int64_t stride, Padding padding) {
  if (stride <= 0) return errors::InvalidArgument("Stride must be > 0, but got ", stride);
  if (dilation < 1) return errors::InvalidArgument("Dilation rate must be >= 1, but got ", dilation);
  if (!c.ValueKnown(in) || (!c.ValueKnown(window) && padding == Padding::kValid)) return c.UnknownDim();
  int64_t span = 0;
  if (padding == Padding::kValid && c.Value(window) > 0 &&
      !__builtin_mul_overflow(c.Value(window) - 1, dilation, &span)) {
    MR_RETURN_IF_ERROR(c.Subtract(in, c.MakeDim(span + 1)).status());
  }
  MR_ASSIGN_OR_RETURN(
      const WindowedOutput out,
      GetWindowedOutput(c.Value(in), c.ValueKnown(window) ? c.Value(window) : 1, dilation, stride, padding));
  return c.MakeDim(out.size);
}

Status FromInput(InferenceContext& c, int i, int rank) {
  MR_ASSIGN_OR_RETURN(ShapeHandle out, c.MakeShapeFromInput(i));
  MR_ASSIGN_OR_RETURN(out, c.WithRank(out, rank));
  c.set_output(0, out);
  return Status();
}

Status LikeInput(InferenceContext& c, int i, int rank) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.WithRank(c.input(i), rank));
  c.set_output(0, out);
  return Status();
}

}  // namespace

Status Conv3DShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle input, c.WithRank(c.input(0), 5));
  MR_ASSIGN_OR_RETURN(const ShapeHandle filter, c.WithRank(c.input(1), 5));
  MR_ASSIGN_OR_RETURN(const VolumeLayout layout, LayoutOf(c));
  MR_ASSIGN_OR_RETURN(const auto dilations, FiveValues(c, "dilations", "Conv3D requires the dilation"));
  MR_ASSIGN_OR_RETURN(const auto strides, FiveValues(c, "strides", "Conv3D requires the stride"));
  MR_ASSIGN_OR_RETURN(const Padding padding, PaddingAttr(c));
  MR_RETURN_IF_ERROR(c.Merge(c.Dim(input, layout.channel), c.Dim(filter, 3)).status());
  std::vector<DimHandle> dims(5);
  dims[0] = c.Dim(input, 0);
  dims[static_cast<size_t>(layout.channel)] = c.Dim(filter, 4);
  for (int side = 0; side < 3; ++side) {
    const auto axis = static_cast<size_t>(layout.first_side + side);
    MR_ASSIGN_OR_RETURN(dims[axis], WindowDim(c, c.Dim(input, static_cast<int64_t>(axis)),
                                              c.Dim(filter, side), dilations[axis], strides[axis], padding));
  }
  c.set_output(0, c.MakeShape(dims));
  return Status();
}

Status VolumeLikeFirstShape(InferenceContext& c) { return LikeInput(c, 0, 5); }
Status VolumeLikeSecondShape(InferenceContext& c) { return LikeInput(c, 1, 5); }
Status VolumeFromFirstShape(InferenceContext& c) { return FromInput(c, 0, 5); }
Status VolumeFromSecondShape(InferenceContext& c) { return FromInput(c, 1, 5); }

Status Pool3DShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle input, c.WithRank(c.input(0), 5));
  MR_ASSIGN_OR_RETURN(const VolumeLayout layout, LayoutOf(c));
  MR_ASSIGN_OR_RETURN(const auto strides, FiveValues(c, "strides", "Pool3D ops require the stride"));
  MR_ASSIGN_OR_RETURN(const auto ksize, FiveValues(c, "ksize", "Pool3D requires the ksize"));
  MR_ASSIGN_OR_RETURN(const Padding padding, PaddingAttr(c));
  std::vector<DimHandle> dims(5);
  dims[0] = c.Dim(input, 0);
  dims[static_cast<size_t>(layout.channel)] = c.Dim(input, layout.channel);
  for (int side = 0; side < 3; ++side) {
    const auto axis = static_cast<size_t>(layout.first_side + side);
    if (ksize[axis] <= 0)
      return errors::InvalidArgument("Sliding window ksize must be positive, but got ", ksize[axis]);
    MR_ASSIGN_OR_RETURN(dims[axis], WindowDim(c, c.Dim(input, static_cast<int64_t>(axis)),
                                              c.MakeDim(ksize[axis]), 1, strides[axis], padding));
  }
  c.set_output(0, c.MakeShape(dims));
  return Status();
}

Status MaxPool3DGradShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.Merge(c.input(1), c.input(2)).status());
  return LikeInput(c, 0, 5);
}

Status MaxPool3DGradGradShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(Pool3DShape(c));
  MR_RETURN_IF_ERROR(c.Merge(c.input(0), c.input(2)).status());
  return c.Merge(c.input(1), c.output(0)).status();
}

Status ExtractVolumePatchesShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle input, c.WithRank(c.input(0), 5));
  MR_ASSIGN_OR_RETURN(const auto ksizes, FiveValues(c, "ksizes", "ExtractVolumePatches requires the ksizes"));
  MR_ASSIGN_OR_RETURN(const auto strides,
                      FiveValues(c, "strides", "ExtractVolumePatches requires the stride"));
  MR_ASSIGN_OR_RETURN(const Padding padding, PaddingAttr(c));
  std::vector<DimHandle> dims(5);
  dims[0] = c.Dim(input, 0);
  dims[4] = c.Dim(input, 4);
  for (size_t axis = 1; axis < 4; ++axis) {
    if (ksizes[axis] <= 0) return errors::InvalidArgument("ksizes must be positive, but got ", ksizes[axis]);
    const DimHandle window = c.MakeDim(ksizes[axis]);
    MR_ASSIGN_OR_RETURN(dims[axis], WindowDim(c, c.Dim(input, static_cast<int64_t>(axis)), window, 1,
                                              strides[axis], padding));
    MR_ASSIGN_OR_RETURN(dims[4], c.Multiply(dims[4], window));
  }
  c.set_output(0, c.MakeShape(dims));
  return Status();
}

Status FractionalPoolShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle input, c.WithRank(c.input(0), 4));
  MR_ASSIGN_OR_RETURN(const auto ratios, c.Attr<std::vector<float>>("pooling_ratio"));
  if (ratios.size() != 4) return errors::InvalidArgument("pooling_ratio field must specify 4 dimensions");
  std::vector<DimHandle> dims(4);
  for (size_t i = 0; i < 4; ++i) {
    if (!(ratios[i] >= 1)) return errors::InvalidArgument("pooling_ratio should be >= 1, got ", ratios[i]);
    const DimHandle in = c.Dim(input, static_cast<int64_t>(i));
    dims[i] = c.UnknownDim();
    if (!c.ValueKnown(in)) continue;
    const double size = std::floor(static_cast<double>(c.Value(in)) / static_cast<double>(ratios[i]));
    // Compared as numbers that can't overflow; a value that is not smaller becomes the input's size.
    dims[i] = size < static_cast<double>(c.Value(in)) ? c.MakeDim(static_cast<int64_t>(size)) : in;
  }
  c.set_output(0, c.MakeShape(dims));
  c.set_output(1, c.Vector(c.UnknownDim()));
  c.set_output(2, c.Vector(c.UnknownDim()));
  return Status();
}

Status FractionalMaxPoolGradShape(InferenceContext& c) { return LikeInput(c, 0, 4); }
Status FractionalAvgPoolGradShape(InferenceContext& c) {
  if (c.input_tensor(0) != nullptr) return FromInput(c, 0, 4);
  c.set_output(0, c.UnknownShapeOfRank(4));
  return Status();
}

Status MaxPoolV2Shape(InferenceContext& c) {
  const int at = c.num_inputs() - 2;
  MR_ASSIGN_OR_RETURN(const ShapeHandle input, c.WithRank(c.input(0), 4));
  MR_ASSIGN_OR_RETURN(const std::string format, c.Attr<std::string>("data_format"));
  if (format == "NCHW_VECT_C") return errors::Unimplemented("The data format NCHW_VECT_C is not supported");
  const size_t channel = format == "NCHW" ? 1 : 3, row = format == "NCHW" ? 2 : 1;
  MR_ASSIGN_OR_RETURN(const Padding padding, PaddingAttr(c));
  std::vector<DimHandle> dims = {c.Dim(input, 0), c.UnknownDim(), c.UnknownDim(), c.UnknownDim()};
  dims[channel] = c.Dim(input, static_cast<int64_t>(channel));
  for (int i = at; i < at + 2; ++i) MR_RETURN_IF_ERROR(c.WithRank(c.input(i), 1).status());
  const Tensor *ksize = c.input_tensor(at), *strides = c.input_tensor(at + 1);
  if (ksize != nullptr && strides != nullptr) {
    if (ksize->num_elements() != 4 || strides->num_elements() != 4)
      return errors::InvalidArgument("MaxPool requires ksize and strides of 4 values");
    for (size_t i = row; i < row + 2; ++i) {
      const int64_t window = ksize->data<int32_t>()[i];
      if (window <= 0) return errors::InvalidArgument("Sliding window ksize must be positive, got ", window);
      MR_ASSIGN_OR_RETURN(dims[i], WindowDim(c, c.Dim(input, static_cast<int64_t>(i)), c.MakeDim(window), 1,
                                             strides->data<int32_t>()[i], padding));
    }
  }
  c.set_output(0, c.MakeShape(dims));
  return Status();
}

Status MaxPoolGradV2Shape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.Merge(c.input(1), c.input(2)).status());
  return LikeInput(c, 0, 4);
}

Status MaxPoolGradGradV2Shape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(MaxPoolV2Shape(c));
  MR_RETURN_IF_ERROR(c.Merge(c.input(0), c.input(2)).status());
  return c.Merge(c.input(1), c.output(0)).status();
}

// Inputs: t, m, v, gamma, backprop.
Status GlobalNormalizationGradShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(ShapeHandle input, c.WithRank(c.input(0), 4));
  MR_ASSIGN_OR_RETURN(input, c.Merge(input, c.input(4)));
  DimHandle depth = c.Dim(input, 3);
  for (int i = 1; i < 4; ++i) {
    MR_ASSIGN_OR_RETURN(const ShapeHandle vector, c.WithRank(c.input(i), 1));
    MR_ASSIGN_OR_RETURN(depth, c.Merge(depth, c.Dim(vector, 0)));
  }
  MR_ASSIGN_OR_RETURN(input, c.ReplaceDim(input, 3, depth));
  c.set_output(0, input);
  for (int i = 1; i < 5; ++i) c.set_output(i, c.Vector(depth));
  return Status();
}

}  // namespace millrace::ops
