// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "device/bfc_allocator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "millrace/status.h"
#include "millrace/tensor.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20;

// The system's memory, with counts of the calls.
class CountingAllocator : public Allocator {
 public:
  explicit CountingAllocator(int64_t budget = INT64_MAX) : budget_(budget) {}
  std::string_view name() const override { return "counting"; }
  void* Allocate(size_t bytes) override {
    if (static_cast<int64_t>(bytes) > budget_ - held_) return nullptr;
    void* p = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
    held_ += static_cast<int64_t>(bytes);
    ++regions_;
    return p;
  }
  void Deallocate(void* p, size_t bytes) override {
    held_ -= static_cast<int64_t>(bytes);
    --regions_;
    std::free(p);
  }
  int64_t held() const { return held_; }
  int regions() const { return regions_; }

 private:
  const int64_t budget_;
  int64_t held_ = 0;
  int regions_ = 0;
};

// A simple implementation of the same policy, over offsets in one region: a list that is searched linearly.
class ModelAllocator {
 public:
  static constexpr size_t kNone = SIZE_MAX;
  explicit ModelAllocator(size_t bytes) { blocks_[0] = {bytes, true}; }

  size_t Allocate(size_t bytes) {
    const size_t size = std::max<size_t>(1, (bytes + 255) / 256) * 256;
    auto best = blocks_.end();
    for (auto it = blocks_.begin(); it != blocks_.end(); ++it) {
      if (!it->second.free || it->second.size < size) continue;
      if (best == blocks_.end() || it->second.size < best->second.size) best = it;
    }
    if (best == blocks_.end()) return kNone;
    best->second.free = false;
    if (best->second.size >= 2 * size) {
      blocks_[best->first + size] = {best->second.size - size, true};
      best->second.size = size;
    }
    return best->first;
  }

  void Free(size_t offset) {
    blocks_[offset].free = true;
    for (auto it = blocks_.begin(); it != blocks_.end();) {
      const auto next = std::next(it);
      if (next != blocks_.end() && it->second.free && next->second.free) {
        it->second.size += next->second.size;
        blocks_.erase(next);
      } else {
        it = next;
      }
    }
  }

  int64_t in_use() const {
    int64_t sum = 0;
    for (const auto& [at, block] : blocks_) sum += block.free ? 0 : static_cast<int64_t>(block.size);
    return sum;
  }
  int64_t largest_free() const {
    int64_t most = 0;
    for (const auto& [at, block] : blocks_) {
      if (block.free) most = std::max(most, static_cast<int64_t>(block.size));
    }
    return most;
  }

 private:
  struct Block {
    size_t size;
    bool free;
  };
  std::map<size_t, Block> blocks_;
};

BfcOptions Options(int64_t limit, bool growth = true) {
  BfcOptions options;
  options.limit_bytes = limit;
  options.allow_growth = growth;
  return options;
}

size_t RandomSize(std::mt19937& random, int max_log) {
  const size_t top = size_t{1} << std::uniform_int_distribution<int>(0, max_log)(random);
  return std::uniform_int_distribution<size_t>(0, top)(random);
}

TEST(BfcAllocatorTest, BinsAreByPowersOfTwoOf256) {
  EXPECT_EQ(BfcAllocator::BinOf(256), 0);
  EXPECT_EQ(BfcAllocator::BinOf(511), 0);
  EXPECT_EQ(BfcAllocator::BinOf(512), 1);
  EXPECT_EQ(BfcAllocator::BinOf(1023), 1);
  EXPECT_EQ(BfcAllocator::BinOf(size_t{256} << 20), 20);
  EXPECT_EQ(BfcAllocator::BinOf(size_t{256} << 30), 20);
}

TEST(BfcAllocatorTest, RoundsUpAndAligns) {
  CountingAllocator memory;
  BfcAllocator bfc(memory, Options(8 * kMiB));
  for (const size_t bytes : {0, 1, 255, 256, 257, 5000}) {
    void* p = bfc.Allocate(bytes);
    ASSERT_NE(p, nullptr) << bytes;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 256, 0u) << bytes;
    EXPECT_EQ(bfc.AllocatedBytes(p), std::max<size_t>(1, (bytes + 255) / 256) * 256);
    bfc.Deallocate(p, bytes);
  }
  EXPECT_EQ(bfc.Stats().bytes_in_use, 0);
  EXPECT_EQ(bfc.Stats().num_allocs, 6);
}

TEST(BfcAllocatorTest, AChunkBelowTwiceTheRequestIsGivenWhole) {
  CountingAllocator memory;
  BfcAllocator bfc(memory, Options(1024, false));
  void* p = bfc.Allocate(768);
  EXPECT_EQ(bfc.AllocatedBytes(p), 1024u);
  bfc.Deallocate(p, 768);
  p = bfc.Allocate(512);
  EXPECT_EQ(bfc.AllocatedBytes(p), 512u);
  bfc.Deallocate(p, 512);
}

TEST(BfcAllocatorTest, FreedChunkJoinsBothNeighbours) {
  CountingAllocator memory;
  BfcAllocator bfc(memory, Options(kMiB, false));
  void* a = bfc.Allocate(256);
  void* b = bfc.Allocate(256);
  void* c = bfc.Allocate(256);
  EXPECT_EQ(static_cast<char*>(b) - static_cast<char*>(a), 256);
  bfc.Deallocate(a, 256);
  EXPECT_EQ(bfc.GetFragmentation().chunks, 4);  // a, b, c, the rest
  bfc.Deallocate(c, 256);
  EXPECT_EQ(bfc.GetFragmentation().chunks, 3);  // c is a part of the rest
  EXPECT_GT(bfc.GetFragmentation().Ratio(), 0);
  bfc.Deallocate(b, 256);
  EXPECT_EQ(bfc.GetFragmentation().chunks, 1);
  EXPECT_EQ(bfc.GetFragmentation().largest_free_bytes, kMiB);
  EXPECT_EQ(bfc.GetFragmentation().Ratio(), 0);
  EXPECT_EQ(bfc.FindInconsistencyForTest(), "");
}

TEST(BfcAllocatorTest, TakesTheSmallestChunkThatIsLargeEnough) {
  CountingAllocator memory;
  BfcAllocator bfc(memory, Options(kMiB, false));
  void* large = bfc.Allocate(2048);
  void* wall1 = bfc.Allocate(256);
  void* small = bfc.Allocate(1280);
  void* wall2 = bfc.Allocate(256);
  bfc.Deallocate(large, 2048);
  bfc.Deallocate(small, 1280);
  // Both are in the bin of 1024 to 2047 or above; the head of the first bin would be wrong for 1280.
  void* p = bfc.Allocate(1200);
  EXPECT_EQ(p, small);
  void* q = bfc.Allocate(1500);
  EXPECT_EQ(q, large);
  for (auto [at, bytes] : {std::pair(p, 1200), {q, 1500}, {wall1, 256}, {wall2, 256}})
    bfc.Deallocate(at, bytes);
}

TEST(BfcAllocatorTest, RegionsDouble) {
  CountingAllocator memory;
  BfcAllocator bfc(memory, Options(64 * kMiB));
  std::vector<void*> held;
  std::vector<int64_t> reserved;
  for (int i = 0; i < 7; ++i) {
    held.push_back(bfc.Allocate(kMiB));
    reserved.push_back(bfc.GetFragmentation().reserved_bytes / kMiB);
  }
  EXPECT_THAT(reserved, ::testing::ElementsAre(1, 3, 3, 7, 7, 7, 7));
  for (void* p : held) bfc.Deallocate(p, kMiB);
  EXPECT_EQ(bfc.FindInconsistencyForTest(), "");
}

TEST(BfcAllocatorTest, WithoutGrowthAllIsTakenAtOnce) {
  CountingAllocator memory;
  BfcAllocator bfc(memory, Options(16 * kMiB, false));
  EXPECT_EQ(memory.regions(), 0);
  void* p = bfc.Allocate(1);
  EXPECT_EQ(memory.regions(), 1);
  EXPECT_EQ(bfc.GetFragmentation().reserved_bytes, 16 * kMiB);
  EXPECT_EQ(bfc.Allocate(16 * kMiB), nullptr);
  bfc.Deallocate(p, 1);
}

TEST(BfcAllocatorTest, TheLimitHoldsAndIsUsedToTheEnd) {
  CountingAllocator memory;
  BfcAllocator bfc(memory, Options(5 * kMiB));
  std::vector<void*> held;
  while (void* p = bfc.Allocate(kMiB)) held.push_back(p);
  EXPECT_EQ(held.size(), 5u);  // regions of 1, 2 and 2 MiB
  EXPECT_EQ(bfc.Stats().bytes_in_use, 5 * kMiB);
  EXPECT_EQ(bfc.Stats().bytes_limit, 5 * kMiB);
  for (void* p : held) bfc.Deallocate(p, kMiB);
  EXPECT_EQ(bfc.Stats().peak_bytes_in_use, 5 * kMiB);
  EXPECT_EQ(bfc.Stats().largest_alloc_size, kMiB);
}

TEST(BfcAllocatorTest, FreeRegionsAreGivenBackWhenMemoryIsShort) {
  CountingAllocator memory;
  BfcAllocator bfc(memory, Options(4 * kMiB));
  void* small = bfc.Allocate(kMiB);
  void* other = bfc.Allocate(2 * kMiB);
  EXPECT_EQ(memory.regions(), 2);
  bfc.Deallocate(small, kMiB);
  bfc.Deallocate(other, 2 * kMiB);
  void* all = bfc.Allocate(4 * kMiB);
  EXPECT_NE(all, nullptr);
  EXPECT_EQ(memory.regions(), 1);
  bfc.Deallocate(all, 4 * kMiB);
  EXPECT_EQ(bfc.FindInconsistencyForTest(), "");
}

TEST(BfcAllocatorTest, ASubAllocatorThatIsShortGivesSmallerRegions) {
  CountingAllocator memory(3 * kMiB);
  BfcAllocator bfc(memory, Options(1024 * kMiB, false));
  void* p = bfc.Allocate(kMiB);
  ASSERT_NE(p, nullptr);
  EXPECT_LE(memory.held(), 3 * kMiB);
  EXPECT_GE(memory.held(), 2 * kMiB);
  EXPECT_EQ(bfc.Allocate(4 * kMiB), nullptr);
  bfc.Deallocate(p, kMiB);
  EXPECT_EQ(bfc.FindInconsistencyForTest(), "");
}

TEST(BfcAllocatorTest, EverythingGoesBackToTheSubAllocator) {
  CountingAllocator memory;
  {
    BfcAllocator bfc(memory, Options(64 * kMiB));
    for (int i = 0; i < 5; ++i) bfc.Deallocate(bfc.Allocate(kMiB << i), kMiB << i);
    EXPECT_GT(memory.held(), 0);
  }
  EXPECT_EQ(memory.held(), 0);
  EXPECT_EQ(memory.regions(), 0);
}

TEST(BfcAllocatorTest, HugeRequestsAreRefused) {
  CountingAllocator memory;
  BfcAllocator bfc(memory, Options(INT64_MAX));
  EXPECT_EQ(bfc.Allocate(SIZE_MAX), nullptr);
  EXPECT_EQ(bfc.Allocate(SIZE_MAX - 255), nullptr);
  BfcAllocator none(memory, Options(0));
  EXPECT_EQ(none.Allocate(1), nullptr);
  EXPECT_EQ(none.Allocate(0), nullptr);
}

TEST(BfcAllocatorTest, OutOfMemoryNamesTheLargestHolders) {
  CountingAllocator memory;
  BfcAllocator bfc(memory, Options(4 * kMiB, false));
  const std::string weights = "layer1/weights";
  const std::string logits = "a/very/long/scope/that/does/not/fit/into/the/books/of/chunks/logits";
  std::vector<Tensor> held;
  const auto allocate = [&](const std::string* owner, int64_t bytes) {
    const ScopedAllocationOwner scope(owner);
    held.push_back(*Tensor::Allocate(DataType::kUint8, TensorShape({bytes}), bfc));
  };
  allocate(&weights, kMiB - 64);
  allocate(&weights, kMiB - 64);
  allocate(&logits, kMiB / 2);
  allocate(nullptr, 1000);
  const Status status = Tensor::Allocate(DataType::kFloat, TensorShape({512, 1024}), bfc).status();
  EXPECT_TRUE(errors::IsResourceExhausted(status));
  EXPECT_THAT(status.message(), HasSubstr("OOM when allocating tensor with shape[512,1024] and type float"));
  EXPECT_THAT(status.message(), HasSubstr("ran out of memory trying to allocate 2.00MiB: limit 4.00MiB"));
  EXPECT_THAT(status.message(), HasSubstr("Largest holders: layer1/weights 2.00MiB in 2, "));
  EXPECT_THAT(status.message(),
              HasSubstr("/the/books/of/chunks/logits 512.25KiB, (outside kernels) 1.25KiB"));
}

TEST(BfcAllocatorTest, ReportListsBins) {
  CountingAllocator memory;
  BfcAllocator bfc(memory, Options(kMiB, false));
  void* p = bfc.Allocate(300);
  const std::string report = bfc.Report();
  EXPECT_THAT(report,
              HasSubstr("Allocator (bfc): limit 1.00MiB, reserved 1.00MiB in 1 regions, in use 512B"));
  EXPECT_THAT(report, HasSubstr("wasted by rounding 212B"));
  EXPECT_THAT(report, HasSubstr("Bin (512): chunks 1, in use 1; 512B, in use 512B, requested 300B\n"));
  EXPECT_THAT(report, HasSubstr("Bin (524288): chunks 1, in use 0; 1023.50KiB, in use 0B, requested 0B\n"));
  bfc.Deallocate(p, 300);
}

TEST(BfcAllocatorDeathTest, MistakesOfTheProgramAreFound) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  CountingAllocator memory;
  BfcAllocator bfc(memory, Options(kMiB, false));
  char* p = static_cast<char*>(bfc.Allocate(1024));
  int elsewhere = 0;
  EXPECT_DEATH(bfc.Deallocate(p + 256, 768), "");
  EXPECT_DEATH(bfc.Deallocate(&elsewhere, 4), "");
  bfc.Deallocate(p, 1024);
  EXPECT_DEATH(bfc.Deallocate(p, 1024), "");
}

// Compares each chunk with the simple implementation.
TEST(BfcAllocatorTest, PlacesChunksAsTheModelDoes) {
  for (const uint32_t seed : {1u, 2u, 3u, 4u}) {
    std::mt19937 random(seed);
    CountingAllocator memory;
    BfcAllocator bfc(memory, Options(2 * kMiB, false));
    ModelAllocator model(2 * kMiB);
    void* first = bfc.Allocate(0);
    const size_t first_offset = model.Allocate(0);
    ASSERT_EQ(first_offset, 0u);
    struct Held {
      void* p;
      size_t bytes;
    };
    std::vector<Held> held{{first, 0}};
    int refused = 0;
    for (int step = 0; step < 20000; ++step) {
      // Phases in which memory fills and empties.
      const bool allocate = held.empty() || random() % 100 < ((step / 1000) % 2 == 0 ? 60 : 40);
      if (allocate) {
        const size_t bytes = RandomSize(random, 17);
        const size_t offset = model.Allocate(bytes);
        char* p = static_cast<char*>(bfc.Allocate(bytes));
        ASSERT_EQ(p == nullptr, offset == ModelAllocator::kNone) << "seed " << seed << " step " << step;
        if (p == nullptr) {
          ++refused;
          continue;
        }
        ASSERT_EQ(p - static_cast<char*>(first), static_cast<std::ptrdiff_t>(offset));
        held.push_back({p, bytes});
      } else {
        const size_t i = random() % held.size();
        model.Free(static_cast<size_t>(static_cast<char*>(held[i].p) - static_cast<char*>(first)));
        bfc.Deallocate(held[i].p, held[i].bytes);
        held[i] = held.back();
        held.pop_back();
      }
      if (step % 16 != 0) continue;
      ASSERT_EQ(bfc.FindInconsistencyForTest(), "") << "seed " << seed << " step " << step;
      ASSERT_EQ(bfc.Stats().bytes_in_use, model.in_use());
      ASSERT_EQ(bfc.GetFragmentation().largest_free_bytes, model.largest_free());
    }
    EXPECT_GT(refused, 0);
    for (const Held& h : held) bfc.Deallocate(h.p, h.bytes);
    EXPECT_EQ(bfc.GetFragmentation().chunks, 1);
  }
}

// Over many regions: data written into a chunk is unchanged until the chunk is freed.
TEST(BfcAllocatorTest, ChunksOfManyRegionsDoNotOverlap) {
  std::mt19937 random(7);
  CountingAllocator memory(24 * kMiB);
  BfcAllocator bfc(memory, Options(32 * kMiB));
  struct Held {
    unsigned char* p;
    size_t bytes;
    unsigned char mark;
  };
  std::vector<Held> held;
  int64_t asked = 0;
  for (int step = 0; step < 6000; ++step) {
    if (held.empty() || random() % 100 < ((step / 500) % 2 == 0 ? 65u : 35u)) {
      const size_t bytes = RandomSize(random, 20);
      auto* p = static_cast<unsigned char*>(bfc.Allocate(bytes));
      if (p == nullptr) continue;
      const auto mark = static_cast<unsigned char>(random());
      std::memset(p, mark, bytes);
      held.push_back({p, bytes, mark});
      asked += static_cast<int64_t>(bytes);
    } else {
      const size_t i = random() % held.size();
      const Held h = held[i];
      for (size_t k = 0; k < h.bytes; ++k) ASSERT_EQ(h.p[k], h.mark) << "step " << step;
      bfc.Deallocate(h.p, h.bytes);
      asked -= static_cast<int64_t>(h.bytes);
      held[i] = held.back();
      held.pop_back();
    }
    ASSERT_EQ(bfc.FindInconsistencyForTest(), "") << "step " << step;
    const BfcAllocator::Fragmentation f = bfc.GetFragmentation();
    ASSERT_EQ(bfc.Stats().bytes_in_use + f.free_bytes, f.reserved_bytes);
    // An allocation of zero bytes counts as one byte.
    ASSERT_GE(bfc.Stats().bytes_in_use - f.wasted_bytes, asked);
    ASSERT_LE(f.reserved_bytes, 32 * kMiB);
  }
  EXPECT_GT(bfc.GetFragmentation().regions, 2);
  for (const Held& h : held) bfc.Deallocate(h.p, h.bytes);
  EXPECT_EQ(bfc.Stats().bytes_in_use, 0);
}

TEST(BfcAllocatorTest, ManyThreads) {
  BfcAllocator bfc(CpuAllocator(), Options(64 * kMiB));
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&bfc, t] {
      std::mt19937 random(t);
      std::vector<std::pair<unsigned char*, size_t>> held;
      for (int step = 0; step < 3000; ++step) {
        if (held.size() < 20 && random() % 2 == 0) {
          const size_t bytes = RandomSize(random, 16) + 1;
          auto* p = static_cast<unsigned char*>(bfc.Allocate(bytes));
          ASSERT_NE(p, nullptr);
          p[0] = p[bytes - 1] = static_cast<unsigned char>(t);
          held.emplace_back(p, bytes);
        } else if (!held.empty()) {
          const auto [p, bytes] = held.back();
          EXPECT_EQ(p[0], t);
          EXPECT_EQ(p[bytes - 1], t);
          bfc.Deallocate(p, bytes);
          held.pop_back();
        }
        if (step % 500 == 0) {
          EXPECT_EQ(bfc.FindInconsistencyForTest(), "");
        }
      }
      for (const auto& [p, bytes] : held) bfc.Deallocate(p, bytes);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bfc.Stats().bytes_in_use, 0);
  EXPECT_EQ(bfc.FindInconsistencyForTest(), "");
}

TEST(BfcAllocatorTest, HostAllocatorsAreSharedByLimit) {
  BfcAllocator& a = HostBfcAllocator(64 * kMiB);
  EXPECT_EQ(&a, &HostBfcAllocator(64 * kMiB));
  EXPECT_NE(&a, &HostBfcAllocator(32 * kMiB));
  EXPECT_EQ(a.name(), "cpu_bfc");
  EXPECT_EQ(a.Stats().bytes_limit, 64 * kMiB);
}

}  // namespace
}  // namespace millrace
