// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/step_arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tensor/allocation_owner.h"

namespace millrace {
namespace {

constexpr int64_t kMb = 1 << 20;

// The largest number of live bytes: a lower bound for all plans.
int64_t LeastBytes(const std::vector<ArenaBlock>& blocks) {
  int64_t most = 0;
  for (const ArenaBlock& at : blocks) {
    int64_t live = 0;
    for (const ArenaBlock& b : blocks) live += b.from <= at.from && at.from < b.until ? b.bytes : 0;
    most = std::max(most, live);
  }
  return most;
}

TEST(ArenaPlanTest, WhatLivesTogetherLiesApart) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<ArenaBlock> blocks;
    std::vector<size_t> live;
    int64_t now = 0;
    for (int i = 0; i < 40; ++i) {
      if (!live.empty() && random() % 2 == 0) {
        const size_t at = random() % live.size();
        blocks[live[at]].until = now++;
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
      } else {
        live.push_back(blocks.size());
        blocks.push_back({.bytes = static_cast<int64_t>(random() % 1000 + 1) * 1000 + 65536, .from = now++});
      }
    }
    const ArenaPlan plan = ArenaPlan::Make(blocks);
    ASSERT_EQ(plan.slots.size(), blocks.size());
    for (size_t i = 0; i < blocks.size(); ++i) {
      const ArenaPlan::Slot& a = plan.slots[i];
      if (blocks[i].until == ArenaBlock::kNever) {
        EXPECT_EQ(a.bytes, 0);
        continue;
      }
      EXPECT_EQ(a.bytes, blocks[i].bytes);
      EXPECT_EQ(a.offset % 64, 0);
      EXPECT_LE(a.offset + a.bytes, plan.bytes);
      for (size_t j = 0; j < i; ++j) {
        const ArenaPlan::Slot& b = plan.slots[j];
        if (b.bytes == 0) continue;
        const bool overlap = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
        const bool together = blocks[i].from < blocks[j].until && blocks[j].from < blocks[i].until;
        EXPECT_FALSE(overlap && together);
        EXPECT_EQ(overlap, std::count(a.overlapping.begin(), a.overlapping.end(), static_cast<int>(j)) == 1);
      }
    }
    std::erase_if(blocks, [](const ArenaBlock& b) { return b.until == ArenaBlock::kNever; });
    const int64_t least = LeastBytes(blocks);
    EXPECT_GE(plan.bytes, least);
    EXPECT_LE(plan.bytes, least * 3 / 2 + 40 * 64);
  }
}

TEST(ArenaPlanTest, BlocksOfOneSizeAreNoReasonToPlan) {
  std::vector<ArenaBlock> blocks;
  for (int64_t i = 0; i < 10; ++i) blocks.push_back({.bytes = 8 * kMb, .from = 2 * i, .until = 2 * i + 3});
  EXPECT_FALSE(ArenaPlan::Make(blocks).Pays());
  // One after the other, each of a different size.
  blocks.clear();
  for (int64_t i = 0; i < 10; ++i) blocks.push_back({.bytes = kMb << i, .from = 2 * i, .until = 2 * i + 1});
  const ArenaPlan plan = ArenaPlan::Make(blocks);
  EXPECT_EQ(plan.bytes, kMb << 9);
  EXPECT_EQ(plan.pooled_bytes, (kMb << 10) - kMb);
  EXPECT_TRUE(plan.Pays());
}

// Malloc that counts and records its blocks.
class CountingAllocator : public Allocator {
 public:
  std::string_view name() const override { return "counting"; }
  void* Allocate(size_t bytes) override {
    MutexLock lock(mu_);
    void* p = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    blocks_[p] = bytes;
    live_bytes_ += bytes;
    peak_bytes_ = std::max(peak_bytes_, live_bytes_);
    ++allocations_;
    return p;
  }
  void Deallocate(void* p, size_t bytes) override {
    MutexLock lock(mu_);
    EXPECT_EQ(blocks_[p], bytes);
    blocks_.erase(p);
    live_bytes_ -= bytes;
    std::free(p);
  }
  int allocations() {
    MutexLock lock(mu_);
    return allocations_;
  }
  size_t live_bytes() {
    MutexLock lock(mu_);
    return live_bytes_;
  }

 private:
  Mutex mu_;
  std::map<void*, size_t> blocks_ MR_GUARDED_BY(mu_);
  size_t live_bytes_ MR_GUARDED_BY(mu_) = 0, peak_bytes_ MR_GUARDED_BY(mu_) = 0;
  int allocations_ MR_GUARDED_BY(mu_) = 0;
};

class StepArenaTest : public ::testing::Test {
 protected:
  ~StepArenaTest() override {
    if (arena_ != nullptr) arena_->Release();
    EXPECT_EQ(base_.live_bytes(), 0u);
  }
  char* Make(size_t bytes) {
    char* p = static_cast<char*>(arena_->Allocate(bytes));
    std::memset(p, static_cast<int>(bytes % 251), bytes);
    return p;
  }
  void Drop(char* p, size_t bytes) {
    EXPECT_EQ(p[0], static_cast<char>(bytes % 251));
    EXPECT_EQ(p[bytes - 1], static_cast<char>(bytes % 251)) << "overwritten";
    arena_->Deallocate(p, bytes);
  }
  // Blocks of several sizes one after the other, each of which exists until the next one is allocated.
  void Chain() {
    char* before = nullptr;
    size_t before_bytes = 0;
    for (const size_t bytes : kSizes) {
      char* p = Make(bytes);
      if (before != nullptr) Drop(before, before_bytes);
      before = p;
      before_bytes = bytes;
    }
    Drop(before, before_bytes);
  }
  // Returns the number of allocations from the base.
  int Step(const std::function<void()>& work) {
    const int before = base_.allocations();
    in_arena_ = arena_->BeginStep();
    work();
    arena_->EndStep();
    return base_.allocations() - before;
  }
  void Learn() {
    Step([this] { Chain(); });
  }

  const std::vector<size_t> kSizes = {9 * kMb, 1 * kMb, 7 * kMb, 2 * kMb, 100'000, 5 * kMb, 3 * kMb};
  CountingAllocator base_;
  StepArena* arena_ = StepArena::Make(base_);
  bool in_arena_ = false;
};

TEST_F(StepArenaTest, AfterOneStepWasWatchedOnePieceServesAll) {
  EXPECT_EQ(Step([this] { Chain(); }), 7);
  EXPECT_TRUE(in_arena_) << "watched";
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Step([this] { Chain(); }), 1);
  EXPECT_EQ(arena_->planned_steps(), 10);
  EXPECT_EQ(base_.live_bytes(), 0u) << "between steps nothing is held";
}

TEST_F(StepArenaTest, SmallBlocksComeFromTheBase) {
  Learn();
  EXPECT_EQ(Step([this] {
              char* small = Make(1000);
              Chain();
              Drop(small, 1000);
            }),
            2);
  EXPECT_EQ(arena_->planned_steps(), 1);
}

TEST_F(StepArenaTest, WhatIsNotInThePlanOrHasNoRoomComesFromTheBase) {
  Learn();
  EXPECT_EQ(Step([this] {
              std::vector<char*> all;
              for (const size_t bytes : kSizes) all.push_back(Make(bytes));
              char* other = Make(4 * kMb);
              Drop(other, 4 * kMb);
              for (size_t i = 0; i < all.size(); ++i) Drop(all[i], kSizes[i]);
            }) > 3,
            true);
  EXPECT_EQ(arena_->planned_steps(), 0);
  EXPECT_EQ(Step([this] { Chain(); }), 1) << "one such step changes nothing";
}

TEST_F(StepArenaTest, WhatIsMissingInThePlanIsNoReasonToDropIt) {
  Learn();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Step([this] {
                Chain();
                Drop(Make(4 * kMb), 4 * kMb);
              }),
              2);
  }
}

TEST_F(StepArenaTest, OtherStepsAreWatchedAfterAWhile) {
  Learn();
  const auto other = [this] {
    for (const size_t bytes : {6 * kMb, 4 * kMb, 8 * kMb}) {
      char* p = Make(static_cast<size_t>(bytes));
      Drop(p, static_cast<size_t>(bytes));
    }
  };
  int steps = 0;
  while (Step(other) > 1 && steps < 100) ++steps;
  EXPECT_LT(steps, 40);
  EXPECT_EQ(Step(other), 1);
}

TEST_F(StepArenaTest, StepsWithoutLargeBlocksAreWatchedEverLess) {
  int watched = 0;
  for (int i = 0; i < 1000; ++i) {
    Step([this] { Drop(Make(1000), 1000); });
    watched += in_arena_ ? 1 : 0;
  }
  EXPECT_LT(watched, 7);
}

// For every order of tensors of one size.
TEST_F(StepArenaTest, WhatOutlivesWatchedStepsIsNotPlanned) {
  std::vector<char*> kept;
  const auto step = [&] {
    kept.push_back(Make(kSizes[0]));
    Chain();
    kept.push_back(Make(kSizes[1]));
  };
  Step(step);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Step(step), 3);
  EXPECT_EQ(arena_->planned_steps(), 5);
  for (size_t i = 0; i < kept.size(); ++i) Drop(kept[i], kSizes[i % 2]);
}

TEST_F(StepArenaTest, NodesHaveTheirOwnPlaces) {
  const std::string one = "one", other = "other";
  {
    const ScopedAllocationOwner owner(&one);
    Learn();
    EXPECT_EQ(Step([this] { Chain(); }), 1);
  }
  const ScopedAllocationOwner owner(&other);
  EXPECT_EQ(Step([this] { Chain(); }), 7);
}

TEST_F(StepArenaTest, WhatOutlivesAPlannedStepKeepsItsMemory) {
  Learn();
  char* kept = nullptr;
  Step([&] {
    kept = Make(kSizes[0]);
    Drop(Make(kSizes[1]), kSizes[1]);
  });
  for (int i = 0; i < 40; ++i) Step([this] { Chain(); });
  Drop(kept, kSizes[0]);
  // Also for the last reference.
  Step([&] { kept = Make(kSizes[0]); });
  StepArena* const arena = std::exchange(arena_, nullptr);
  arena->Release();
  EXPECT_EQ(kept[kSizes[0] - 1], static_cast<char>(kSizes[0] % 251));
  arena->Deallocate(kept, kSizes[0]);
}

TEST_F(StepArenaTest, ManyThreadsShareAStep) {
  Learn();
  for (int round = 0; round < 50; ++round) {
    Step([this] {
      std::vector<std::thread> threads;
      threads.reserve(4);
      for (int t = 0; t < 4; ++t) threads.emplace_back([this] { Chain(); });
      for (std::thread& thread : threads) thread.join();
    });
  }
}

}  // namespace
}  // namespace millrace
