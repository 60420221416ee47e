// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/step_state.h"

#include "tensor/cpu_allocator.h"

namespace millrace {
namespace {

// Other allocators split and merge blocks themselves; the sanitizers must see each block. With loops, steps
// differ.
bool PlansMemory(const Plan& plan) {
  return cpu_allocator_internal::kCaches && plan.frames().empty() &&
         &plan.device().allocator() == &CpuAllocator();
}

}  // namespace

StepState::StepState(const Plan& plan) : plan_(plan) {
  if (!plan.frames().empty()) {
    frames_ = std::make_unique<FrameState>(plan);
    return;
  }
  slots_.resize(plan.num_slots());
  outputs_.resize(plan.max_outputs());
  for (const Plan::ConstantSlot& c : plan.constant_slots()) {
    slots_[c.slot].kind = TensorValue::Kind::kConstant;
    slots_[c.slot].borrowed = c.tensor;
  }
  if (PlansMemory(plan)) arena_.reset(StepArena::Make(plan.device().allocator()));
}

void StepState::ResetPending() {
  const std::span<const int32_t> initial = plan_.initial_pending();
  if (pending_ == nullptr) pending_ = std::make_unique<std::atomic<int32_t>[]>(initial.size());
  // Relaxed: the step starts on this thread and passes nodes to others through a queue.
  for (size_t i = 0; i < initial.size(); ++i) pending_[i].store(initial[i], std::memory_order_relaxed);
}

void StepState::DropValues() {
  const auto drop = [](TensorValue& v) {
    if (v.kind == TensorValue::Kind::kConstant) return;
    v = TensorValue();
  };
  for (TensorValue& v : slots_) drop(v);
  for (TensorValue& v : outputs_) v = TensorValue();
  for (const Plan::ConstantSlot& c : plan_.constant_slots()) slots_[c.slot].is_dead = false;
}

}  // namespace millrace
