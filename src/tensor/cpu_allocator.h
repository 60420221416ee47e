// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tensor/allocator.h"

// Under the sanitizers every block is allocated by malloc, so that they detect each use after free. Define it
// as 1 to test the caches themselves under a sanitizer.
#ifndef MR_ALLOCATOR_CACHES
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MR_ALLOCATOR_CACHES 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define MR_ALLOCATOR_CACHES 0
#endif
#endif
#endif
#ifndef MR_ALLOCATOR_CACHES
#define MR_ALLOCATOR_CACHES 1
#endif

namespace millrace {
namespace cpu_allocator_internal {

inline constexpr bool kCaches = MR_ALLOCATOR_CACHES != 0;

// Blocks of up to 4 KiB and a buffer's header are small. Size classes are multiples of 64 bytes, four to each
// power of two, so that at most a quarter of a block is unused.
inline constexpr size_t kUnit = 64;
inline constexpr size_t kSmallLimit = 4096 + 64;
inline constexpr uint8_t kClassUnits[] = {1,  2,  3,  4,  5,  6,  7,  8,  10, 12,
                                          14, 16, 20, 24, 28, 32, 40, 48, 56, 65};
inline constexpr int kNumClasses = sizeof(kClassUnits);

struct ClassTable {
  uint8_t of_units[kSmallLimit / kUnit + 1];
  constexpr ClassTable() : of_units() {
    int c = 0;
    for (size_t units = 0; units <= kSmallLimit / kUnit; ++units) {
      if (units > kClassUnits[c]) ++c;
      of_units[units] = static_cast<uint8_t>(c);
    }
  }
};
inline constexpr ClassTable kClassTable;
constexpr int ClassOf(size_t bytes) { return kClassTable.of_units[(bytes + kUnit - 1) / kUnit]; }
constexpr size_t ClassSize(int c) { return kClassUnits[c] * kUnit; }

struct FreeBlock {
  FreeBlock* next;
};

// The free blocks of one thread. Only that thread uses the lists; any thread may read the counters.
struct ThreadCache {
  struct List {
    FreeBlock* head = nullptr;
    int32_t room = 0;  // number of blocks that may still be added
  };
  List lists[kNumClasses];
  // Relaxed, and written by one thread, so that a plain addition suffices.
  std::atomic<int64_t> num_allocs{0};
  std::atomic<int64_t> bytes_in_use{0};  // allocated minus freed by this thread; may be negative
  ThreadCache* prev = nullptr;           // Guarded by the registry's mutex, as next.
  ThreadCache* next = nullptr;

  void Count(int64_t allocs, int64_t bytes) {
    num_allocs.store(num_allocs.load(std::memory_order_relaxed) + allocs, std::memory_order_relaxed);
    bytes_in_use.store(bytes_in_use.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
  }
};

// initial-exec: one load in a shared library too, instead of a call. It takes 8 bytes of the static TLS
// block.
extern constinit thread_local ThreadCache* thread_cache __attribute__((tls_model("initial-exec")));

}  // namespace cpu_allocator_internal

// See CpuAllocator(). The fast paths are here so that Buffer can inline them.
class CpuAllocatorImpl final : public Allocator {
 public:
  std::string_view name() const override { return "cpu"; }

  void* Allocate(size_t bytes) override {
    using namespace cpu_allocator_internal;  // NOLINT(google-build-using-namespace): one name below
    ThreadCache* cache = thread_cache;
    if (kCaches && bytes <= kSmallLimit && cache != nullptr) [[likely]] {
      ThreadCache::List& list = cache->lists[ClassOf(bytes)];
      if (FreeBlock* block = list.head; block != nullptr) [[likely]] {
        list.head = block->next;
        ++list.room;
        cache->Count(1, static_cast<int64_t>(bytes));
        return block;
      }
    }
    return AllocateSlow(bytes);
  }

  void Deallocate(void* p, size_t bytes) override {
    using namespace cpu_allocator_internal;  // NOLINT(google-build-using-namespace)
    ThreadCache* cache = thread_cache;
    if (kCaches && bytes <= kSmallLimit && cache != nullptr) [[likely]] {
      ThreadCache::List& list = cache->lists[ClassOf(bytes)];
      if (list.room > 0) [[likely]] {
        auto* block = static_cast<FreeBlock*>(p);
        block->next = list.head;
        list.head = block;
        --list.room;
        cache->Count(0, -static_cast<int64_t>(bytes));
        return;
      }
    }
    DeallocateSlow(p, bytes);
  }

  AllocatorStats Stats() const override;

  // Refuses large blocks when more than `bytes` would be in use; initially the machine's memory.
  void SetMemoryLimit(int64_t bytes);
  // Returns cached large blocks to the system until at most `keep` bytes are left.
  void ReleaseCachedMemory(int64_t keep = 0);
  // Bytes of free large blocks kept for reuse.
  int64_t CachedBytesForTest() const;

 private:
  void* AllocateSlow(size_t bytes);
  void DeallocateSlow(void* p, size_t bytes);
};

namespace cpu_allocator_internal {
// Created before other code runs and never destroyed: tensors in static objects use it.
struct Storage {
  constexpr Storage() : allocator() {}
  ~Storage() {}
  union {
    CpuAllocatorImpl allocator;
  };
};
extern constinit Storage storage;
}  // namespace cpu_allocator_internal

inline CpuAllocatorImpl& GetCpuAllocatorImpl() { return cpu_allocator_internal::storage.allocator; }

}  // namespace millrace
