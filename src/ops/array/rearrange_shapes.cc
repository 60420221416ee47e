// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Shape functions of ops that keep all elements of their inputs, or repeat them, in another arrangement.
#include "ops/array/shapes.h"

namespace millrace::ops {
namespace {

constexpr int kMaxReverseRank = 8;

// The product of the known sizes of a shape, and where its unknown sizes are.
struct Elements {
  DimHandle known;
  int unknowns = 0;
  int unknown_at = -1;  // the last one
};
StatusOr<Elements> CountElements(InferenceContext& c, ShapeHandle shape) {
  Elements e{.known = c.NumElements(shape)};
  if (c.ValueKnown(e.known)) return e;
  e.known = c.MakeDim(1);
  for (int i = 0; i < c.Rank(shape); ++i) {
    if (c.ValueKnown(c.Dim(shape, i))) {
      MR_ASSIGN_OR_RETURN(e.known, c.Multiply(e.known, c.Dim(shape, i)));
    } else {
      ++e.unknowns;
      e.unknown_at = i;
    }
  }
  return e;
}

// The one unknown size of `out` (if any) follows from the number of elements of `in`.
Status FinishReshape(InferenceContext& c, ShapeHandle in, ShapeHandle out) {
  c.set_output(0, out);
  if (!c.RankKnown(in)) return Status::Ok();
  MR_ASSIGN_OR_RETURN(const Elements from, CountElements(c, in));
  MR_ASSIGN_OR_RETURN(const Elements to, CountElements(c, out));
  const int64_t have = c.Value(from.known);
  const int64_t want = c.Value(to.known);
  if (from.unknowns > 1 || to.unknowns > 1) return Status::Ok();
  if (from.unknowns == 0 && to.unknowns == 0) {
    if (have == want) return Status::Ok();
    return errors::InvalidArgument("Cannot reshape a tensor with ", have, " elements to shape ",
                                   c.DebugString(out), " (", want, " elements)");
  }
  DimHandle size;
  if (from.unknowns == 1 && to.unknowns == 1) {
    // When the known sizes of both sides agree, so do the unknown ones: [?,784] to [-1,784].
    if (have != want || have == 0) return Status::Ok();
    size = c.Dim(in, from.unknown_at);
  } else if (to.unknowns == 0) {
    // The value that the unknown size of the input must have.
    return have > 0 ? c.Divide(to.known, have, true).status() : Status::Ok();
  } else {
    // Beside a size of 0 any size is possible; the kernel decides.
    if (want == 0) return Status::Ok();
    MR_ASSIGN_OR_RETURN(size, c.Divide(from.known, want, true));
  }
  MR_ASSIGN_OR_RETURN(out, c.ReplaceDim(out, to.unknown_at, size));
  c.set_output(0, out);
  return Status::Ok();
}

// The position in a shape of `rank` of the dimension that Pack adds or Unpack removes.
StatusOr<int64_t> PackAxis(const InferenceContext& c, int64_t rank) {
  MR_ASSIGN_OR_RETURN(const int64_t axis, c.Attr<int64_t>("axis"));
  if (axis < -rank || axis >= rank) {
    return errors::InvalidArgument("Invalid axis: ", axis, "; must be in [", -rank, ",", rank, ")");
  }
  return axis < 0 ? axis + rank : axis;
}

}  // namespace

Status ReshapeShape(InferenceContext& c) {
  const ShapeHandle in = c.input(0);
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.MakeShapeFromInput(1));
  if (!c.RankKnown(out)) {
    c.set_output(0, out);
    return Status::Ok();
  }
  return FinishReshape(c, in, out);
}

Status ExpandDimsShape(InferenceContext& c) {
  const ShapeHandle input = c.input(0);
  const Tensor* axis_value = c.input_tensor(1);
  if (axis_value != nullptr && axis_value->num_elements() != 1) {
    return errors::InvalidArgument("'dim' input must be a tensor with a single value");
  }
  if (!c.RankKnown(input) || axis_value == nullptr) {
    c.set_output(0, c.UnknownShape());
    return Status::Ok();
  }
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, IntegerValues(*axis_value));
  const int64_t rank = c.Rank(input);
  if (axes[0] < -rank - 1 || axes[0] > rank) {
    return errors::InvalidArgument("dim ", axes[0], " not in the interval [", -rank - 1, ", ", rank, "].");
  }
  const int64_t axis = axes[0] < 0 ? axes[0] + rank + 1 : axes[0];
  MR_ASSIGN_OR_RETURN(const ShapeHandle front, c.Subshape(input, 0, axis));
  MR_ASSIGN_OR_RETURN(const ShapeHandle back, c.Subshape(input, axis));
  MR_ASSIGN_OR_RETURN(ShapeHandle out, c.Concatenate(front, c.Vector(1)));
  MR_ASSIGN_OR_RETURN(out, c.Concatenate(out, back));
  c.set_output(0, out);
  return Status::Ok();
}

Status SqueezeShape(InferenceContext& c) {
  const ShapeHandle input = c.input(0);
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> given, c.Attr<std::vector<int64_t>>("squeeze_dims"));
  if (!c.RankKnown(input)) {
    c.set_output(0, c.UnknownShape());
    return Status::Ok();
  }
  const int rank = c.Rank(input);
  std::vector<bool> squeezed(rank, false);
  for (size_t i = 0; i < given.size(); ++i) {
    const int64_t dim = given[i];
    if (dim < -rank || dim >= rank) {
      return errors::InvalidArgument("squeeze_dims[", i, "] not in [", -rank, ",", rank, ").");
    }
    squeezed[dim < 0 ? dim + rank : dim] = true;
  }
  std::vector<DimHandle> dims;
  for (int i = 0; i < rank; ++i) {
    const DimHandle dim = c.Dim(input, i);
    if (given.empty()) {
      if (!c.ValueKnown(dim)) {
        // The size may be 1, so not even the rank is known.
        c.set_output(0, c.UnknownShape());
        return Status::Ok();
      }
      if (c.Value(dim) != 1) dims.push_back(dim);
    } else if (!squeezed[i]) {
      dims.push_back(dim);
    } else if (c.ValueKnown(dim) && c.Value(dim) != 1) {
      return errors::InvalidArgument("Can not squeeze dim[", i, "], expected a dimension of 1, got ",
                                     c.Value(dim));
    }
  }
  c.set_output(0, c.MakeShape(dims));
  return Status::Ok();
}

Status TransposeShape(InferenceContext& c) {
  const Tensor* value = c.input_tensor(1);
  ShapeHandle input = c.input(0);
  const DimHandle length = c.NumElements(c.input(1));
  if (!c.RankKnown(input) && !c.ValueKnown(length) && value == nullptr) {
    c.set_output(0, c.UnknownShape());
    return Status::Ok();
  }
  const int64_t rank = c.RankKnown(input)     ? c.Rank(input)
                       : c.ValueKnown(length) ? c.Value(length)
                                              : value->num_elements();
  // One entry may also be for a scalar; then both are returned unchanged.
  if (!c.RankKnown(input) && rank < 2) {
    c.set_output(0, input);
    return Status::Ok();
  }
  if (rank > TensorShape::kMaxRank) {
    return errors::InvalidArgument("perm has ", rank, " entries; the largest rank is ",
                                   TensorShape::kMaxRank);
  }
  MR_ASSIGN_OR_RETURN(input, c.WithRank(input, static_cast<int>(rank)));
  MR_RETURN_IF_ERROR(c.WithRank(c.input(1), 1).status());
  MR_RETURN_IF_ERROR(c.WithValue(length, rank).status());
  if (value == nullptr) {
    c.set_output(0, rank <= 1 ? input : c.UnknownShapeOfRank(rank));
    return Status::Ok();
  }
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> order, IntegerValues(*value));
  if (static_cast<int64_t>(order.size()) != rank) {
    return errors::InvalidArgument("Dimension must be ", rank, " but is ", order.size());
  }
  std::vector<DimHandle> dims;
  for (const int64_t from : order) {
    if (from < -rank || from >= rank) {
      return errors::InvalidArgument("perm dim ", from, " is out of range of input rank ", rank);
    }
    dims.push_back(c.Dim(input, from));
  }
  c.set_output(0, c.MakeShape(dims));
  return Status::Ok();
}

Status InvertPermutationShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.WithRank(c.input(0), 1));
  c.set_output(0, out);
  return Status::Ok();
}

Status ConcatOffsetShape(InferenceContext& c) {
  for (int i = 1; i < c.num_inputs(); ++i) c.set_output(i - 1, c.input(i));
  return Status::Ok();
}

Status PackShape(InferenceContext& c) {
  // All inputs have the same shape.
  ShapeHandle common = c.input(c.num_inputs() - 1);
  for (int i = c.num_inputs() - 2; i >= 0; --i) {
    auto merged = c.Merge(c.input(i), common);
    if (!merged.ok()) {
      return merged.status().WithContext(StrCat("\n\tFrom merging shape ", i, " with other shapes."));
    }
    common = *merged;
  }
  if (!c.RankKnown(common)) {
    c.set_output(0, c.UnknownShape());
    return Status::Ok();
  }
  MR_ASSIGN_OR_RETURN(const int64_t axis, PackAxis(c, int64_t{c.Rank(common)} + 1));
  MR_ASSIGN_OR_RETURN(const ShapeHandle front, c.Subshape(common, 0, axis));
  MR_ASSIGN_OR_RETURN(const ShapeHandle back, c.Subshape(common, axis));
  MR_ASSIGN_OR_RETURN(ShapeHandle out, c.Concatenate(front, c.Vector(int64_t{c.num_inputs()})));
  MR_ASSIGN_OR_RETURN(out, c.Concatenate(out, back));
  c.set_output(0, out);
  return Status::Ok();
}

Status UnpackShape(InferenceContext& c) {
  const ShapeHandle input = c.input(0);
  ShapeHandle out = c.UnknownShape();
  if (c.RankKnown(input)) {
    MR_ASSIGN_OR_RETURN(const int64_t axis, PackAxis(c, c.Rank(input)));
    MR_RETURN_IF_ERROR(c.WithValue(c.Dim(input, axis), c.num_outputs()).status());
    std::vector<DimHandle> dims;
    for (int i = 0; i < c.Rank(input); ++i) {
      if (i != axis) dims.push_back(c.Dim(input, i));
    }
    out = c.MakeShape(dims);
  }
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, out);
  return Status::Ok();
}

Status TileShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(ShapeHandle multiples, c.MakeShapeFromInput(1));
  ShapeHandle input = c.input(0);
  if (c.RankKnown(input)) {
    MR_ASSIGN_OR_RETURN(multiples, c.WithRank(multiples, c.Rank(input)));
  }
  if (!c.RankKnown(multiples)) {
    c.set_output(0, c.UnknownShape());
    return Status::Ok();
  }
  MR_ASSIGN_OR_RETURN(input, c.WithRank(input, c.Rank(multiples)));
  std::vector<DimHandle> dims(c.Rank(multiples));
  for (int i = 0; i < c.Rank(multiples); ++i) {
    MR_ASSIGN_OR_RETURN(dims[i], c.Multiply(c.Dim(input, i), c.Dim(multiples, i)));
  }
  c.set_output(0, c.MakeShape(dims));
  return Status::Ok();
}

Status TileGradShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle multiples, c.WithRank(c.input(1), 1));
  ShapeHandle tiled = c.input(0);
  const DimHandle rank = c.Dim(multiples, 0);
  if (c.ValueKnown(rank) && c.Value(rank) <= TensorShape::kMaxRank) {
    MR_ASSIGN_OR_RETURN(tiled, c.WithRank(tiled, static_cast<int>(c.Value(rank))));
  }
  c.set_output(0, c.RankKnown(tiled) ? c.UnknownShapeOfRank(c.Rank(tiled)) : c.UnknownShape());
  return Status();
}

Status PadShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle paddings, c.WithRank(c.input(1), 2));
  MR_RETURN_IF_ERROR(c.WithValue(c.Dim(paddings, 1), 2).status());
  ShapeHandle input = c.input(0);
  const DimHandle rows = c.Dim(paddings, 0);
  if (c.ValueKnown(rows)) {
    if (c.Value(rows) > TensorShape::kMaxRank) {
      return errors::InvalidArgument("paddings has ", c.Value(rows), " rows; the largest rank is ",
                                     TensorShape::kMaxRank);
    }
    MR_ASSIGN_OR_RETURN(input, c.WithRank(input, static_cast<int>(c.Value(rows))));
  }
  const Tensor* value = c.input_tensor(1);
  if (!c.RankKnown(input) || value == nullptr) {
    c.set_output(0, c.RankKnown(input) ? c.UnknownShapeOfRank(c.Rank(input)) : c.UnknownShape());
    return Status::Ok();
  }
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> amounts, IntegerValues(*value));
  if (static_cast<int>(amounts.size()) != 2 * c.Rank(input)) {
    return errors::InvalidArgument("paddings has ", amounts.size(), " elements for an input of rank ",
                                   c.Rank(input));
  }
  std::vector<DimHandle> dims(c.Rank(input));
  for (int i = 0; i < c.Rank(input); ++i) {
    const int64_t before = amounts[2 * i];
    const int64_t after = amounts[2 * i + 1];
    if (before < 0 || after < 0) {
      return errors::InvalidArgument("Paddings must be non-negative");
    }
    MR_ASSIGN_OR_RETURN(dims[i], c.Add(c.Dim(input, i), c.MakeDim(before)));
    MR_ASSIGN_OR_RETURN(dims[i], c.Add(dims[i], c.MakeDim(after)));
  }
  c.set_output(0, c.MakeShape(dims));
  return Status::Ok();
}

Status ReverseShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle dims, c.WithRank(c.input(1), 1));
  ShapeHandle input = c.input(0);
  const DimHandle length = c.Dim(dims, 0);
  if (c.ValueKnown(length)) {
    if (c.Value(length) > kMaxReverseRank) {
      return errors::InvalidArgument("reverse does not work on tensors with more than 8 dimensions");
    }
    MR_ASSIGN_OR_RETURN(input, c.WithRank(input, static_cast<int>(c.Value(length))));
  }
  if (c.RankKnown(input) && c.Rank(input) > kMaxReverseRank) {
    return errors::InvalidArgument("reverse does not work on tensors with more than 8 dimensions");
  }
  c.set_output(0, input);
  return Status::Ok();
}

Status ReverseV2Shape(InferenceContext& c) {
  const ShapeHandle input = c.input(0);
  MR_RETURN_IF_ERROR(c.WithRank(c.input(1), 1).status());
  c.set_output(0, input);
  if (!c.RankKnown(input)) return Status::Ok();
  const int rank = c.Rank(input);
  if (rank > kMaxReverseRank) {
    return errors::InvalidArgument("reverse does not work on tensors with more than 8 dimensions");
  }
  const Tensor* value = c.input_tensor(1);
  if (value == nullptr) return Status::Ok();
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, IntegerValues(*value));
  std::vector<bool> seen(rank, false);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
    if (axis < 0 || axis >= rank) {
      return errors::InvalidArgument("'axis'[", i, "] = ", axes[i], " is out of valid range [0, ", rank - 1);
    }
    if (seen[axis]) return errors::InvalidArgument("axis ", axis, " specified more than once.");
    seen[axis] = true;
  }
  return Status::Ok();
}

}  // namespace millrace::ops
