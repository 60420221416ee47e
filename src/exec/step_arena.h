// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "tensor/allocator.h"

namespace millrace {

// One large block of a step: its node, its size, and between which of the step's allocations and
// deallocations it lived.
struct ArenaBlock {
  static constexpr int64_t kNever = INT64_MAX;
  const std::string* owner = nullptr;  // as allocation_owner; compared, not read
  int64_t bytes = 0;
  int64_t from = 0;
  int64_t until = kNever;  // kNever: it was still in use when the step was over
};

// Offsets of blocks in one arena such that no two that live at the same time overlap.
struct ArenaPlan {
  struct Slot {
    int64_t offset = 0;
    int64_t bytes = 0;             // 0: it outlived the step, and has no place
    std::vector<int> overlapping;  // other slots
  };
  std::vector<Slot> slots;  // by block
  int64_t bytes = 0;        // of the whole
  // The memory that an allocator which keeps blocks by size holds for the same blocks.
  int64_t pooled_bytes = 0;

  // Greedy: the largest first, each at the lowest possible offset.
  static ArenaPlan Make(const std::vector<ArenaBlock>& blocks);
  // Whether it takes considerably less memory than blocks by size.
  bool Pays() const;
};

// The large blocks of the steps of one state, in one arena that lives as long as the step. A step mostly
// allocates the same as the step before, so the plan is made from a recorded step. A block gets its planned
// place only while that is free; else, and when it isn't in the plan, it comes from the base: correct
// whatever a step does, in any order, on any number of threads.
//
// Buffers refer to it, and some outlive the step, the state and the session: it lives until its owner and all
// that it allocated are freed. Thread-safe, except that BeginStep and EndStep enclose a step.
class StepArena final : public Allocator {
 public:
  // Smaller blocks come from the base, where they cost little.
  static constexpr size_t kLeastBytes = size_t{64} << 10;

  // REQUIRES: `base` outlives all.
  static StepArena* Make(Allocator& base) { return new StepArena(base); }
  StepArena(const StepArena&) = delete;
  StepArena& operator=(const StepArena&) = delete;
  // Drops the owner's reference; call once, between steps.
  void Release() { Leave(); }

  // Whether this step should allocate here: it is recorded, or there is a plan. EndStep follows in any case.
  bool BeginStep() MR_EXCLUDES(mu_);
  void EndStep() MR_EXCLUDES(mu_);

  std::string_view name() const override { return base_.name(); }
  void* Allocate(size_t bytes) override MR_EXCLUDES(mu_);
  void Deallocate(void* p, size_t bytes) override MR_EXCLUDES(mu_);
  AllocatorStats Stats() const override { return base_.Stats(); }

  // Number of steps in which all blocks followed a plan; for tests and figures.
  int64_t planned_steps() const MR_EXCLUDES(mu_);

 private:
  enum class Mode { kWaits, kWatches, kPlanned };
  // A block of memory; the last user frees it.
  struct Region {
    char* data;
    size_t bytes;
    int live = 0;
  };

  explicit StepArena(Allocator& base) : Allocator(base.memory_space()), base_(base) {}
  ~StepArena() override = default;
  void Leave() {
    if (users_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  void* TakeSlot(size_t bytes, bool* watched) MR_EXCLUDES(mu_);
  bool IsFree(const ArenaPlan::Slot& place) const MR_REQUIRES(mu_);
  void Note(void* p, size_t bytes) MR_EXCLUDES(mu_);
  bool GiveBack(void* p) MR_EXCLUDES(mu_);
  bool MakePlan(std::vector<ArenaBlock> blocks) MR_REQUIRES(mu_);
  bool EndPlannedStep() MR_REQUIRES(mu_);
  void Trim(int64_t keep);
  void Wait() MR_REQUIRES(mu_);

  static constexpr int64_t kMaxWait = int64_t{1} << 20;
  static constexpr size_t kMostBlocks = 512;
  // Consecutive steps that mostly don't follow the plan, after which another step is recorded.
  static constexpr int kMostMisses = 4;
  // In a recorded step, blocks of at least kHugeBytes are cached for its other blocks up to kKeptBytes
  // together.
  static constexpr size_t kHugeBytes = size_t{1} << 20;
  static constexpr int64_t kKeptBytes = int64_t{64} << 20;

  Allocator& base_;
  std::atomic<int64_t> users_{1};  // the owner and the blocks in use; removing the last one deletes
  mutable Mutex mu_;
  Mode mode_ MR_GUARDED_BY(mu_) = Mode::kWaits;
  // The owner's alone.
  bool waits_ = true;
  int64_t left_ = 1, wait_ = 1;  // steps until the next is recorded
  // While a step is recorded:
  int64_t now_ MR_GUARDED_BY(mu_) = 0;
  std::vector<ArenaBlock> blocks_ MR_GUARDED_BY(mu_);
  std::unordered_map<void*, size_t> watched_ MR_GUARDED_BY(mu_);
  // With a plan:
  ArenaPlan plan_ MR_GUARDED_BY(mu_);
  struct Turn {
    std::vector<int> slots;  // in the order of the plan
    size_t next = 0;
  };
  std::map<std::pair<const std::string*, int64_t>, Turn> turns_ MR_GUARDED_BY(mu_);  // by owner and size
  std::vector<bool> taken_ MR_GUARDED_BY(mu_);                                       // by slot
  std::unordered_map<void*, int> slot_of_ MR_GUARDED_BY(mu_);  // blocks in the current region
  std::vector<Region> regions_ MR_GUARDED_BY(mu_);             // the current one last, if there is one
  bool has_region_ MR_GUARDED_BY(mu_) = false;
  size_t missed_ MR_GUARDED_BY(mu_) = 0, served_ MR_GUARDED_BY(mu_) = 0;  // bytes in this step
  int steps_missed_ MR_GUARDED_BY(mu_) = 0;
  int64_t planned_steps_ MR_GUARDED_BY(mu_) = 0;
};

}  // namespace millrace
