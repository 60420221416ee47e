// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/sequential_walker.h"

#include "base/step_cancelled.h"

namespace millrace {
namespace {

template <bool kNoted>
Status Walk(const Plan& plan, StepState& state, const StepServices& services, const NodeNotes& notes,
            uint32_t* waits_at) {
  TensorValue* const slots = state.slots();
  TensorValue* const scratch = state.outputs();
  const CancellationManager& cancellation = *services.cancellation;
  KernelContext context(services, nullptr, {}, {});
  NodeRunner<kNoted> runner(plan, notes, context);
  const auto n = static_cast<uint32_t>(plan.num_nodes());
  *waits_at = n;
  for (uint32_t i = 0; i < n; ++i) {
    const PlanNode& node = plan.node(i);
    if (node.kernel == nullptr) {
      runner.Skip(i, nullptr);
      continue;
    }
    if (cancellation.IsCancelled()) [[unlikely]]
      return StepCancelled();
    const bool direct = node.direct_slot != PlanNode::kNoSlot;
    TensorValue* const outputs = direct ? slots + node.direct_slot : scratch;
    const NodeEnd end = runner.Run(i, node, slots + node.first_input, outputs);
    if (end != NodeEnd::kDone) [[unlikely]] {
      if (end == NodeEnd::kFailed) return runner.status();
      *waits_at = i;
      return Status();
    }
    if (direct) {
      if (outputs->kind == TensorValue::Kind::kNone) [[unlikely]]
        return MissingOutput(plan, i, 0);
    } else {
      MR_RETURN_IF_ERROR(DeliverOutputs(plan, i, outputs, slots));
    }
  }
  return Status();
}

}  // namespace

Status RunSequentially(const Plan& plan, StepState& state, const StepServices& services,
                       const NodeNotes& notes, uint32_t* waits_at) {
  Status status = notes.measure || notes.trace != nullptr
                      ? Walk<true>(plan, state, services, notes, waits_at)
                      : Walk<false>(plan, state, services, notes, waits_at);
  if (!status.ok()) [[unlikely]]
    state.DropValues();
  return status;
}

}  // namespace millrace
