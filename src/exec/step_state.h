// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "exec/frame_state.h"
#include "exec/plan.h"
#include "exec/step_arena.h"

namespace millrace {

// The values of one step of one plan: an entry for each input slot and, for walkers that count, the number
// of missing inputs of each node. Reused between steps; between steps only the slots of constants are
// filled.
class StepState {
 public:
  explicit StepState(const Plan& plan);

  // Around a step.
  void BeginStep() { in_arena_ = arena_ != nullptr && arena_->BeginStep(); }
  void EndStep() {
    if (in_arena_) arena_->EndStep();
    in_arena_ = false;
  }
  // The allocator for the nodes of this step in place of the plan's device; null: none.
  Allocator* arena() const { return in_arena_ ? arena_.get() : nullptr; }

  // The number of earlier steps of this state.
  uint64_t CountStep() { return steps_++; }
  uint64_t steps() const { return steps_; }
  TensorValue* slots() { return slots_.data(); }
  TensorValue* outputs() { return outputs_.data(); }  // scratch of the sequential walker
  // REQUIRES: ResetPending was called in this step.
  std::atomic<int32_t>& pending(uint32_t node) { return pending_[node]; }
  void ResetPending();
  // With frames they hold the values, and there are no slots here; else null.
  FrameState* frames() const { return frames_.get(); }
  // Drops the values of a failed step.
  void DropValues();

 private:
  const Plan& plan_;
  uint64_t steps_ = 0;
  std::vector<TensorValue> slots_;
  std::vector<TensorValue> outputs_;
  std::unique_ptr<std::atomic<int32_t>[]> pending_;
  std::unique_ptr<FrameState> frames_;
  struct ReleaseArena {
    void operator()(StepArena* arena) const { arena->Release(); }
  };
  std::unique_ptr<StepArena, ReleaseArena> arena_;  // null where memory isn't planned
  bool in_arena_ = false;
};

}  // namespace millrace
