// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Rounding in training to what quantised numbers can hold.
#include <string>

#include "ops/family.h"

namespace millrace::ops {
namespace {

// Gradients, inputs, min and max; of the forward ops without the gradients.
Status FakeQuantShape(InferenceContext& c) {
  const bool gradient = c.num_inputs() == 4;
  const bool channels = c.op().name.find("PerChannel") != std::string::npos;
  const int inputs_at = gradient ? 1 : 0;
  ShapeHandle inputs = c.input(inputs_at);
  if (gradient) {
    MR_ASSIGN_OR_RETURN(inputs, c.Merge(c.input(0), inputs));
  }
  // The second limit of a gradient is merged with the required shape; only the rank of the others is checked
  // first.
  const auto limit_of = [&](int i, ShapeHandle wanted) {
    const ShapeHandle limit = c.input(inputs_at + i);
    if (!gradient || i == 1) return c.WithRank(limit, c.Rank(wanted));
    return channels ? c.Merge(limit, wanted) : c.Merge(wanted, limit);
  };
  ShapeHandle limits = c.Scalar();
  if (channels) {
    MR_ASSIGN_OR_RETURN(inputs, c.WithRankAtLeast(inputs, 1));
    DimHandle depth = c.Dim(inputs, -1);
    const ShapeHandle vector = c.Vector(depth);
    MR_ASSIGN_OR_RETURN(const ShapeHandle min, limit_of(1, vector));
    MR_ASSIGN_OR_RETURN(const ShapeHandle max, limit_of(2, vector));
    for (const ShapeHandle limit : {min, max}) {
      MR_ASSIGN_OR_RETURN(depth, c.Merge(depth, c.Dim(limit, 0)));
    }
    MR_ASSIGN_OR_RETURN(inputs, c.ReplaceDim(inputs, -1, depth));
    limits = c.Vector(depth);
  } else {
    for (const int i : {1, 2}) MR_RETURN_IF_ERROR(limit_of(i, limits).status());
  }
  c.set_output(0, inputs);
  for (int i = 1; i < c.num_outputs(); ++i) c.set_output(i, limits);
  return Status();
}

OpBuilder WithFakeQuantAttrs(OpBuilder op) {
  return op.Attr("num_bits: int = 8").Attr("narrow_range: bool = false");
}

OpBuilder FakeQuantWithVars(const std::string& name, bool gradient) {
  OpBuilder op(name);
  if (gradient) op.Input("gradients: float");
  op.Input("inputs: float").Input("min: float").Input("max: float");
  if (gradient) {
    op.Output("backprops_wrt_input: float")
        .Output("backprop_wrt_min: float")
        .Output("backprop_wrt_max: float");
  } else {
    op.Output("outputs: float");
  }
  return WithFakeQuantAttrs(op).Shape(FakeQuantShape);
}

std::vector<OpBuilder> FakeQuants() {
  constexpr char kMin[] = "min: float = -6", kMax[] = "max: float = 6";
  return {
      WithFakeQuantAttrs(
          OpBuilder("FakeQuantWithMinMaxArgs: Rounds to the values of a quantised type with a fixed range.")
              .Input("inputs: float")
              .Output("outputs: float")
              .Attr(kMin)
              .Attr(kMax))
          .Shape(shape_fns::Unchanged)
          .Traits(kElementwise),
      WithFakeQuantAttrs(
          OpBuilder("FakeQuantWithMinMaxArgsGradient: The gradient of FakeQuantWithMinMaxArgs.")
              .Input("gradients: float")
              .Input("inputs: float")
              .Output("backprops: float")
              .Attr(kMin)
              .Attr(kMax))
          .Shape(shape_fns::Unchanged)
          .Traits(kElementwise),
      FakeQuantWithVars("FakeQuantWithMinMaxVars: Rounds to the values of a quantised type with a range "
                        "computed at run time.",
                        false),
      FakeQuantWithVars("FakeQuantWithMinMaxVarsGradient: The gradient of FakeQuantWithMinMaxVars.", true),
      FakeQuantWithVars("FakeQuantWithMinMaxVarsPerChannel: Rounds to the values of a quantised type with a "
                        "range for each channel.",
                        false),
      FakeQuantWithVars(
          "FakeQuantWithMinMaxVarsPerChannelGradient: The gradient of FakeQuantWithMinMaxVarsPerChannel.",
          true),
  };
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterFakeQuantOps(OpRegistry& registry) { return ops::RegisterEach(registry, ops::FakeQuants()); }

}  // namespace millrace
