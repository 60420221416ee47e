// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cases.h"

namespace millrace {
namespace {

using Exprs = std::vector<Expr>;

Expr Constant(GraphBuilder& b, const Tensor& value) { return Expr(b, b.Constant(value)); }

GradientCase GatherCase(const char* label, const Tensor& indices, int output_depth,
                        const TensorShape& values) {
  return {.op = "RaggedGather",
          .label = label,
          .xs = {Values(values)},
          .ys = [=](GraphBuilder& b, const Exprs& x) {
            const Operand splits(Exprs{Constant(b, Tensor::Vector<int64_t>({0, 2, 2, 5}))});
            const Expr rows = Op("RaggedGather", {splits, x[0], Constant(b, indices)},
                                 {{"OUTPUT_RAGGED_RANK", output_depth}});
            return Exprs{rows.Sibling(output_depth)};
          }};
}

std::vector<GradientCase> RaggedCases() {
  return {
      GatherCase("with a row twice", Tensor::Vector<int32_t>({2, 0, 2}), 1, {5}),
      GatherCase("one row", Tensor::Scalar<int64_t>(2), 0, {5, 2}),
      GatherCase("no row", Tensor::Vector<int32_t>({}), 1, {5, 2}),
      {.op = "RaggedTensorToSparse",
       .label = "",
       .xs = {Values({3, 2})},
       .ys =
           [](GraphBuilder& b, const Exprs& x) {
             const Operand splits(Exprs{Constant(b, Tensor::Vector<int64_t>({0, 2, 2, 3}))});
             return Exprs{Op("RaggedTensorToSparse", {splits, x[0]}).Sibling(1)};
           }},
  };
}
const GradientCaseList kRaggedCases(RaggedCases);

}  // namespace
}  // namespace millrace
