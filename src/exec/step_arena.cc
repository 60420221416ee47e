// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/step_arena.h"

#include <algorithm>
#include <bit>
#include <functional>
#include "tensor/allocation_owner.h"
#include "tensor/cpu_allocator.h"

namespace millrace {
namespace {

constexpr int64_t kAlignment = Allocator::kAlignment;
// The allocator would not keep a larger piece between steps.
constexpr int64_t kMostBytes = int64_t{512} << 20;
// The least saving of a plan, and its least proportion.
constexpr int64_t kLeastSaved = int64_t{1} << 20;
constexpr int64_t kLeastPart = 10;

int64_t RoundUp(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Blocks of one class are reused for each other: four classes for each power of two.
int ClassOf(int64_t bytes) {
  const int log = std::bit_width(static_cast<uint64_t>(bytes - 1)) - 1;
  return 4 * log + static_cast<int>((bytes - 1 - (int64_t{1} << log)) >> (log - 2));
}

bool LiveTogether(const ArenaBlock& a, const ArenaBlock& b) { return a.from < b.until && b.from < a.until; }

// The largest number of live blocks of each class, all as large as the largest of them.
int64_t PooledBytes(const std::vector<const ArenaBlock*>& blocks) {
  struct Event {
    int64_t at;
    const ArenaBlock* block;
    bool begins;
  };
  struct Class {
    int64_t live = 0, most = 0, bytes = 0;
  };
  std::vector<Event> events;
  for (const ArenaBlock* block : blocks) {
    events.push_back({block->from, block, true});
    events.push_back({block->until, block, false});
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) { return a.at < b.at; });
  std::map<int, Class> classes;
  for (const Event& event : events) {
    Class& c = classes[ClassOf(event.block->bytes)];
    c.live += event.begins ? 1 : -1;
    c.most = std::max(c.most, c.live);
    c.bytes = std::max(c.bytes, event.block->bytes);
  }
  int64_t bytes = 0;
  for (const auto& [number, c] : classes) bytes += c.most * c.bytes;
  return bytes;
}

}  // namespace

ArenaPlan ArenaPlan::Make(const std::vector<ArenaBlock>& blocks) {
  std::vector<const ArenaBlock*> planned;
  std::vector<size_t> by_size;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].until == ArenaBlock::kNever) continue;
    planned.push_back(&blocks[i]);
    by_size.push_back(i);
  }
  ArenaPlan plan;
  plan.slots.resize(blocks.size());
  plan.pooled_bytes = PooledBytes(planned);
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](size_t a, size_t b) { return blocks[a].bytes > blocks[b].bytes; });
  std::vector<size_t> placed;  // by offset
  for (const size_t i : by_size) {
    Slot& slot = plan.slots[i];
    slot.bytes = blocks[i].bytes;
    for (const size_t j : placed) {
      const Slot& other = plan.slots[j];
      if (!LiveTogether(blocks[i], blocks[j])) continue;
      if (other.offset >= slot.offset + slot.bytes) break;
      slot.offset = std::max(slot.offset, RoundUp(other.offset + other.bytes));
    }
    plan.bytes = std::max(plan.bytes, slot.offset + slot.bytes);
    const auto after = [&](size_t a, size_t b) { return plan.slots[a].offset < plan.slots[b].offset; };
    placed.insert(std::upper_bound(placed.begin(), placed.end(), i, after), i);
  }
  for (size_t i = 0; i < plan.slots.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      Slot &a = plan.slots[i], &b = plan.slots[j];
      if (a.bytes == 0 || b.bytes == 0 || a.offset >= b.offset + b.bytes || b.offset >= a.offset + a.bytes)
        continue;
      a.overlapping.push_back(static_cast<int>(j));
      b.overlapping.push_back(static_cast<int>(i));
    }
  }
  return plan;
}

bool ArenaPlan::Pays() const {
  const int64_t saved = pooled_bytes - bytes;
  return bytes <= kMostBytes && saved >= kLeastSaved && saved >= pooled_bytes / kLeastPart;
}

bool StepArena::BeginStep() {
  if (waits_ && --left_ > 0) return false;
  MutexLock lock(mu_);
  if (waits_) {
    waits_ = false;
    mode_ = Mode::kWatches;
    now_ = 0;
    blocks_.clear();
    watched_.clear();
  }
  missed_ = served_ = 0;
  for (auto& [key, turn] : turns_) turn.next = 0;
  return true;
}

void StepArena::EndStep() {
  if (waits_) return;
  bool changed;
  {
    MutexLock lock(mu_);
    changed = mode_ == Mode::kWatches ? MakePlan(std::exchange(blocks_, {})) : EndPlannedStep();
  }
  // The blocks that were kept for the next step are no longer useful for it.
  if (changed) Trim(0);
}

// Frees the unused blocks that the base allocator keeps.
void StepArena::Trim(int64_t keep) {
  if (&base_ == &CpuAllocator()) GetCpuAllocatorImpl().ReleaseCachedMemory(keep);
}

// True if it was the last step with this plan.
bool StepArena::EndPlannedStep() {
  bool outlived = false;
  if (has_region_) {
    // A tensor that outlives the step, contrary to the plan, keeps all of the memory alive. Later plans avoid
    // this.
    outlived = regions_.back().live > 0;
    if (!outlived) {
      base_.Deallocate(regions_.back().data, regions_.back().bytes);
      regions_.pop_back();
    }
    has_region_ = false;
    slot_of_.clear();
    taken_.assign(taken_.size(), false);
  }
  steps_missed_ = missed_ <= served_ ? 0 : steps_missed_ + 1;
  if (missed_ == 0 && !outlived) ++planned_steps_;
  if (outlived) wait_ = kMaxWait;
  if (!outlived && steps_missed_ < kMostMisses) return false;
  Wait();
  return true;
}

void StepArena::Wait() {
  waits_ = true;
  mode_ = Mode::kWaits;
  wait_ = std::min(4 * wait_, kMaxWait);
  left_ = wait_;
  plan_ = ArenaPlan();
  turns_.clear();
  taken_.clear();
}

// False if there is none.
bool StepArena::MakePlan(std::vector<ArenaBlock> blocks) {
  watched_.clear();
  ArenaPlan plan;
  if (blocks.size() <= kMostBlocks) plan = ArenaPlan::Make(blocks);
  if (!plan.Pays()) {
    Wait();
    return false;
  }
  plan_ = std::move(plan);
  for (size_t i = 0; i < blocks.size(); ++i)
    turns_[{blocks[i].owner, blocks[i].bytes}].slots.push_back(static_cast<int>(i));
  taken_.assign(plan_.slots.size(), false);
  steps_missed_ = 0;
  mode_ = Mode::kPlanned;
  return true;
}

bool StepArena::IsFree(const ArenaPlan::Slot& place) const {
  for (const int other : place.overlapping) {
    if (taken_[static_cast<size_t>(other)]) return false;
  }
  return true;
}

void* StepArena::TakeSlot(size_t bytes, bool* watched) {
  MutexLock lock(mu_);
  *watched = mode_ == Mode::kWatches;
  if (mode_ != Mode::kPlanned) return nullptr;
  const auto turn = turns_.find({allocation_owner, static_cast<int64_t>(bytes)});
  if (turn == turns_.end() || turn->second.next == turn->second.slots.size()) {
    missed_ += bytes;
    return nullptr;
  }
  const int slot = turn->second.slots[turn->second.next++];
  const ArenaPlan::Slot& place = plan_.slots[static_cast<size_t>(slot)];
  if (place.bytes == 0) return nullptr;
  if (!IsFree(place)) {
    missed_ += bytes;
    return nullptr;
  }
  if (!has_region_) {
    void* const data = base_.Allocate(static_cast<size_t>(plan_.bytes));
    if (data == nullptr) return nullptr;
    regions_.push_back({static_cast<char*>(data), static_cast<size_t>(plan_.bytes)});
    has_region_ = true;
  }
  served_ += bytes;
  Region& region = regions_.back();
  ++region.live;
  taken_[static_cast<size_t>(slot)] = true;
  void* const p = region.data + place.offset;
  slot_of_[p] = slot;
  return p;
}

void StepArena::Note(void* p, size_t bytes) {
  MutexLock lock(mu_);
  if (mode_ != Mode::kWatches || blocks_.size() > kMostBlocks) return;
  watched_[p] = blocks_.size();
  blocks_.push_back({.owner = allocation_owner, .bytes = static_cast<int64_t>(bytes), .from = now_++});
}

// False: it belongs to the base.
bool StepArena::GiveBack(void* p) {
  MutexLock lock(mu_);
  if (mode_ == Mode::kWatches) {
    if (const auto watched = watched_.find(p); watched != watched_.end()) {
      blocks_[watched->second].until = now_++;
      watched_.erase(watched);
    }
  }
  for (size_t i = regions_.size(); i-- > 0;) {
    Region& region = regions_[i];
    if (std::less<>()(p, region.data) || !std::less<>()(p, region.data + region.bytes)) continue;
    --region.live;
    if (has_region_ && i + 1 == regions_.size()) {
      if (const auto slot = slot_of_.find(p); slot != slot_of_.end()) {
        taken_[static_cast<size_t>(slot->second)] = false;
        slot_of_.erase(slot);
      }
    } else if (region.live == 0) {
      base_.Deallocate(region.data, region.bytes);
      regions_.erase(regions_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return true;
  }
  return false;
}

void* StepArena::Allocate(size_t bytes) {
  bool watched = false;
  void* p = bytes >= kLeastBytes ? TakeSlot(bytes, &watched) : nullptr;
  if (p == nullptr) {
    if (watched && bytes >= kHugeBytes) Trim(kKeptBytes);
    p = base_.Allocate(bytes);
    if (p == nullptr) return nullptr;
    if (watched) Note(p, bytes);
  }
  users_.fetch_add(1, std::memory_order_relaxed);
  return p;
}

void StepArena::Deallocate(void* p, size_t bytes) {
  if (bytes < kLeastBytes || !GiveBack(p)) base_.Deallocate(p, bytes);
  Leave();
}

int64_t StepArena::planned_steps() const {
  MutexLock lock(mu_);
  return planned_steps_;
}

}  // namespace millrace
