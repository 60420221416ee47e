// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/frame_state.h"

#include <algorithm>
#include <type_traits>

#include "base/hash.h"
#include "base/peer_hash.h"
#include "millrace/status.h"

namespace millrace {

FrameState::FrameState(const Plan& plan) : outputs(plan.max_outputs()), plan_(plan) {
  free_iterations_.resize(plan.frames().size());
}

FrameIteration* FrameState::Take(uint32_t layout, std::span<const PendingCount> counts) {
  const FrameLayout& f = plan_.frames()[layout];
  std::vector<FrameIteration*>& free = free_iterations_[layout];
  FrameIteration* iteration;
  if (!free.empty()) {
    iteration = free.back();
    free.pop_back();
  } else {
    iteration = &iterations_.emplace_back();
    iteration->first_node = f.first_node;
    iteration->first_slot = f.first_slot;
    iteration->slots = std::make_unique<TensorValue[]>(f.end_slot - f.first_slot);
    iteration->counts = std::make_unique<PendingCount[]>(f.end_node - f.first_node);
    if (layout == 0) {
      for (const Plan::ConstantSlot& c : plan_.constant_slots()) {
        TensorValue& slot = iteration->slots[c.slot - f.first_slot];
        slot.kind = TensorValue::Kind::kConstant;
        slot.borrowed = c.tensor;
      }
    }
  }
  iteration->outstanding = 0;
  std::copy(counts.begin() + f.first_node, counts.begin() + f.end_node, iteration->counts.get());
  return iteration;
}

FrameIteration* FrameState::StartTop() {
  if (top_.iterations.empty()) return NewIteration(&top_);
  FrameIteration* top = top_.iterations.front();
  const FrameLayout& f = plan_.frames()[0];
  std::copy(plan_.initial_counts().begin() + f.first_node, plan_.initial_counts().begin() + f.end_node,
            top->counts.get());
  top->outstanding = 0;
  return top;
}

FrameInstance* FrameState::NewFrame(uint32_t layout, FrameIteration* parent) {
  FrameInstance* frame;
  if (!free_frames_.empty()) {
    frame = free_frames_.back();
    free_frames_.pop_back();
  } else {
    frame = &frames_.emplace_back();
  }
  frame->layout = layout;
  frame->parent = parent;
  const FrameLayout& f = plan_.frames()[layout];
  frame->pending_enters = f.num_enters;
  frame->invariants.resize(f.invariants.size());
  frame->newest = -1;
  SetId(frame);
  parent->children.push_back(frame);
  ++live_frames_;
  NewIteration(frame);
  return frame;
}

// The id is part of the keys of transfers. Both ends compute the same number, which is TensorFlow's, because
// the other end may be a task of TensorFlow.
void FrameState::SetId(FrameInstance* frame) {
  const FrameLayout& f = plan_.frames()[frame->layout];
  const FrameIteration& parent = *frame->parent;
  if (plan_.has_transfers()) {
    frame->name = StrCat(parent.frame->name, ";", parent.index, ";", f.name);
    frame->id = PeerHash64(frame->name);
    return;
  }
  uint64_t id = f.name_hash;
  for (const uint64_t part : {parent.frame->id, static_cast<uint64_t>(parent.index)}) {
    id = (id ^ part) * 0x9E3779B97F4A7C15u;
    id ^= id >> 32;
  }
  frame->id = std::max<uint64_t>(id, 1);
}

void FrameState::FreeFrame(FrameInstance* frame) {
  std::erase(frame->parent->children, frame);
  frame->invariants.clear();
  frame->invariants_come.clear();
  frame->invariants_alive = true;
  frame->dead_exits.clear();
  frame->exited.clear();
  free_frames_.push_back(frame);
  --live_frames_;
}

FrameIteration* FrameState::NewIteration(FrameInstance* frame, bool preset) {
  FrameIteration* iteration = Take(frame->layout, preset ? plan_.preset_counts() : plan_.initial_counts());
  iteration->frame = frame;
  if (frame != &top_) ++frame->newest;
  iteration->index = frame->newest;
  frame->iterations.push_back(iteration);
  if (!preset) return iteration;
  for (const FrameLayout::InvariantEdge& e : plan_.frames()[frame->layout].invariant_edges) {
    Borrow(frame->invariants[e.place], &iteration->slots[e.slot - iteration->first_slot]);
  }
  return iteration;
}

void FrameState::FreeOldest(FrameInstance* frame) {
  free_iterations_[frame->layout].push_back(frame->iterations.front());
  frame->iterations.pop_front();
}

bool FrameState::FirstExit(FrameInstance* frame, uint32_t node) {
  const FrameLayout& f = plan_.frames()[frame->layout];
  if (frame->exited.empty()) frame->exited.resize(f.end_node - f.first_node, false);
  if (frame->exited[node - f.first_node]) return false;
  frame->exited[node - f.first_node] = true;
  return true;
}

void FrameState::Drop() {
  top_ = FrameInstance();
  frames_.clear();
  iterations_.clear();
  free_frames_.clear();
  for (auto& free : free_iterations_) free.clear();
  for (TensorValue& v : outputs) v = TensorValue();
  live_frames_ = 0;
}

}  // namespace millrace
