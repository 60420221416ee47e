// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Comparisons as bits.
#include "ops/family.h"

namespace millrace::ops {
namespace {

Status BitpackShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle in, c.WithRankAtLeast(c.input(0), 1));
  MR_RETURN_IF_ERROR(c.WithRank(c.input(1), 0).status());
  if (!c.RankKnown(in)) return Status();
  MR_ASSIGN_OR_RETURN(const DimHandle bytes, c.Divide(c.Dim(in, -1), 8, true));
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, c.ReplaceDim(in, -1, bytes));
  c.set_output(0, out);
  return Status();
}

std::vector<OpBuilder> Packing() {
  return {
      OpBuilder("CompareAndBitpack: Whether elements are above a threshold, eight of them in a byte.")
          .NotDifferentiable()
          .Input("input: T")
          .Input("threshold: T")
          .Output("output: uint8")
          .Attr("T: {bool, half, float, double, int8, int16, int32, int64}")
          .Shape(BitpackShape),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterBitpackOps(OpRegistry& registry) { return ops::RegisterEach(registry, ops::Packing()); }

}  // namespace millrace
