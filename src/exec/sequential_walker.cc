// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/sequential_walker.h"

#include "tensor/allocation_owner.h"

namespace millrace {
namespace {

template <bool kInstrumented>
Status Walk(const Plan& plan, StepState& state, const StepServices& services, bool measure, StepTrace* trace,
            uint32_t* waits_at) {
  TensorValue* const slots = state.slots();
  TensorValue* const scratch = state.outputs();
  const CancellationManager& cancellation = *services.cancellation;
  KernelContext context(services, nullptr, {}, {});
  const auto n = static_cast<uint32_t>(plan.num_nodes());
  uint64_t before = kInstrumented && measure ? CycleCount() : 0;
  *waits_at = n;
  for (uint32_t i = 0; i < n; ++i) {
    const PlanNode& node = plan.node(i);
    if (node.kernel == nullptr) {
      if constexpr (kInstrumented) {
        if (trace != nullptr) trace->RecordInstant(plan, i, nullptr);
      }
      continue;
    }
    if (cancellation.IsCancelled()) [[unlikely]]
      return errors::Cancelled("Step was cancelled");
    TensorValue* const inputs = slots + node.first_input;
    const bool direct = node.direct_slot != PlanNode::kNoSlot;
    TensorValue* const outputs = direct ? slots + node.direct_slot : scratch;
    if (node.has_ref_inputs) {
      Status read = ReadReferences(plan, i, inputs);
      if (!read.ok()) return AddNodeContext(read, plan.graph_node(i));
    }
    [[maybe_unused]] const int64_t start_ns = kInstrumented && trace != nullptr ? trace->NowNs() : 0;
    context.Rebind(node.kernel, inputs, outputs);
    allocation_owner = &node.kernel->name();
    Status status;
    if (node.async == nullptr) [[likely]] {
      status = ComputeKernel(*node.kernel, context);
    } else if (!TryComputeKernel(*node.async, context, status)) {
      *waits_at = i;
      return Status();
    }
    if (!status.ok()) [[unlikely]]
      return AddNodeContext(status, plan.graph_node(i));
    if constexpr (kInstrumented) {
      if (trace != nullptr) trace->Record(plan, i, start_ns, trace->NowNs(), outputs);
    }
    ReleaseInputs(inputs, node.num_inputs);
    if (direct) {
      if (outputs->kind == TensorValue::Kind::kNone) [[unlikely]]
        return MissingOutput(plan, i, 0);
    } else {
      MR_RETURN_IF_ERROR(DeliverOutputs(plan, i, outputs, slots));
    }
    if constexpr (kInstrumented) {
      if (measure) {
        const uint64_t now = CycleCount();
        plan.RecordCost(i, static_cast<uint64_t>(static_cast<double>(now - before) * NsPerCycle()));
        before = now;
      }
    }
  }
  return Status();
}

}  // namespace

Status RunSequentially(const Plan& plan, StepState& state, const StepServices& services, bool measure,
                       StepTrace* trace, uint32_t* waits_at) {
  const ScopedAllocationOwner restore(nullptr);
  Status status = measure || trace != nullptr ? Walk<true>(plan, state, services, measure, trace, waits_at)
                                              : Walk<false>(plan, state, services, false, nullptr, waits_at);
  if (!status.ok()) [[unlikely]]
    state.DropValues();
  return status;
}

}  // namespace millrace
