// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/nn/spatial_shapes.h"

#include <limits>

namespace millrace::ops {
namespace {

// The output of windows along one side of an image; unknown when a size is.
StatusOr<DimHandle> WindowDim(InferenceContext& c, DimHandle in, int64_t window, int64_t dilation,
                              int64_t stride, Padding padding) {
  if (!c.ValueKnown(in) || window < 0) return c.UnknownDim();
  int64_t span = 0;
  if (padding == Padding::kValid && window > 0 && !__builtin_mul_overflow(window - 1, dilation, &span)) {
    MR_RETURN_IF_ERROR(c.Subtract(in, c.MakeDim(span + 1)).status());
  }
  MR_ASSIGN_OR_RETURN(const WindowedOutput out,
                      GetWindowedOutput(c.Value(in), window, dilation, stride, padding));
  return c.MakeDim(out.size);
}

std::string_view NameInMessages(const InferenceContext& c) {
  const std::string& op = c.op().name;
  return op.starts_with("Depthwise") ? std::string_view("DepthwiseConv2D") : std::string_view(op);
}

// A list of four values, of which those of batch and depth are 1 and the others positive.
struct Pair {
  int64_t rows, columns;
};
StatusOr<Pair> SpatialPair(InferenceContext& c, const char* attr, bool nchw) {
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> values, c.Attr<std::vector<int64_t>>(attr));
  if (values.size() != 4)
    return errors::InvalidArgument(NameInMessages(c), " requires the ",
                                   std::string_view(attr) == "strides" ? "stride" : attr,
                                   " attribute to contain 4 values, but got: ", values.size());
  const Pair pair{values[nchw ? 2 : 1], values[nchw ? 3 : 2]};
  if (std::string_view(attr) == "strides" && (pair.rows <= 0 || pair.columns <= 0)) {
    return errors::InvalidArgument("Stride must be > 0, but got ", pair.rows <= 0 ? pair.rows : pair.columns);
  }
  if (pair.rows <= 0 || pair.columns <= 0 || pair.rows > INT32_MAX || pair.columns > INT32_MAX) {
    return errors::InvalidArgument("Attr '", attr, "' must be positive, got ", pair.rows, " and ",
                                   pair.columns);
  }
  return pair;
}

StatusOr<Padding> PaddingAttr(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const std::string text, c.Attr<std::string>("padding"));
  return ParsePadding(text);
}

Status ShapeFromVector(InferenceContext& c, int i) {
  MR_ASSIGN_OR_RETURN(ShapeHandle out, c.MakeShapeFromInput(i));
  MR_ASSIGN_OR_RETURN(out, c.WithRank(out, 4));
  c.set_output(0, out);
  return Status();
}

}  // namespace

Status DepthwiseShape(InferenceContext& c) {
  const std::string format = c.Attr<std::string>("data_format").value_or("NHWC");
  const bool nchw = format == "NCHW";
  const int row = nchw ? 2 : 1, channel = nchw ? 1 : 3;
  MR_ASSIGN_OR_RETURN(const ShapeHandle input, c.WithRank(c.input(0), 4));
  MR_ASSIGN_OR_RETURN(const ShapeHandle filter, c.WithRank(c.input(1), 4));
  MR_ASSIGN_OR_RETURN(const Pair strides, SpatialPair(c, "strides", nchw));
  MR_ASSIGN_OR_RETURN(const Pair dilations, SpatialPair(c, "dilations", nchw));
  MR_ASSIGN_OR_RETURN(const Padding padding, PaddingAttr(c));
  MR_ASSIGN_OR_RETURN(const DimHandle depth, c.Merge(c.Dim(input, channel), c.Dim(filter, 2)));
  std::vector<DimHandle> dims(4);
  dims[0] = c.Dim(input, 0);
  MR_ASSIGN_OR_RETURN(dims[channel], c.Multiply(depth, c.Dim(filter, 3)));
  MR_ASSIGN_OR_RETURN(dims[row], WindowDim(c, c.Dim(input, row), c.Value(c.Dim(filter, 0)), dilations.rows,
                                           strides.rows, padding));
  MR_ASSIGN_OR_RETURN(dims[row + 1], WindowDim(c, c.Dim(input, row + 1), c.Value(c.Dim(filter, 1)),
                                               dilations.columns, strides.columns, padding));
  c.set_output(0, c.MakeShape(dims));
  return Status();
}

Status DepthwiseBackpropInputShape(InferenceContext& c) { return ShapeFromVector(c, 0); }
Status DepthwiseBackpropFilterShape(InferenceContext& c) { return ShapeFromVector(c, 1); }

Status DilationShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle input, c.WithRank(c.input(0), 4));
  MR_ASSIGN_OR_RETURN(const ShapeHandle filter, c.WithRank(c.input(1), 3));
  MR_ASSIGN_OR_RETURN(const Pair strides, SpatialPair(c, "strides", false));
  MR_ASSIGN_OR_RETURN(const Pair rates, SpatialPair(c, "rates", false));
  MR_ASSIGN_OR_RETURN(const Padding padding, PaddingAttr(c));
  MR_ASSIGN_OR_RETURN(const DimHandle depth, c.Merge(c.Dim(input, 3), c.Dim(filter, 2)));
  MR_ASSIGN_OR_RETURN(const DimHandle rows, WindowDim(c, c.Dim(input, 1), c.Value(c.Dim(filter, 0)),
                                                      rates.rows, strides.rows, padding));
  MR_ASSIGN_OR_RETURN(const DimHandle columns, WindowDim(c, c.Dim(input, 2), c.Value(c.Dim(filter, 1)),
                                                         rates.columns, strides.columns, padding));
  c.set_output(0, c.MakeShape({c.Dim(input, 0), rows, columns, depth}));
  return Status();
}

Status LikeSecondInputShape(InferenceContext& c) {
  c.set_output(0, c.input(1));
  return Status();
}

Status ResponseNormShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(ShapeHandle shape, c.WithRank(c.input(0), 4));
  for (int i = 1; i < c.num_inputs() && c.op().name == "LRNGrad"; ++i) {
    MR_ASSIGN_OR_RETURN(shape, c.Merge(shape, c.input(i)));
  }
  c.set_output(0, shape);
  return Status();
}

Status MaxPoolWithArgmaxShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(shape_fns::Pool(c));
  for (int i = 1; i < c.num_outputs(); ++i) c.set_output(i, c.output(0));
  return Status();
}

Status MaxPoolGradGradWithArgmaxShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(MaxPoolWithArgmaxShape(c));
  MR_RETURN_IF_ERROR(c.Merge(c.input(0), c.input(1)).status());
  return c.Merge(c.input(2), c.output(0)).status();
}

// Input, then perhaps the size that it is resized to, paddings, filter.
Status FusedPadConvShape(InferenceContext& c) {
  const bool resize = c.num_inputs() == 4;
  const int paddings_at = resize ? 2 : 1;
  MR_ASSIGN_OR_RETURN(const ShapeHandle input, c.WithRank(c.input(0), 4));
  if (resize) MR_RETURN_IF_ERROR(c.Merge(c.input(1), c.Vector(2)).status());
  MR_ASSIGN_OR_RETURN(const ShapeHandle paddings, c.WithRank(c.input(paddings_at), 2));
  if (const int64_t rank = c.Value(c.Dim(paddings, 0)); rank >= 0 && rank <= TensorShape::kMaxRank) {
    MR_RETURN_IF_ERROR(c.WithRank(input, static_cast<int>(rank)).status());
  }
  MR_RETURN_IF_ERROR(c.Merge(paddings, c.Matrix(c.MakeDim(4), c.MakeDim(2))).status());
  MR_ASSIGN_OR_RETURN(const ShapeHandle filter, c.WithRank(c.input(paddings_at + 1), 4));
  MR_ASSIGN_OR_RETURN(const Pair strides, SpatialPair(c, "strides", false));
  MR_ASSIGN_OR_RETURN(const Padding padding, PaddingAttr(c));
  std::vector<DimHandle> dims = {c.Dim(input, 0), c.Dim(input, 1), c.Dim(input, 2), c.Dim(input, 3)};
  if (resize) {
    const Tensor* value = c.input_tensor(1);
    for (int i = 0; i < 2; ++i) {
      dims[1 + i] = c.UnknownDim();
      if (value == nullptr || value->num_elements() != 2) continue;
      const int64_t side = value->data<int32_t>()[i];
      if (side < 0) return errors::InvalidArgument("Size must be non-negative, got ", side);
      dims[1 + i] = c.MakeDim(side);
    }
  }
  const Tensor* value = c.input_tensor(paddings_at);
  for (int i = 0; i < 4; ++i) {
    if (value == nullptr || value->num_elements() != 8) {
      dims[i] = c.UnknownDim();
      continue;
    }
    const int64_t before = value->data<int32_t>()[2 * i], after = value->data<int32_t>()[2 * i + 1];
    if (before < 0 || after < 0)
      return errors::InvalidArgument("Paddings must be non-negative, got ", before, " and ", after);
    MR_ASSIGN_OR_RETURN(dims[i], c.Add(dims[i], c.MakeDim(before + after)));
  }
  MR_RETURN_IF_ERROR(c.Merge(dims[3], c.Dim(filter, 2)).status());
  MR_ASSIGN_OR_RETURN(dims[1], WindowDim(c, dims[1], c.Value(c.Dim(filter, 0)), 1, strides.rows, padding));
  MR_ASSIGN_OR_RETURN(dims[2], WindowDim(c, dims[2], c.Value(c.Dim(filter, 1)), 1, strides.columns, padding));
  dims[3] = c.Dim(filter, 3);
  c.set_output(0, c.MakeShape(dims));
  return Status();
}

Status ExtractPatchesShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle images, c.WithRank(c.input(0), 4));
  MR_ASSIGN_OR_RETURN(const Pair window, SpatialPair(c, "ksizes", false));
  MR_ASSIGN_OR_RETURN(const Pair strides, SpatialPair(c, "strides", false));
  MR_ASSIGN_OR_RETURN(const Pair rates, SpatialPair(c, "rates", false));
  MR_ASSIGN_OR_RETURN(const Padding padding, PaddingAttr(c));
  MR_ASSIGN_OR_RETURN(const DimHandle rows,
                      WindowDim(c, c.Dim(images, 1), window.rows, rates.rows, strides.rows, padding));
  MR_ASSIGN_OR_RETURN(const DimHandle columns, WindowDim(c, c.Dim(images, 2), window.columns, rates.columns,
                                                         strides.columns, padding));
  MR_ASSIGN_OR_RETURN(const DimHandle depth,
                      c.Multiply(c.Dim(images, 3), c.MakeDim(window.rows * window.columns)));
  c.set_output(0, c.MakeShape({c.Dim(images, 0), rows, columns, depth}));
  return Status();
}

}  // namespace millrace::ops
