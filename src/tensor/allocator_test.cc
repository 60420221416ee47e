// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "tensor/allocator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "millrace/tensor.h"
#include "tensor/cpu_allocator.h"

namespace millrace {
namespace {

using cpu_allocator_internal::ClassOf;
using cpu_allocator_internal::ClassSize;
using cpu_allocator_internal::kCaches;
using cpu_allocator_internal::kNumClasses;
using cpu_allocator_internal::kSmallLimit;

TEST(CpuAllocatorTest, ClassesFitAndWasteAtMostAQuarter) {
  for (size_t bytes = 1; bytes <= kSmallLimit; ++bytes) {
    const int c = ClassOf(bytes);
    ASSERT_LT(c, kNumClasses);
    ASSERT_GE(ClassSize(c), bytes);
    ASSERT_LT(c == 0 ? 0 : ClassSize(c - 1), bytes);
    const size_t units = (bytes + 63) / 64 * 64;
    ASSERT_LE(ClassSize(c) * 4, units * 5) << bytes;
  }
}

TEST(CpuAllocatorTest, BlocksOfAllSizesAreAlignedAndApart) {
  Allocator& allocator = CpuAllocator();
  std::vector<std::pair<unsigned char*, size_t>> blocks;
  std::vector<size_t> sizes = {0, 1};
  for (size_t bytes = 2; bytes < (size_t{32} << 20); bytes = bytes * 5 / 4 + 1) {
    sizes.insert(sizes.end(), {bytes - 1, bytes, bytes + 1});
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    auto* p = static_cast<unsigned char*>(allocator.Allocate(sizes[i]));
    ASSERT_NE(p, nullptr) << sizes[i];
    ASSERT_EQ(reinterpret_cast<uintptr_t>(p) % Allocator::kAlignment, 0u);
    std::memset(p, static_cast<int>(i), sizes[i]);
    blocks.emplace_back(p, sizes[i]);
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    const auto& [p, n] = blocks[i];
    if (n > 0) {
      ASSERT_EQ(p[0], static_cast<unsigned char>(i));
      ASSERT_EQ(p[n - 1], static_cast<unsigned char>(i));
    }
    allocator.Deallocate(p, n);
  }
}

TEST(CpuAllocatorTest, FreedBlocksAreUsedAgain) {
  if (!kCaches) GTEST_SKIP() << "sanitizers see every block";
  for (const size_t bytes : {size_t{100}, size_t{4000}, size_t{100000}, size_t{5000000}}) {
    void* first = CpuAllocator().Allocate(bytes);
    CpuAllocator().Deallocate(first, bytes);
    void* second = CpuAllocator().Allocate(bytes - bytes / 100);  // the same class
    EXPECT_EQ(first, second) << bytes;
    CpuAllocator().Deallocate(second, bytes - bytes / 100);
  }
}

TEST(CpuAllocatorTest, CountsWhatIsInUse) {
  Allocator& allocator = CpuAllocator();
  const AllocatorStats before = allocator.Stats();
  void* small = allocator.Allocate(1000);
  void* large = allocator.Allocate(1000000);
  const AllocatorStats during = allocator.Stats();
  EXPECT_EQ(during.bytes_in_use - before.bytes_in_use, 1001000);
  EXPECT_EQ(during.num_allocs - before.num_allocs, 2);
  EXPECT_GE(during.peak_bytes_in_use, during.bytes_in_use);
  EXPECT_GE(during.largest_alloc_size, 1000000);
  EXPECT_GT(during.bytes_limit, 0);
  // Blocks that are freed by a thread that ends are counted correctly.
  std::thread([&] {
    allocator.Deallocate(small, 1000);
    allocator.Deallocate(large, 1000000);
  }).join();
  EXPECT_EQ(allocator.Stats().bytes_in_use, before.bytes_in_use);
}

TEST(CpuAllocatorTest, CacheOfLargeBlocksIsBounded) {
  if (!kCaches) GTEST_SKIP() << "sanitizers see every block";
  CpuAllocatorImpl& allocator = GetCpuAllocatorImpl();
  constexpr size_t kBytes = size_t{40} << 20;  // never touched, so only addresses are used
  std::vector<void*> blocks;
  for (int i = 0; i < 40; ++i) blocks.push_back(allocator.Allocate(kBytes));
  for (void* p : blocks) allocator.Deallocate(p, kBytes);
  EXPECT_GT(allocator.CachedBytesForTest(), int64_t{500} << 20);
  EXPECT_LE(allocator.CachedBytesForTest(), int64_t{1} << 30);
  // Another size finds room, at the cost of the first.
  void* other = allocator.Allocate(size_t{200} << 20);
  allocator.Deallocate(other, size_t{200} << 20);
  EXPECT_EQ(allocator.Allocate(size_t{200} << 20), other);
  allocator.Deallocate(other, size_t{200} << 20);
  EXPECT_LE(allocator.CachedBytesForTest(), int64_t{1} << 30);
  allocator.ReleaseCachedMemory();
  EXPECT_EQ(allocator.CachedBytesForTest(), 0);
}

TEST(CpuAllocatorTest, RefusesMoreThanTheMachineHas) {
  EXPECT_EQ(CpuAllocator().Allocate(size_t{1} << 50), nullptr);
  EXPECT_EQ(CpuAllocator().Allocate(SIZE_MAX - 100), nullptr);
  const auto limit = static_cast<size_t>(CpuAllocator().Stats().bytes_limit);
  EXPECT_EQ(CpuAllocator().Allocate(limit + 1), nullptr);
}

// Threads allocate blocks, pass them to other threads, free them and end.
TEST(CpuAllocatorTest, BlocksMayBeFreedByAnyThread) {
  struct Block {
    unsigned char* p;
    size_t bytes;
    unsigned char mark;
  };
  Mutex mu;
  std::vector<Block> shared;
  std::atomic<int> damaged{0};
  const AllocatorStats before = CpuAllocator().Stats();
  for (int generation = 0; generation < 4; ++generation) {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t, generation] {
        std::mt19937 random(static_cast<unsigned>(generation * 10 + t));
        for (int i = 0; i < 3000; ++i) {
          const size_t bytes = random() % 3 == 0 ? 4000 + random() % 20000 : 1 + random() % 600;
          Block block{static_cast<unsigned char*>(CpuAllocator().Allocate(bytes)), bytes,
                      static_cast<unsigned char>(random())};
          std::memset(block.p, block.mark, bytes);
          {
            MutexLock lock(mu);
            shared.push_back(block);
            if (shared.size() < 500) continue;
            std::swap(shared[random() % shared.size()], shared.back());
            block = shared.back();
            shared.pop_back();
          }
          if (block.p[0] != block.mark || block.p[block.bytes - 1] != block.mark) damaged.fetch_add(1);
          CpuAllocator().Deallocate(block.p, block.bytes);
        }
      });
    }
  }
  for (const Block& block : shared) CpuAllocator().Deallocate(block.p, block.bytes);
  EXPECT_EQ(damaged.load(), 0);
  EXPECT_EQ(CpuAllocator().Stats().bytes_in_use, before.bytes_in_use);
}

// A producer and a consumer: the lists of the one empty, those of the other overflow.
TEST(CpuAllocatorTest, MoreThanAListHoldsIsGivenOn) {
  std::vector<void*> blocks(5000);
  for (int round = 0; round < 3; ++round) {
    for (void*& p : blocks) p = CpuAllocator().Allocate(128);
    EXPECT_EQ(std::set<void*>(blocks.begin(), blocks.end()).size(), blocks.size());
    std::thread([&] {
      for (void* p : blocks) CpuAllocator().Deallocate(p, 128);
    }).join();
  }
}

struct FreesLate {
  Tensor tensor;
  ~FreesLate() { tensor = Tensor(); }
};

// A thread-local tensor may be destroyed after the thread's lists.
TEST(CpuAllocatorTest, TensorsOfEndingThreadsAreFreed) {
  const AllocatorStats before = CpuAllocator().Stats();
  std::thread([] {
    static thread_local FreesLate late;  // made before the lists, so destroyed after them
    late.tensor = Tensor::Scalar<float>(1);
  }).join();
  EXPECT_EQ(CpuAllocator().Stats().bytes_in_use, before.bytes_in_use);
}

TEST(FailingAllocatorTest, KeepsItsBudget) {
  FailingAllocator allocator(CpuAllocator(), 100);
  void* a = allocator.Allocate(60);
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(allocator.Allocate(41), nullptr);
  EXPECT_EQ(allocator.Allocate(SIZE_MAX), nullptr);
  void* b = allocator.Allocate(40);
  EXPECT_NE(b, nullptr);
  allocator.Deallocate(a, 60);
  allocator.Deallocate(b, 40);
  EXPECT_EQ(allocator.Allocate(101), nullptr);
}

}  // namespace
}  // namespace millrace
