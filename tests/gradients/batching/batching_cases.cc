// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Batches of a single step, which are full at once.
#include "cases.h"

namespace millrace {
namespace {

using Exprs = std::vector<Expr>;

constexpr int64_t kMinute = 60'000'000;

Expr BatchOf(const Expr& x) {
  return Op("Batch", {Operand(Exprs{x})},
            {{"num_batch_threads", 1},
             {"max_batch_size", 3},
             {"batch_timeout_micros", kMinute},
             {"grad_timeout_micros", kMinute}});
}

Exprs Batched(GraphBuilder& /*builder*/, const Exprs& x) { return {Op("Sigmoid", BatchOf(x[0]))}; }

Exprs Unbatched(GraphBuilder& /*builder*/, const Exprs& x) {
  const Expr batch = BatchOf(x[0]);
  return {Op("Unbatch", {Op("Sigmoid", batch), batch.Sibling(1), batch.Sibling(2)},
             {{"timeout_micros", kMinute}})};
}

std::vector<GradientCase> BatchingCases() {
  return {{.op = "Batch", .label = "", .xs = {Values({3, 2})}, .ys = Batched},
          {.op = "Unbatch", .label = "", .xs = {Values({3, 2})}, .ys = Unbatched, .second = false}};
}
const GradientCaseList kBatchingCases(BatchingCases);

}  // namespace
}  // namespace millrace
