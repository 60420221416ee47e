// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Batches of several steps. The gradients of a batch are distributed to the steps of its rows, and those of
// the steps are batched again; each pair of nodes shares a unique name.
#include "gradients/family.h"

namespace millrace {
namespace {

Status BatchGrad(GradientContext& c) {
  const Expr index = c.output(c.num_inputs());
  const Expr id = c.output(c.num_inputs() + 1);
  MR_ASSIGN_OR_RETURN(const int64_t timeout, c.node().attrs().Get<int64_t>("grad_timeout_micros"));
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (!c.wants(i) || !c.has_grad(i)) continue;
    const std::string name = StrCat("batch_gradient_", c.node().name(), "_", i);
    c.SetInputGrad(
        i, Op("Unbatch", {c.grad(i), index, id}, {{"timeout_micros", timeout}, {"shared_name", name}}));
  }
  return c.status();
}

// batched_tensor, batch_index, id
Status UnbatchGrad(GradientContext& c) {
  MR_ASSIGN_OR_RETURN(const std::string shared, c.node().attrs().Get<std::string>("shared_name"));
  const std::string name = StrCat("unbatch_gradient_", c.node().name(), "_", shared);
  c.SetInputGrad(0,
                 Op("UnbatchGrad", {c.input(0), c.input(1), c.grad(0), c.input(2)}, {{"shared_name", name}}));
  return c.status();
}

}  // namespace

Status RegisterBatchingGradients(GradientRegistry& registry) {
  static constexpr gradients::Row kRows[] = {{"Batch", BatchGrad}, {"Unbatch", UnbatchGrad}};
  return gradients::RegisterEach(registry, kRows);
}

}  // namespace millrace
