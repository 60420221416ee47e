// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "tensor/cpu_allocator.h"

#include <sys/mman.h>
#include <unistd.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <functional>
#include <new>
#include <utility>

#include "base/fork.h"
#include "base/mutex.h"

namespace millrace {
namespace cpu_allocator_internal {

constinit thread_local ThreadCache* thread_cache = nullptr;
constinit Storage storage;

namespace {

constinit thread_local bool thread_cache_is_gone = false;

// A thread keeps at most two batches of each class, and trades whole batches with the other threads, so that
// a producer and a consumer of tensors in two threads take a lock once a batch.
constexpr int32_t BatchSize(int c) {
  return static_cast<int32_t>(std::clamp<size_t>((64 << 10) / ClassSize(c), 16, 512));
}
constexpr int kSharedBatches = 16;

// Large blocks lie in large pages where the system has them: fewer faults and fewer misses of the address
// cache.
void* SystemAllocate(size_t bytes) {
  constexpr size_t kLargePage = size_t{2} << 20;
  if (bytes < kLargePage)
    return std::aligned_alloc(Allocator::kAlignment, (bytes + kUnit - 1) / kUnit * kUnit);
  void* p = nullptr;
  if (::posix_memalign(&p, kLargePage, bytes) != 0) return nullptr;
#if defined(MADV_HUGEPAGE)
  (void)::madvise(p, bytes / kLargePage * kLargePage, MADV_HUGEPAGE);
#endif
  return p;
}

void FreeChain(FreeBlock* block) {
  while (block != nullptr) std::free(std::exchange(block, block->next));
}

// Full batches that no thread owns.
struct alignas(64) SharedLists {
  FreeBlock* TakeBatch() MR_EXCLUDES(mu) {
    MutexLock lock(mu);
    return count == 0 ? nullptr : batches[--count];
  }
  bool GiveBatch(FreeBlock* batch) MR_EXCLUDES(mu) {
    MutexLock lock(mu);
    if (count == kSharedBatches) return false;
    batches[count++] = batch;
    return true;
  }

  Mutex mu;
  int count MR_GUARDED_BY(mu) = 0;
  FreeBlock* batches[kSharedBatches] MR_GUARDED_BY(mu) = {};
};

struct Totals {
  std::atomic<int64_t> num_allocs{0};
  std::atomic<int64_t> bytes_in_use{0};
  std::atomic<int64_t> peak{0};
  std::atomic<int64_t> largest{0};
};

void RaiseTo(std::atomic<int64_t>& maximum, int64_t value) {
  int64_t old = maximum.load(std::memory_order_relaxed);
  while (old < value && !maximum.compare_exchange_weak(old, value, std::memory_order_relaxed)) {
  }
}

// Free large blocks by size: four bins to each power of two. Bounded in bytes over all bins.
class LargeCache {
 public:
  static constexpr int64_t kMaxBytes = int64_t{1} << 30;
  static constexpr int kNumBins = 4 * 48;

  static int BinOf(size_t bytes) {
    const int log = std::bit_width(bytes - 1) - 1;  // 2^log < bytes <= 2^(log+1)
    const size_t quarter = (bytes - 1 - (size_t{1} << log)) >> (log - 2);
    return 4 * log + static_cast<int>(quarter);
  }
  static size_t BinSize(int bin) {
    return (size_t{1} << (bin / 4)) + ((size_t{1} << (bin / 4 - 2)) * (bin % 4 + 1));
  }

  void* Take(int bin) {
    Bin& b = bins_[bin];
    MutexLock lock(b.mu);
    if (b.head == nullptr) return nullptr;
    cached_.fetch_sub(static_cast<int64_t>(BinSize(bin)), std::memory_order_relaxed);
    return std::exchange(b.head, b.head->next);
  }

  void Give(void* p, int bin) {
    const auto size = static_cast<int64_t>(BinSize(bin));
    if (size > kMaxBytes) return std::free(p);
    if (cached_.fetch_add(size, std::memory_order_relaxed) + size > kMaxBytes) EvictTo(kMaxBytes - size);
    Bin& b = bins_[bin];
    MutexLock lock(b.mu);
    auto* block = static_cast<FreeBlock*>(p);
    block->next = b.head;
    b.head = block;
  }

  // Frees blocks, bin after bin, until at most `target` bytes are kept.
  void EvictTo(int64_t target) {
    for (int i = 0; i < kNumBins && cached_.load(std::memory_order_relaxed) > target; ++i) {
      // Starts where the last call stopped, so that blocks of sizes that are not requested any more are freed
      // eventually.
      const int bin = static_cast<int>(cursor_.fetch_add(1, std::memory_order_relaxed) % kNumBins);
      while (cached_.load(std::memory_order_relaxed) > target) {
        void* p = Take(bin);
        if (p == nullptr) break;
        std::free(p);
      }
    }
  }

  // Drops all blocks without freeing them, even if other threads hold the locks.
  void Forget() {
    for (Bin& bin : bins_) new (&bin) Bin;
    cached_.store(0, std::memory_order_relaxed);
  }

  int64_t cached() const { return cached_.load(std::memory_order_relaxed); }

 private:
  struct alignas(64) Bin {
    Mutex mu;
    FreeBlock* head MR_GUARDED_BY(mu) = nullptr;
  };
  Bin bins_[kNumBins];
  std::atomic<int64_t> cached_{0};  // relaxed, as cursor_: bounds and statistics, publishes nothing
  std::atomic<uint32_t> cursor_{0};
};

struct Process {
  SharedLists shared[kNumClasses];
  LargeCache large;
  Totals totals;  // what large blocks, ended threads and threads without a cache did
  // Relaxed, as totals: a bound, publishes nothing.
  std::atomic<int64_t> memory_limit{int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE)};
  Mutex mu;
  ThreadCache* caches MR_GUARDED_BY(mu) = nullptr;

  // The bytes in use by all threads, and the peak.
  int64_t BytesInUse() MR_EXCLUDES(mu) {
    int64_t sum = totals.bytes_in_use.load(std::memory_order_relaxed);
    MutexLock lock(mu);
    for (ThreadCache* c = caches; c != nullptr; c = c->next)
      sum += c->bytes_in_use.load(std::memory_order_relaxed);
    return sum;
  }
};

// In a child of fork() the locks may be held by threads that it does not have, with the lists half changed.
void RenewInChild() MR_NO_THREAD_SAFETY_ANALYSIS;

Process& TheProcess() {
  static Process& process = [] {
    RunInForkedChildren(RenewInChild);
    return std::ref(*new Process);  // tensors may be freed while static objects are destroyed
  }();
  return process;
}

void RenewInChild() {
  Process& process = TheProcess();
  for (SharedLists& lists : process.shared) new (&lists) SharedLists;
  process.large.Forget();
  new (&process.mu) Mutex;
}

void Retire(ThreadCache* cache) {
  Process& process = TheProcess();
  for (int c = 0; c < kNumClasses; ++c) FreeChain(cache->lists[c].head);
  MutexLock lock(process.mu);
  process.totals.num_allocs.fetch_add(cache->num_allocs.load(std::memory_order_relaxed),
                                      std::memory_order_relaxed);
  process.totals.bytes_in_use.fetch_add(cache->bytes_in_use.load(std::memory_order_relaxed),
                                        std::memory_order_relaxed);
  (cache->prev == nullptr ? process.caches : cache->prev->next) = cache->next;
  if (cache->next != nullptr) cache->next->prev = cache->prev;
  delete cache;
}

// Its destructor ends the thread's cache. Tensors that later destructors free bypass it.
struct ThreadExit {
  ~ThreadExit() {
    thread_cache_is_gone = true;
    Retire(std::exchange(thread_cache, nullptr));
  }
};

// Null once the thread is ending.
ThreadCache* GetThreadCache() {
  if (thread_cache != nullptr || thread_cache_is_gone) return thread_cache;
  auto* cache = new (std::nothrow) ThreadCache;
  if (cache == nullptr) return nullptr;
  for (int c = 0; c < kNumClasses; ++c) cache->lists[c].room = 2 * BatchSize(c);
  {
    Process& process = TheProcess();
    MutexLock lock(process.mu);
    cache->next = process.caches;
    if (cache->next != nullptr) cache->next->prev = cache;
    process.caches = cache;
  }
  thread_cache = cache;
  static thread_local ThreadExit at_exit;
  (void)at_exit;
  return cache;
}

// The thread's list of class c is empty.
void* AllocateSmall(size_t bytes) {
  const int c = ClassOf(bytes);
  ThreadCache* cache = GetThreadCache();
  Process& process = TheProcess();
  void* p = nullptr;
  if (cache != nullptr) {
    ThreadCache::List& list = cache->lists[c];
    if (FreeBlock* batch = process.shared[c].TakeBatch(); batch != nullptr) {
      p = batch;
      list.head = batch->next;
      list.room -= BatchSize(c) - 1;
    }
  }
  if (p == nullptr) p = SystemAllocate(ClassSize(c));
  if (p == nullptr) return nullptr;
  RaiseTo(process.totals.largest, static_cast<int64_t>(bytes));
  if (cache != nullptr) {
    cache->Count(1, static_cast<int64_t>(bytes));
  } else {
    process.totals.num_allocs.fetch_add(1, std::memory_order_relaxed);
    process.totals.bytes_in_use.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  }
  return p;
}

// The thread's list is full, or there is none.
void DeallocateSmall(void* p, size_t bytes) {
  const int c = ClassOf(bytes);
  ThreadCache* cache = GetThreadCache();
  Process& process = TheProcess();
  if (cache == nullptr) {
    process.totals.bytes_in_use.fetch_sub(static_cast<int64_t>(bytes), std::memory_order_relaxed);
    return std::free(p);
  }
  ThreadCache::List& list = cache->lists[c];
  auto* block = static_cast<FreeBlock*>(p);
  block->next = list.head;
  list.head = block;
  --list.room;
  cache->Count(0, -static_cast<int64_t>(bytes));
  if (list.room >= 0) return;
  FreeBlock* batch = list.head;
  FreeBlock* last = batch;
  for (int i = 1; i < BatchSize(c); ++i) last = last->next;
  list.head = std::exchange(last->next, nullptr);
  list.room += BatchSize(c);
  if (!process.shared[c].GiveBatch(batch)) FreeChain(batch);
}

bool AddInUse(Process& process, int64_t bytes) {
  Totals& totals = process.totals;
  const int64_t in_use = totals.bytes_in_use.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (in_use > process.memory_limit.load(std::memory_order_relaxed)) {
    totals.bytes_in_use.fetch_sub(bytes, std::memory_order_relaxed);
    return false;
  }
  RaiseTo(totals.peak, in_use);
  totals.num_allocs.fetch_add(1, std::memory_order_relaxed);
  RaiseTo(totals.largest, bytes);
  return true;
}

void* AllocateLarge(size_t bytes) {
  Process& process = TheProcess();
  // A request of more memory than the machine has would get the process killed instead of an error.
  if (bytes > static_cast<size_t>(process.memory_limit.load(std::memory_order_relaxed))) return nullptr;
  const auto size = static_cast<int64_t>(bytes);
  if (!AddInUse(process, size)) return nullptr;
  void* p = nullptr;
  if (!kCaches) {
    p = SystemAllocate(std::max<size_t>(bytes, 1));
  } else {
    const int bin = LargeCache::BinOf(bytes);
    p = process.large.Take(bin);
    if (p == nullptr) p = SystemAllocate(LargeCache::BinSize(bin));
    if (p == nullptr) {
      process.large.EvictTo(0);
      p = SystemAllocate(LargeCache::BinSize(bin));
    }
  }
  if (p == nullptr) process.totals.bytes_in_use.fetch_sub(size, std::memory_order_relaxed);
  return p;
}

}  // namespace
}  // namespace cpu_allocator_internal

using namespace cpu_allocator_internal;  // NOLINT(google-build-using-namespace): this is its source file

void* CpuAllocatorImpl::AllocateSlow(size_t bytes) {
  return kCaches && bytes <= kSmallLimit ? AllocateSmall(bytes) : AllocateLarge(bytes);
}

void CpuAllocatorImpl::DeallocateSlow(void* p, size_t bytes) {
  if (kCaches && bytes <= kSmallLimit) return DeallocateSmall(p, bytes);
  Process& process = TheProcess();
  process.totals.bytes_in_use.fetch_sub(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  if (!kCaches) return std::free(p);
  process.large.Give(p, LargeCache::BinOf(bytes));
}

void CpuAllocatorImpl::SetMemoryLimit(int64_t bytes) {
  TheProcess().memory_limit.store(bytes, std::memory_order_relaxed);
}

AllocatorStats CpuAllocatorImpl::Stats() const {
  Process& process = TheProcess();
  AllocatorStats stats;
  stats.bytes_in_use = process.BytesInUse();
  RaiseTo(process.totals.peak, stats.bytes_in_use);
  stats.peak_bytes_in_use = process.totals.peak.load(std::memory_order_relaxed);
  stats.largest_alloc_size = process.totals.largest.load(std::memory_order_relaxed);
  stats.bytes_limit = process.memory_limit.load(std::memory_order_relaxed);
  stats.num_allocs = process.totals.num_allocs.load(std::memory_order_relaxed);
  MutexLock lock(process.mu);
  for (ThreadCache* c = process.caches; c != nullptr; c = c->next) {
    stats.num_allocs += c->num_allocs.load(std::memory_order_relaxed);
  }
  return stats;
}

void CpuAllocatorImpl::ReleaseCachedMemory(int64_t keep) {
  TheProcess().large.EvictTo(keep);
#if defined(__GLIBC__)
  // Blocks of up to 32 MiB may be in malloc's heap, which returns only its end to the system.
  if (keep == 0) ::malloc_trim(0);
#endif
}

int64_t CpuAllocatorImpl::CachedBytesForTest() const { return TheProcess().large.cached(); }

Allocator& CpuAllocator() { return GetCpuAllocatorImpl(); }

}  // namespace millrace
