// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Ragged tensors: gradients of their flat values.
#include "gradients/family.h"

namespace millrace {
namespace {

using gradients::Row;

// The same rows of the numbers of the values show where each value came from.
Status RaggedGatherGrad(GradientContext& c) {
  GraphBuilder& b = c.builder();
  const auto depth = static_cast<int>(c.Attr<int64_t>("PARAMS_RAGGED_RANK"));
  const Expr values = c.input(depth), indices = c.input(depth + 1);
  const auto rows = static_cast<int>(c.Attr<int64_t>("OUTPUT_RAGGED_RANK"));
  const Expr count = GatherRows(ShapeOf(values), Scalar(b, DataType::kInt32, 0));
  const Expr numbers = Op("Range", {Scalar(b, DataType::kInt32, 0), count, Scalar(b, DataType::kInt32, 1)});
  std::vector<Expr> splits;
  splits.reserve(static_cast<size_t>(depth));
  for (int i = 0; i < depth; ++i) splits.push_back(c.input(i));
  AttrMap attrs = c.CopyAttrs({"PARAMS_RAGGED_RANK", "OUTPUT_RAGGED_RANK", "Tsplits", "Tindices"});
  attrs.Set("Tvalues", DataType::kInt32);
  const Expr gathered = Op("RaggedGather", {Operand(splits), numbers, indices}, attrs);
  c.SetInputSlices(depth, c.grad(rows), gathered.Sibling(rows), ShapeOf(values));
  return c.status();
}

Status RaggedTensorToSparseGrad(GradientContext& c) {
  const auto depth = static_cast<int>(c.Attr<int64_t>("RAGGED_RANK"));
  c.SetInputGrad(depth, Reshape(c.grad(1), ShapeOf(c.input(depth))));
  return c.status();
}

constexpr Row kRows[] = {
    {"RaggedGather", RaggedGatherGrad},
    {"RaggedTensorToSparse", RaggedTensorToSparseGrad},
};

}  // namespace

Status RegisterRaggedGradients(GradientRegistry& registry) {
  return gradients::RegisterEach(registry, kRows);
}

}  // namespace millrace
