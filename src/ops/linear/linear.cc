// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Linear models, trained by stochastic dual coordinate ascent.
#include "op/op_table.h"
#include "ops/family.h"

namespace millrace::ops {
namespace {

constexpr std::string_view kTable =
#include "ops/linear/linear_ops.def"
    ;

Status FingerprintShape(InferenceContext& c) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle input, c.WithRank(c.input(0), 1));
  c.set_output(0, c.Matrix(c.Dim(input, 0), c.MakeDim(2)));
  return Status();
}

Status OptimizerShape(InferenceContext& c) {
  c.set_output(0, c.Matrix(c.UnknownDim(), c.MakeDim(4)));
  int out = 1;
  for (const char* arg : {"sparse_weights", "dense_weights"}) {
    MR_ASSIGN_OR_RETURN(const std::vector<ShapeHandle> weights, c.InputsNamed(arg));
    for (const ShapeHandle shape : weights) c.set_output(out++, shape);
  }
  return Status();
}

}  // namespace
}  // namespace millrace::ops

namespace millrace {

Status RegisterLinearOps(OpRegistry& registry) {
  MR_ASSIGN_OR_RETURN(std::vector<OpRegistration> table, ParseOpTable(ops::kTable));
  for (OpRegistration& op : table) {
    const std::string& name = op.def.name;
    op.traits = {.not_differentiable = true};
    if (name == "SdcaFprint") {
      op.shape_fn = ops::FingerprintShape;
    } else if (name == "SdcaShrinkL1") {
      op.shape_fn = shape_fns::NoOutputs;
      op.traits.has_side_effects = true;
    } else {
      op.shape_fn = ops::OptimizerShape;
      op.traits.never_fold = true;  // the order of the examples is drawn anew
    }
    MR_RETURN_IF_ERROR(registry.Register(std::move(op)));
  }
  return Status();
}

}  // namespace millrace
