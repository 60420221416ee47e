// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Batching of calls of several steps, as in servers.
#include "op/op_table.h"
#include "ops/family.h"

namespace millrace::ops {
namespace {

constexpr std::string_view kTable =
#include "ops/batching/batching_ops.def"
    ;

// A shape with another number of rows.
StatusOr<ShapeHandle> WithSomeRows(InferenceContext& c, ShapeHandle shape) {
  MR_RETURN_IF_ERROR(c.WithRankAtLeast(shape, 1).status());
  if (!c.RankKnown(shape)) return c.UnknownShape();
  return c.ReplaceDim(shape, 0, c.UnknownDim());
}

Status BatchShape(InferenceContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) {
    MR_ASSIGN_OR_RETURN(const ShapeHandle out, WithSomeRows(c, c.input(i)));
    c.set_output(i, out);
  }
  c.set_output(c.num_inputs(), c.Matrix(c.UnknownDim(), c.MakeDim(3)));
  c.set_output(c.num_inputs() + 1, c.Scalar());
  return Status();
}

Status UnbatchShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(1), 2).status());
  MR_RETURN_IF_ERROR(c.WithRank(c.input(2), 0).status());
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, WithSomeRows(c, c.input(0)));
  c.set_output(0, out);
  return Status();
}

Status UnbatchGradShape(InferenceContext& c) {
  MR_RETURN_IF_ERROR(c.WithRank(c.input(1), 2).status());
  MR_RETURN_IF_ERROR(c.WithRank(c.input(3), 0).status());
  MR_ASSIGN_OR_RETURN(const ShapeHandle out, WithSomeRows(c, c.input(2)));
  c.set_output(0, out);
  return Status();
}

struct Shaped {
  std::string_view op;
  Status (*shape)(InferenceContext&);
};
constexpr Shaped kShapes[] = {{"Batch", BatchShape},
                              {"BatchFunction", shape_fns::Unknown},
                              {"Unbatch", UnbatchShape},
                              {"UnbatchGrad", UnbatchGradShape}};

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterBatchingOps(OpRegistry& registry) {
  MR_ASSIGN_OR_RETURN(std::vector<OpRegistration> table, ParseOpTable(ops::kTable));
  for (OpRegistration& op : table) {
    op.shape_fn = std::ranges::find(ops::kShapes, std::string_view(op.def.name), &ops::Shaped::op)->shape;
    op.traits = {.never_fold = true,
                 .has_side_effects = true,
                 .not_differentiable = op.def.name == "BatchFunction" || op.def.name == "UnbatchGrad"};
    MR_RETURN_IF_ERROR(registry.Register(std::move(op)));
  }
  return Status();
}

}  // namespace millrace
