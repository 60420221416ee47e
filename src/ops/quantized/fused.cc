// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Quantized products and convolutions fused with the following ops. A range is that of the whole tensor, or
// of each channel.
#include "op/op_table.h"
#include "ops/family.h"
#include "ops/nn/spatial_shapes.h"

namespace millrace::ops {
namespace {

constexpr std::string_view kTable =
#include "ops/quantized/fused_ops.def"
    ;

Status FusedShape(InferenceContext& c) {
  const std::string& op = c.op().name;
  const bool bias = op.find("WithBias") != op.npos, narrow = op.find("AndRequantize") != op.npos;
  const bool conv = op.find("Conv2D") != op.npos;
  if (!conv) {
    MR_RETURN_IF_ERROR(shape_fns::MatMul(c));
  } else if (op.find("Depthwise") != op.npos) {
    MR_RETURN_IF_ERROR(DepthwiseShape(c));
  } else {
    MR_RETURN_IF_ERROR(shape_fns::Conv2D(c));
  }
  const auto margins = c.Attr<std::vector<int64_t>>("padding_list");
  if (margins.ok() && !margins->empty()) c.set_output(0, c.UnknownShapeOfRank(4));
  if (bias) MR_RETURN_IF_ERROR(c.WithRank(c.input(2), 1).status());
  const int first = bias ? 3 : 2;
  for (const int i : {first, first + 1}) MR_RETURN_IF_ERROR(c.WithRank(c.input(i), 0).status());
  ShapeHandle channel = c.UnknownShape();
  for (const int i : {first + 2, first + 3}) {
    MR_ASSIGN_OR_RETURN(const ShapeHandle end, c.WithRankAtMost(c.input(i), conv ? 1 : 0));
    MR_ASSIGN_OR_RETURN(channel, c.Merge(channel, end));
  }
  if (narrow) {
    for (const int i : {first + 4, first + 5}) MR_RETURN_IF_ERROR(c.WithRank(c.input(i), 0).status());
    channel = c.Scalar();
  }
  c.set_output(1, channel);
  c.set_output(2, channel);
  return Status();
}

Status ReluXShape(InferenceContext& c) {
  for (int i = 1; i < c.num_inputs(); ++i) MR_RETURN_IF_ERROR(c.WithRank(c.input(i), 0).status());
  MR_RETURN_IF_ERROR(shape_fns::Unchanged(c));
  c.set_output(1, c.Scalar());
  c.set_output(2, c.Scalar());
  return Status();
}

// Inputs: the sums, the ends of their channels' ranges, perhaps those of the wanted range.
Status PerChannelShape(InferenceContext& c) {
  for (const int i : {1, 2}) MR_RETURN_IF_ERROR(c.WithRank(c.input(i), 1).status());
  for (int i = 3; i < c.num_inputs(); ++i) MR_RETURN_IF_ERROR(c.WithRank(c.input(i), 0).status());
  int output = 0;
  if (c.num_outputs() == 3) c.set_output(output++, c.input(0));
  c.set_output(output, c.Scalar());
  c.set_output(output + 1, c.Scalar());
  return Status();
}

ShapeFn ShapeOf(std::string_view op) {
  if (op == "QuantizedReluX") return ReluXShape;
  return op.find("PerChannel") != op.npos && op.starts_with("Requantiz") ? PerChannelShape : FusedShape;
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterQuantizedFusedOps(OpRegistry& registry) {
  MR_ASSIGN_OR_RETURN(std::vector<OpRegistration> table, ParseOpTable(ops::kTable));
  for (OpRegistration& op : table) {
    op.shape_fn = ops::ShapeOf(op.def.name);
    op.traits = OpTraits();
    op.traits.not_differentiable = true;
    MR_RETURN_IF_ERROR(registry.Register(std::move(op)));
  }
  return Status();
}

}  // namespace millrace
