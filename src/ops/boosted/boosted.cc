// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Ensembles of boosted trees, grown by sums of gradients in buckets of features.
#include "op/op_table.h"
#include "ops/family.h"

namespace millrace::ops {
namespace {

constexpr std::string_view kTable =
#include "ops/boosted/boosted_ops.def"
    ;

// Examples, a row of logits for each; then the trees and nodes where they are.
Status PredictShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const int64_t logits, c.Attr<int64_t>("logits_dimension"));
  MR_ASSIGN_OR_RETURN(const std::vector<ShapeHandle> features, c.InputsNamed("bucketized_features"));
  DimHandle examples = c.UnknownDim();
  for (const ShapeHandle shape : features) {
    MR_RETURN_IF_ERROR(c.WithRankAtLeast(shape, 1).status());
    MR_ASSIGN_OR_RETURN(examples, c.Merge(examples, c.Dim(shape, 0)));
  }
  const bool paths = c.op().name.ends_with("DebugOutputs");
  c.set_output(
      0, paths ? c.Vector(examples) : c.Matrix(examples, logits < 0 ? c.UnknownDim() : c.MakeDim(logits)));
  for (int i = 1; i < c.num_outputs(); ++i) c.set_output(i, c.Vector(examples));
  return Status();
}

// A row of logits for each row of dense features.
Status ForestPredictShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const int64_t logits, c.Attr<int64_t>("logits_dimension"));
  MR_ASSIGN_OR_RETURN(const ShapeHandle features, c.WithRank(c.input(1), 2));
  c.set_output(0, c.Matrix(c.Dim(features, 0), logits < 0 ? c.UnknownDim() : c.MakeDim(logits)));
  return Status();
}

Status BucketizeShape(InferenceContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, c.input(i));
  return Status();
}

// Boundaries of buckets or, with four columns, summaries.
Status QuantilesShape(InferenceContext& c) {
  const bool boundaries = c.op().name.ends_with("Boundaries");
  const ShapeHandle out = boundaries ? c.Vector(c.UnknownDim()) : c.Matrix(c.UnknownDim(), c.MakeDim(4));
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, out);
  return Status();
}

// All outputs but the range of nodes are scalars.
Status ScalarsShape(InferenceContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, i == 4 ? c.Vector(2) : c.Scalar());
  return Status();
}

ShapeFn ShapeOf(const OpDef& op) {
  if (op.name == "TensorForestTreePredict") return ForestPredictShape;
  if (op.name.ends_with("Predict") || op.name.ends_with("DebugOutputs")) return PredictShape;
  if (op.name == "BoostedTreesBucketize") return BucketizeShape;
  if (op.name.ends_with("Summaries") || op.name.ends_with("Boundaries")) return QuantilesShape;
  if (op.outputs.empty()) return shape_fns::NoOutputs;
  return op.is_stateful ? ScalarsShape : shape_fns::Unknown;
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterBoostedOps(OpRegistry& registry) {
  MR_ASSIGN_OR_RETURN(std::vector<OpRegistration> table, ParseOpTable(ops::kTable));
  for (OpRegistration& op : table) {
    op.shape_fn = ops::ShapeOf(op.def);
    op.traits = {.has_side_effects = op.def.is_stateful, .not_differentiable = true};
    MR_RETURN_IF_ERROR(registry.Register(std::move(op)));
  }
  return Status();
}

}  // namespace millrace
