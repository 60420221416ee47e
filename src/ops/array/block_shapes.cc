// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "ops/nn/spatial_shapes.h"

namespace millrace::ops {
namespace {

using Values = std::optional<std::vector<int64_t>>;

// The known value of an integer input.
StatusOr<Values> ValuesOf(InferenceContext& c, int i) {
  const Tensor* t = c.input_tensor(i);
  if (t == nullptr) return Values();
  MR_ASSIGN_OR_RETURN(std::vector<int64_t> values, IntegerValues(*t));
  return Values(std::move(values));
}

// Subtracts the sums of pairs of numbers from the dimensions of input 0. Where the number of pairs is not
// known, TensorFlow does not infer the rank either.
Status MirrorPadGrad(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle paddings, c.WithRank(c.input(1), 2));
  const DimHandle pairs = c.Dim(paddings, 0);
  if (!c.ValueKnown(pairs) || c.Value(pairs) > TensorShape::kMaxRank) {
    c.set_output(0, c.UnknownShape());
    return Status();
  }
  MR_ASSIGN_OR_RETURN(const ShapeHandle input, c.WithRank(c.input(0), static_cast<int>(c.Value(pairs))));
  MR_RETURN_IF_ERROR(c.Merge(paddings, c.Matrix(pairs, c.MakeDim(2))).status());
  MR_ASSIGN_OR_RETURN(const Values values, ValuesOf(c, 1));
  const int rank = c.Rank(input);
  if (!values.has_value() || values->size() != static_cast<size_t>(rank) * 2) {
    c.set_output(0, c.UnknownShapeOfRank(rank));
    return Status();
  }
  std::vector<DimHandle> dims;
  for (int i = 0; i < rank; ++i) {
    const int64_t before = (*values)[static_cast<size_t>(2 * i)];
    const int64_t after = (*values)[static_cast<size_t>(2 * i + 1)];
    if (before < 0 || after < 0) return errors::InvalidArgument("Paddings must be non-negative");
    MR_ASSIGN_OR_RETURN(const DimHandle sum, c.Add(c.MakeDim(before), c.MakeDim(after)));
    MR_ASSIGN_OR_RETURN(const DimHandle dim, c.Subtract(c.Dim(input, i), sum));
    dims.push_back(dim);
  }
  c.set_output(0, c.MakeShape(dims));
  return Status();
}

// The inputs of the shapes of SpaceToBatch and BatchToSpace.
struct Blocks {
  ShapeHandle input = {};
  int count = -1;       // how many dimensions are cut; -1: not known
  Values sizes = {};    // of blocks
  Values margins = {};  // two numbers for each
};

Status MoveBatch(InferenceContext& c, const Blocks& b, bool to_batch) {
  if (b.count < 0 || !c.RankKnown(b.input)) {
    c.set_output(0, c.RankKnown(b.input) ? c.UnknownShapeOfRank(c.Rank(b.input)) : c.UnknownShape());
    return Status();
  }
  std::vector<DimHandle> dims;
  dims.reserve(static_cast<size_t>(c.Rank(b.input)));
  for (int i = 0; i < c.Rank(b.input); ++i) dims.push_back(c.Dim(b.input, i));
  if (!b.sizes.has_value()) dims[0] = c.UnknownDim();
  for (int i = 0; i < b.count; ++i) {
    DimHandle& dim = dims[static_cast<size_t>(i + 1)];
    if (!b.sizes.has_value()) {
      dim = c.UnknownDim();
      continue;
    }
    const int64_t size = (*b.sizes)[static_cast<size_t>(i)];
    if (size < 1) return errors::InvalidArgument("block_shape must be positive");
    const int64_t first = b.margins.has_value() ? (*b.margins)[static_cast<size_t>(2 * i)] : 0;
    const int64_t last = b.margins.has_value() ? (*b.margins)[static_cast<size_t>(2 * i + 1)] : 0;
    if (first < 0 || last < 0)
      return errors::InvalidArgument(to_batch ? "paddings" : "crops", " cannot be negative");
    if (to_batch) {
      MR_ASSIGN_OR_RETURN(const DimHandle margin, c.Add(c.MakeDim(first), c.MakeDim(last)));
      MR_ASSIGN_OR_RETURN(dims[0], c.Multiply(dims[0], c.MakeDim(size)));
      MR_ASSIGN_OR_RETURN(dim, c.Add(dim, margin));
      if (b.margins.has_value()) {
        MR_ASSIGN_OR_RETURN(dim, c.Divide(dim, size, /*evenly=*/true));
      } else {
        dim = c.UnknownDim();
      }
    } else {
      MR_ASSIGN_OR_RETURN(dims[0], c.Divide(dims[0], size, /*evenly=*/true));
      MR_ASSIGN_OR_RETURN(dim, c.Multiply(dim, c.MakeDim(size)));
      if (b.margins.has_value()) {
        MR_ASSIGN_OR_RETURN(dim, c.Subtract(dim, c.MakeDim(first)));
        MR_ASSIGN_OR_RETURN(dim, c.Subtract(dim, c.MakeDim(last)));
      } else {
        dim = c.UnknownDim();
      }
    }
  }
  c.set_output(0, c.MakeShape(dims));
  return Status();
}

// Input, block_shape, paddings or crops.
Status MoveBatchNd(InferenceContext& c, bool to_batch) {
  Blocks b;
  const ShapeHandle sizes = c.input(1);
  if (c.RankKnown(sizes) && c.Rank(sizes) != 1)
    return errors::InvalidArgument("block_shape must have rank 1.");
  const DimHandle count = c.Dim(sizes, 0);
  b.input = c.input(0);
  if (c.ValueKnown(count)) {
    if (c.Value(count) > 253)
      return errors::InvalidArgument("block_shape has too many values: ", c.Value(count));
    b.count = static_cast<int>(c.Value(count));
    MR_ASSIGN_OR_RETURN(b.input, c.WithRankAtLeast(b.input, b.count + 1));
  }
  MR_ASSIGN_OR_RETURN(b.input, c.WithRankAtLeast(b.input, 1));
  MR_RETURN_IF_ERROR(c.Merge(c.input(2), c.Matrix(count, c.MakeDim(2))).status());
  MR_ASSIGN_OR_RETURN(b.sizes, ValuesOf(c, 1));
  MR_ASSIGN_OR_RETURN(b.margins, ValuesOf(c, 2));
  if (b.sizes.has_value() && b.sizes->size() != static_cast<size_t>(b.count)) b.sizes.reset();
  if (b.margins.has_value() && b.margins->size() != static_cast<size_t>(b.count) * 2) b.margins.reset();
  return MoveBatch(c, b, to_batch);
}

// The same with two dimensions and one size.
Status MoveBatch2d(InferenceContext& c, bool to_batch) {
  Blocks b{.count = 2};
  MR_ASSIGN_OR_RETURN(b.input, c.WithRank(c.input(0), 4));
  MR_RETURN_IF_ERROR(c.Merge(c.input(1), c.Matrix(c.MakeDim(2), c.MakeDim(2))).status());
  MR_ASSIGN_OR_RETURN(const int64_t size, c.Attr<int64_t>("block_size"));
  b.sizes = {size, size};
  MR_ASSIGN_OR_RETURN(b.margins, ValuesOf(c, 1));
  if (b.margins.has_value() && b.margins->size() != 4) b.margins.reset();
  return MoveBatch(c, b, to_batch);
}

Status MoveDepth(InferenceContext& c, bool to_depth) {
  MR_ASSIGN_OR_RETURN(const std::string format, c.Attr<std::string>("data_format"));
  MR_ASSIGN_OR_RETURN(const int64_t size, c.Attr<int64_t>("block_size"));
  const bool vectors = format == "NCHW_VECT_C";
  MR_ASSIGN_OR_RETURN(const ShapeHandle input, c.WithRank(c.input(0), vectors ? 5 : 4));
  const size_t channel = format == "NHWC" ? 3 : 1, row = format == "NHWC" ? 1 : 2;
  std::vector<DimHandle> dims;
  dims.reserve(5);
  for (int i = 0; i < 4; ++i) dims.push_back(c.Dim(input, i));
  if (vectors) dims.push_back(c.MakeDim(4));
  int64_t square = 0;
  if (__builtin_mul_overflow(size, size, &square))
    return errors::InvalidArgument("block_size ", size, " is too large");
  for (const size_t side : {row, row + 1}) {
    MR_ASSIGN_OR_RETURN(dims[side], to_depth ? c.Divide(dims[side], size, /*evenly=*/true)
                                             : c.Multiply(dims[side], c.MakeDim(size)));
  }
  MR_ASSIGN_OR_RETURN(dims[channel], to_depth ? c.Multiply(dims[channel], c.MakeDim(square))
                                              : c.Divide(dims[channel], square, /*evenly=*/true));
  c.set_output(0, c.MakeShape(dims));
  return Status();
}

}  // namespace

Status MirrorPadGradShape(InferenceContext& c) { return MirrorPadGrad(c); }
Status SpaceToBatchNdShape(InferenceContext& c) { return MoveBatchNd(c, true); }
Status BatchToSpaceNdShape(InferenceContext& c) { return MoveBatchNd(c, false); }
Status SpaceToBatchShape(InferenceContext& c) { return MoveBatch2d(c, true); }
Status BatchToSpaceShape(InferenceContext& c) { return MoveBatch2d(c, false); }
Status SpaceToDepthShape(InferenceContext& c) { return MoveDepth(c, true); }
Status DepthToSpaceShape(InferenceContext& c) { return MoveDepth(c, false); }

}  // namespace millrace::ops
