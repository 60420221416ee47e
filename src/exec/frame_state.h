// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "exec/plan.h"

namespace millrace {

struct FrameInstance;

// One iteration of a loop, or the only one of the top frame: the values for the nodes of the frame, and the
// missing inputs of each node. Nodes and slots are counted from the first of the frame.
struct FrameIteration {
  FrameInstance* frame = nullptr;
  int64_t index = 0;
  uint32_t first_node = 0, first_slot = 0;  // of the frame's layout
  uint32_t outstanding = 0;                 // nodes that are ready or running
  std::vector<FrameInstance*> children;     // loops that were entered from here and have not ended
  std::unique_ptr<TensorValue[]> slots;
  std::unique_ptr<PendingCount[]> counts;
};

// One execution of a loop.
struct FrameInstance {
  uint32_t layout = 0;  // in Plan::frames()
  FrameIteration* parent = nullptr;
  // Equal in all partitions of the step with transfers, on all tasks; 0 for the top.
  uint64_t id = 0;
  std::string name;  // in plans with transfers: the text whose hash is `id`; "" for the top
  uint32_t pending_enters = 0;
  int64_t newest = 0;                      // number of the newest iteration
  std::deque<FrameIteration*> iterations;  // unfinished ones; the newest is the last
  // By place in FrameLayout::invariants: the values of constant Enters. Iterations borrow them.
  std::vector<TensorValue> invariants;
  std::vector<uint32_t> invariants_come;                   // their places
  bool invariants_alive = true;                            // of those that have come
  std::vector<std::pair<uint32_t, TensorValue>> deferred;  // NextIterations that wait for room
  std::vector<uint32_t> dead_exits;                        // of the newest iteration
  std::vector<bool> exited;  // by node of the frame: the Exit has been taken to the frame above
};

// Makes `to` refer to the tensor of `from` without holding it. REQUIRES: `from` outlives the use of `to`.
inline void Borrow(const TensorValue& from, TensorValue* to) {
  if (from.kind == TensorValue::Kind::kValue) {
    to->borrowed = &from.value;
    to->kind = TensorValue::Kind::kConstant;
  } else {
    *to = from;
  }
}

// The frames of one step of one plan, with a list of free ones. Not thread-safe.
class FrameState {
 public:
  explicit FrameState(const Plan& plan);

  // The only iteration of the top frame, with nodes that wait for all of their inputs.
  FrameIteration* StartTop();
  FrameInstance* NewFrame(uint32_t layout, FrameIteration* parent);
  void FreeFrame(FrameInstance* frame);
  // Appends an iteration to `frame`. With `preset` it already has the invariants of the frame. REQUIRES for
  // `preset`: FrameLayout::can_preset, and all invariants have arrived and are alive.
  FrameIteration* NewIteration(FrameInstance* frame, bool preset = false);
  // Ends the oldest iteration of `frame`.
  void FreeOldest(FrameInstance* frame);
  // True once for each Exit: in an invalid loop it could be alive in several iterations.
  bool FirstExit(FrameInstance* frame, uint32_t node);
  // Drops the remaining state of a step that failed, or of an invalid loop that never ended.
  void Drop();
  // No loop is left and no value waits.
  bool clean() const { return live_frames_ == 0; }

  std::vector<TensorValue> outputs;  // scratch, for a walker without helpers

 private:
  void SetId(FrameInstance* frame);
  FrameIteration* Take(uint32_t layout, std::span<const PendingCount> counts);

  const Plan& plan_;
  FrameInstance top_;
  int64_t live_frames_ = 0;  // without the top frame
  // All instances, and by layout those that are not in use.
  std::deque<FrameInstance> frames_;
  std::deque<FrameIteration> iterations_;
  std::vector<FrameInstance*> free_frames_;
  std::vector<std::vector<FrameIteration*>> free_iterations_;
};

}  // namespace millrace
