// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Shape functions that ops of several families share.
#include <algorithm>
#include <set>

#include "op/shape_inference.h"

namespace millrace {
namespace {

// Size of one dimension of a broadcast.
StatusOr<DimHandle> BroadcastDim(InferenceContext& c, DimHandle x, DimHandle y) {
  if (x.SameAs(y)) return x;
  if (c.ValueKnown(x) && c.ValueKnown(y)) {
    if (c.Value(x) == 1) return y;
    if (c.Value(y) == 1) return x;
    return c.Merge(x, y);
  }
  // One is unknown: a known size other than 1 wins, because the other can only be equal or 1; a known
  // 1 gives the other, even if it is unknown. Beside a size of 0 the result is unknown, as in
  // TensorFlow.
  if (c.ValueKnown(x) && c.Value(x) != 0) return c.Value(x) == 1 ? y : x;
  if (c.ValueKnown(y) && c.Value(y) != 0) return c.Value(y) == 1 ? x : y;
  return c.UnknownDim();
}

// Positions of the batch, the channels and the two spatial dimensions.
struct ImageLayout {
  int batch = 0;
  int rows = 1;
  int cols = 2;
  int channels = 3;
};

StatusOr<ImageLayout> LayoutOf(const InferenceContext& c) {
  const auto format = c.Attr<std::string>("data_format");
  if (!format.ok() || *format == "NHWC") return ImageLayout{};
  if (*format == "NCHW") return ImageLayout{.batch = 0, .rows = 2, .cols = 3, .channels = 1};
  return errors::InvalidArgument("Invalid data format string: ", *format);
}

// `called`: the name of the attribute in TensorFlow's message.
StatusOr<std::vector<int64_t>> FourEntries(const InferenceContext& c, std::string_view attr,
                                           std::string_view who, std::string_view called) {
  MR_ASSIGN_OR_RETURN(std::vector<int64_t> list, c.Attr<std::vector<int64_t>>(attr));
  if (list.size() != 4) {
    return errors::InvalidArgument(who, " requires the ", called,
                                   " attribute to contain 4 values, but got: ", list.size());
  }
  return list;
}

// `margin`: what explicit padding adds to the input.
StatusOr<DimHandle> WindowedDim(InferenceContext& c, DimHandle input, DimHandle window, int64_t stride,
                                Padding padding, int64_t dilation = 1, int64_t margin = 0) {
  // SAME does not look at the window.
  const bool window_known = c.ValueKnown(window) || padding == Padding::kSame;
  const int64_t size = c.ValueKnown(window) ? c.Value(window) : 1;
  if (stride <= 0) return errors::InvalidArgument("Stride must be > 0, but got ", stride);
  if (dilation < 1) return errors::InvalidArgument("Dilation rate must be >= 1, but got ", dilation);
  const bool known = c.ValueKnown(input) && window_known;
  if (known && c.Value(input) > INT64_MAX - margin) {
    return errors::InvalidArgument("An image of size ", c.Value(input), " cannot have margins");
  }
  if (known && padding == Padding::kValid && size > 0) {
    int64_t span = 0;
    if (__builtin_mul_overflow(size - 1, dilation, &span)) {
      return errors::InvalidArgument("Window of ", size, " with dilation ", dilation, " is too large");
    }
    MR_RETURN_IF_ERROR(c.Subtract(c.MakeDim(c.Value(input) + margin), c.MakeDim(span + 1)).status());
  }
  if (stride == 1 && margin == 0 && window_known && (padding == Padding::kSame || size == 1)) return input;
  if (!known) return c.UnknownDim();
  MR_ASSIGN_OR_RETURN(const WindowedOutput out,
                      GetWindowedOutput(c.Value(input) + margin, size, dilation, stride, padding));
  return c.MakeDim(out.size);
}

ShapeHandle MakeImageShape(InferenceContext& c, const ImageLayout& layout, DimHandle batch, DimHandle rows,
                           DimHandle cols, DimHandle channels) {
  std::vector<DimHandle> dims(4);
  dims[layout.batch] = batch;
  dims[layout.rows] = rows;
  dims[layout.cols] = cols;
  dims[layout.channels] = channels;
  return c.MakeShape(dims);
}

// Checks the axes in `value` against `rank` and adds them, made positive, to `axes`.
Status CollectAxes(const Tensor& value, int rank, std::set<int64_t>* axes) {
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> indices, IntegerValues(value));
  for (const int64_t index : indices) {
    if (index < -rank || index >= rank) {
      return errors::InvalidArgument("Invalid reduction dimension ", index, " for input with ", rank,
                                     " dimensions.");
    }
    axes->insert(index < 0 ? index + rank : index);
  }
  return Status::Ok();
}

// Concatenation of inputs [begin, end) along the axis in input `dim_input`.
Status ConcatRange(InferenceContext& c, int begin, int end, int dim_input) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(dim_input), 0).status());
  const Tensor* axis_value = c.input_tensor(dim_input);
  if (axis_value == nullptr) {
    // Only the rank is known: all inputs share it.
    int rank = InferenceContext::kUnknownRank;
    for (int i = begin; i < end && rank < 0; ++i) rank = c.Rank(c.input(i));
    if (rank == 0) return errors::InvalidArgument("Can't concatenate scalars (use tf.stack instead)");
    for (int i = begin; i < end && rank > 0; ++i) MR_RETURN_IF_ERROR(c.WithRank(c.input(i), rank).status());
    c.set_output(0, c.UnknownShapeOfRank(rank));
    return Status::Ok();
  }
  if (axis_value->num_elements() != 1) return errors::InvalidArgument("Concat dimension must be a scalar");
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> axis_values, IntegerValues(*axis_value));
  const int64_t axis = axis_values[0];
  if (axis < -TensorShape::kMaxRank || axis >= TensorShape::kMaxRank) {
    return errors::InvalidArgument("Concat dimension ", axis, " is out of range");
  }
  const int min_rank = static_cast<int>(axis < 0 ? -axis : axis + 1);

  ShapeHandle before = c.UnknownShape();
  ShapeHandle after = c.UnknownShape();
  DimHandle middle = c.MakeDim(0);
  // From the last to the first, as the messages of TensorFlow have it.
  for (int i = end - 1; i >= begin; --i) {
    ShapeHandle input = c.input(i);
    MR_ASSIGN_OR_RETURN(input, c.WithRankAtLeast(input, min_rank));
    // For an input of unknown rank the part before a negative axis or after a positive one is unknown.
    MR_ASSIGN_OR_RETURN(const ShapeHandle head, c.Subshape(input, 0, axis));
    ShapeHandle tail = c.Scalar();
    if (axis != -1) {
      MR_ASSIGN_OR_RETURN(tail, c.Subshape(input, axis + 1));
    }
    MR_ASSIGN_OR_RETURN(before, c.Merge(head, before));
    MR_ASSIGN_OR_RETURN(middle, c.Add(middle, c.Dim(input, axis)));
    MR_ASSIGN_OR_RETURN(after, c.Merge(tail, after));
  }
  MR_ASSIGN_OR_RETURN(ShapeHandle out, c.Concatenate(before, c.Vector(middle)));
  MR_ASSIGN_OR_RETURN(out, c.Concatenate(out, after));
  c.set_output(0, out);
  return Status::Ok();
}

}  // namespace

StatusOr<ShapeHandle> Broadcast(InferenceContext& c, ShapeHandle a, ShapeHandle b) {
  if (!c.RankKnown(a) || !c.RankKnown(b)) return c.UnknownShape();
  if (a.SameAs(b)) return a;
  const int rank = std::max(c.Rank(a), c.Rank(b));
  std::vector<DimHandle> dims(rank);
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - c.Rank(a));
    const int ib = i - (rank - c.Rank(b));
    if (ia < 0) {
      dims[i] = c.Dim(b, ib);
    } else if (ib < 0) {
      dims[i] = c.Dim(a, ia);
    } else {
      MR_ASSIGN_OR_RETURN(dims[i], BroadcastDim(c, c.Dim(a, ia), c.Dim(b, ib)));
    }
  }
  return c.MakeShape(dims);
}

namespace shape_fns {

Status Unchanged(InferenceContext& c) {
  c.set_output(0, c.input(0));
  return Status::Ok();
}

Status Unknown(InferenceContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, c.UnknownShape());
  return Status::Ok();
}

Status Scalar(InferenceContext& c) {
  c.set_output(0, c.Scalar());
  return Status::Ok();
}

Status NoOutputs(InferenceContext&) { return Status::Ok(); }

Status BroadcastBinary(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, Broadcast(c, c.input(0), c.input(1)));
  c.set_output(0, out);
  return Status::Ok();
}

Status MergeBothInputs(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.Merge(c.input(0), c.input(1)));
  c.set_output(0, out);
  return Status::Ok();
}

Status Explicit(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const PartialShape shape, c.Attr<PartialShape>("shape"));
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.MakeShapeFromPartial(shape));
  c.set_output(0, out);
  return Status::Ok();
}

Status Reduction(InferenceContext& c) {
  const ShapeHandle input = c.input(0);
  MR_RETURN_IF_ERROR(c.WithRankAtMost(c.input(1), 1).status());
  const auto keep_attr = c.Attr<bool>("keep_dims");
  const bool keep_dims = keep_attr.ok() && *keep_attr;
  const Tensor* indices = c.input_tensor(1);
  if (!c.RankKnown(input) || indices == nullptr) {
    const bool rank_stays = keep_dims && c.RankKnown(input);
    c.set_output(0, rank_stays ? c.UnknownShapeOfRank(c.Rank(input)) : c.UnknownShape());
    return Status::Ok();
  }
  std::set<int64_t> axes;
  MR_RETURN_IF_ERROR(CollectAxes(*indices, c.Rank(input), &axes));
  std::vector<DimHandle> dims;
  for (int i = 0; i < c.Rank(input); ++i) {
    if (!axes.contains(i)) {
      dims.push_back(c.Dim(input, i));
    } else if (keep_dims) {
      dims.push_back(c.MakeDim(1));
    }
  }
  c.set_output(0, c.MakeShape(dims));
  return Status::Ok();
}

Status MatMul(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle a, c.WithRank(c.input(0), 2));
  MR_ASSIGN_OR_RETURN(const ShapeHandle b, c.WithRank(c.input(1), 2));
  MR_ASSIGN_OR_RETURN(const bool transpose_a, c.Attr<bool>("transpose_a"));
  MR_ASSIGN_OR_RETURN(const bool transpose_b, c.Attr<bool>("transpose_b"));
  MR_RETURN_IF_ERROR(c.Merge(c.Dim(a, transpose_a ? 0 : 1), c.Dim(b, transpose_b ? 1 : 0)).status());
  c.set_output(0, c.Matrix(c.Dim(a, transpose_a ? 1 : 0), c.Dim(b, transpose_b ? 0 : 1)));
  return Status::Ok();
}

namespace {
// The dimension of the channels of BiasAdd's input: -1 (last), or 1 for NCHW.
int BiasChannelAxis(const InferenceContext& c) {
  const auto format = c.Attr<std::string>("data_format");
  return format.ok() && *format == "NCHW" ? 1 : -1;
}
}  // namespace

Status BiasAdd(InferenceContext& c) {
  const int axis = BiasChannelAxis(c);
  MR_ASSIGN_OR_RETURN(const ShapeHandle input, c.WithRankAtLeast(c.input(0), axis == -1 ? 2 : 3));
  MR_ASSIGN_OR_RETURN(const ShapeHandle bias, c.WithRank(c.input(1), 1));
  if (!c.RankKnown(input)) {
    c.set_output(0, c.UnknownShape());
    return Status::Ok();
  }
  MR_ASSIGN_OR_RETURN(const DimHandle channels, c.Merge(c.Dim(input, axis), c.Dim(bias, 0)));
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.ReplaceDim(input, axis, channels));
  c.set_output(0, out);
  return Status::Ok();
}

Status BiasAddGrad(InferenceContext& c) {
  const int axis = BiasChannelAxis(c);
  MR_ASSIGN_OR_RETURN(const ShapeHandle input, c.WithRankAtLeast(c.input(0), axis == -1 ? 2 : 3));
  c.set_output(0, c.Vector(c.Dim(input, axis)));
  return Status::Ok();
}

namespace {

// The two margins together of each dimension of the image; none unless the padding is explicit.
StatusOr<std::vector<int64_t>> ExplicitMargins(const InferenceContext& c, const ImageLayout& layout,
                                               Padding padding) {
  const auto list = c.Attr<std::vector<int64_t>>("explicit_paddings");
  const std::vector<int64_t> given = list.ok() ? *list : std::vector<int64_t>();
  std::vector<int64_t> margins(4, 0);
  if (padding != Padding::kExplicit) {
    if (given.empty()) return margins;
    return errors::InvalidArgument(
        "explicit_paddings attribute must be empty if the padding attribute is not EXPLICIT");
  }
  if (given.size() != 8) {
    return errors::InvalidArgument("explicit_paddings attribute must contain 8 values, but got: ",
                                   given.size());
  }
  constexpr int64_t kMaxMargin = int64_t{1} << 30;
  for (size_t i = 0; i < 8; ++i) {
    if (given[i] < 0) return errors::InvalidArgument("All elements of explicit_paddings must be nonnegative");
    if (given[i] > kMaxMargin)
      return errors::InvalidArgument("explicit_paddings[", i, "] = ", given[i], " is too large");
    margins[i / 2] += given[i];
  }
  if (margins[static_cast<size_t>(layout.batch)] != 0 || margins[static_cast<size_t>(layout.channels)] != 0) {
    return errors::InvalidArgument(
        "Nonzero explicit padding in the batch or depth dimensions is not supported");
  }
  return margins;
}

// The depth of the images, the sum of the depths of the groups, and that of the filters. More than one group
// would be a grouped convolution, which the kernel refuses.
Status CheckDepths(const InferenceContext& c, DimHandle depth, ShapeHandle filter) {
  const DimHandle filter_depth = c.Dim(filter, 2);
  if (!c.ValueKnown(depth) || !c.ValueKnown(filter_depth)) return Status::Ok();
  const int64_t have = c.Value(depth), wanted = c.Value(filter_depth);
  if (wanted == 0 ? have != 0 : have % wanted != 0) {
    return errors::InvalidArgument("Depth of input (", have, ") is not a multiple of input depth of filter (",
                                   wanted, ")");
  }
  const int64_t groups = wanted == 0 ? 0 : have / wanted;
  const int64_t out = c.Value(c.Dim(filter, 3));
  if (groups > 1 && out >= 0 && out % groups != 0) {
    return errors::InvalidArgument("Depth of output (", out, ") is not a multiple of the number of groups (",
                                   groups, ")");
  }
  return Status::Ok();
}

}  // namespace

Status Conv2D(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ImageLayout layout, LayoutOf(c));
  MR_ASSIGN_OR_RETURN(const ShapeHandle input, c.WithRank(c.input(0), 4));
  MR_ASSIGN_OR_RETURN(const ShapeHandle filter, c.WithRank(c.input(1), 4));
  std::vector<int64_t> dilations(4, 1);
  if (c.Attr<std::vector<int64_t>>("dilations").ok()) {
    MR_ASSIGN_OR_RETURN(dilations, FourEntries(c, "dilations", c.op().name, "dilation"));
  }
  const std::string who = StrCat(c.op().name, " on data format ", layout.channels == 3 ? "NHWC" : "NCHW");
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> strides, FourEntries(c, "strides", who, "stride"));
  MR_RETURN_IF_ERROR(CheckDepths(c, c.Dim(input, layout.channels), filter));
  MR_ASSIGN_OR_RETURN(const std::string padding_text, c.Attr<std::string>("padding"));
  MR_ASSIGN_OR_RETURN(Padding padding, ParsePadding(padding_text));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> margins, ExplicitMargins(c, layout, padding));
  if (padding == Padding::kExplicit) padding = Padding::kValid;
  const auto size = [&](int axis, int window) {
    const auto i = static_cast<size_t>(axis);
    return WindowedDim(c, c.Dim(input, axis), c.Dim(filter, window), strides[i], padding, dilations[i],
                       margins[i]);
  };
  MR_ASSIGN_OR_RETURN(const DimHandle rows, size(layout.rows, 0));
  MR_ASSIGN_OR_RETURN(const DimHandle cols, size(layout.cols, 1));
  c.set_output(0, MakeImageShape(c, layout, c.Dim(input, layout.batch), rows, cols, c.Dim(filter, 3)));
  return Status::Ok();
}

Status Pool(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ImageLayout layout, LayoutOf(c));
  MR_ASSIGN_OR_RETURN(const ShapeHandle input, c.WithRank(c.input(0), 4));
  const std::string_view who = c.op().name.starts_with("Avg") ? "AvgPool" : "MaxPool";
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> strides, FourEntries(c, "strides", who, "stride"));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> ksize, FourEntries(c, "ksize", who, "ksize"));
  MR_ASSIGN_OR_RETURN(const std::string padding_text, c.Attr<std::string>("padding"));
  MR_ASSIGN_OR_RETURN(const Padding padding, ParsePadding(padding_text));
  std::vector<DimHandle> dims(4);
  for (const int i : {layout.rows, layout.cols, layout.channels}) {
    if (i == layout.channels && who == "AvgPool") {  // windows over channels are refused by the kernel
      dims[i] = c.Dim(input, i);
      continue;
    }
    if (ksize[i] <= 0) {  // the kernel refuses it
      dims[i] = c.UnknownDim();
      continue;
    }
    MR_ASSIGN_OR_RETURN(dims[i], WindowedDim(c, c.Dim(input, i), c.MakeDim(ksize[i]), strides[i], padding));
  }
  dims[layout.batch] = c.Dim(input, layout.batch);
  c.set_output(0, c.MakeShape(dims));
  return Status::Ok();
}

Status Concat(InferenceContext& c) { return ConcatRange(c, 1, c.num_inputs(), 0); }

Status ConcatV2(InferenceContext& c) { return ConcatRange(c, 0, c.num_inputs() - 1, c.num_inputs() - 1); }

}  // namespace shape_fns
}  // namespace millrace
