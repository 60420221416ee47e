// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "tensor/allocation_owner.h"
#include "tensor/allocator.h"

namespace millrace {

struct BfcOptions {
  std::string name = "bfc";
  // The maximum number of bytes taken from the sub-allocator.
  int64_t limit_bytes = int64_t{64} << 30;
  // Take memory in regions that double, from 1 MiB on; otherwise the whole limit with the first allocation.
  bool allow_growth = true;
};

// "Best fit with coalescing": takes large regions from a sub-allocator and divides them into chunks. A chunk
// is a multiple of 256 bytes, aligned to 256. Free chunks are in bins by size; a request takes the smallest
// free chunk that is large enough (the lowest address among equals), which is split when it is twice as large
// as needed; a freed chunk is merged with free neighbours. Regions without a chunk in use are freed when
// memory is short. The memory itself is not written, so it may be a device's. Thread-safe; must outlive its
// allocations. Description: docs/memory.md.
class BfcAllocator : public Allocator, public ShortageReporter {
 public:
  static constexpr size_t kMinBytes = 256;
  static constexpr int kNumBins = 21;  // 256 B … 256 MiB; the last one is open-ended

  // `sub` outlives this.
  BfcAllocator(Allocator& sub, BfcOptions options);
  ~BfcAllocator() override;
  BfcAllocator(const BfcAllocator&) = delete;
  BfcAllocator& operator=(const BfcAllocator&) = delete;

  std::string_view name() const override { return options_.name; }
  void* Allocate(size_t bytes) override MR_EXCLUDES(mu_);
  // No effect for null. REQUIRES: `p` came from Allocate and was not freed since (checked).
  void Deallocate(void* p, size_t bytes) override MR_EXCLUDES(mu_);
  // bytes_in_use counts whole chunks. Exact.
  AllocatorStats Stats() const override MR_EXCLUDES(mu_);

  // The size of an allocation, after rounding; 0 for other memory. REQUIRES of `p` as for Deallocate.
  size_t AllocatedBytes(const void* p) const MR_EXCLUDES(mu_);

  // The distribution of free memory.
  struct Fragmentation {
    int64_t reserved_bytes = 0;      // taken from the sub-allocator
    int64_t free_bytes = 0;          // of those
    int64_t largest_free_bytes = 0;  // in one chunk
    int64_t wasted_bytes = 0;        // in chunks in use, beyond the requested bytes
    int free_chunks = 0;
    int chunks = 0;
    int regions = 0;
    // 0 when all free memory is in one chunk, near 1 when it is in many small ones.
    double Ratio() const {
      return free_bytes == 0 ? 0
                             : 1 - static_cast<double>(largest_free_bytes) / static_cast<double>(free_bytes);
    }
  };
  Fragmentation GetFragmentation() const MR_EXCLUDES(mu_);
  // The above, the chunks by bin and the largest holders, as text of several lines.
  std::string Report() const MR_EXCLUDES(mu_);
  // Why an allocation of `bytes` failed: limits, largest free chunk, largest holders by node. One line.
  std::string DescribeShortage(size_t bytes) const override MR_EXCLUDES(mu_);

  static size_t RoundUp(size_t bytes) {
    return bytes == 0 ? kMinBytes : (bytes + kMinBytes - 1) / kMinBytes * kMinBytes;
  }
  // floor(log2(bytes / 256)), limited to the existing bins. REQUIRES: bytes >= 256.
  static int BinOf(size_t bytes);

  // The first inconsistency of the data structures; empty if there is none. Visits everything.
  std::string FindInconsistencyForTest() const MR_EXCLUDES(mu_);

 private:
  using Handle = uint32_t;  // index in chunks_
  static constexpr Handle kNone = UINT32_MAX;

  struct FreeChunk {
    size_t size;
    char* at;
    Handle handle;
    friend bool operator<(const FreeChunk& a, const FreeChunk& b) {
      return a.size != b.size ? a.size < b.size : a.at < b.at;
    }
  };
  using Bin = std::set<FreeChunk>;

  struct Chunk {
    char* at = nullptr;
    size_t size = 0;
    size_t requested = 0;     // 0: free
    Handle previous = kNone;  // by address, within the region
    Handle next = kNone;
    std::array<char, 48> owner = {};  // the end of the name of the node that requested it
    bool in_use() const { return requested != 0; }
  };

  // One allocation of the sub-allocator.
  struct Region {
    void* memory = nullptr;  // as returned by the sub-allocator
    size_t memory_bytes = 0;
    char* begin = nullptr;  // aligned to 256
    size_t size = 0;
    // The chunk that starts at begin + 256 * i; undefined if none does. Allocated by calloc: pages in which
    // no chunk starts are never touched.
    struct Free {
      void operator()(Handle* p) const { std::free(p); }
    };
    std::unique_ptr<Handle[], Free> chunk_at;
    char* end() const { return begin + size; }
  };

  void* TakeFree(size_t rounded, size_t requested) MR_REQUIRES(mu_);
  Handle FindFree(size_t rounded) const MR_REQUIRES(mu_);
  void Split(Handle h, size_t rounded) MR_REQUIRES(mu_);
  Handle Coalesce(Handle h) MR_REQUIRES(mu_);
  // Joins `second` to `first`, which precedes it; both are in no bin.
  void Merge(Handle first, Handle second) MR_REQUIRES(mu_);
  void InsertInBin(Handle h) MR_REQUIRES(mu_);
  void RemoveFromBin(Handle h) MR_REQUIRES(mu_);
  Handle NewChunk() MR_REQUIRES(mu_);
  void DropChunk(Handle h) MR_REQUIRES(mu_);
  bool Extend(size_t rounded) MR_REQUIRES(mu_);
  bool AddRegion(size_t bytes) MR_REQUIRES(mu_);
  bool ReturnFreeRegions() MR_REQUIRES(mu_);
  Region* RegionOf(const void* p) MR_REQUIRES(mu_);
  const Region* RegionOf(const void* p) const MR_REQUIRES(mu_) {
    return const_cast<BfcAllocator*>(this)->RegionOf(p);
  }
  Handle& HandleAt(Region& region, const char* at) const {
    return region.chunk_at[static_cast<size_t>(at - region.begin) / kMinBytes];
  }
  Handle HandleOf(const void* p) const MR_REQUIRES(mu_);
  Fragmentation Measure() const MR_REQUIRES(mu_);
  std::string HoldersText(size_t most) const MR_REQUIRES(mu_);
  std::string CheckRegion(const Region& region, size_t* free_chunks, int64_t* in_use) const MR_REQUIRES(mu_);

  Allocator& sub_;
  const BfcOptions options_;

  mutable Mutex mu_;
  std::vector<Chunk> chunks_ MR_GUARDED_BY(mu_);
  Handle unused_chunk_ MR_GUARDED_BY(mu_) = kNone;  // list through `next`
  std::array<Bin, kNumBins> bins_ MR_GUARDED_BY(mu_);
  std::vector<Bin::node_type> spare_nodes_
      MR_GUARDED_BY(mu_);                           // of bins, so that none is allocated in steady state
  std::vector<Region> regions_ MR_GUARDED_BY(mu_);  // by address
  int64_t reserved_ MR_GUARDED_BY(mu_) = 0;
  int64_t next_region_bytes_ MR_GUARDED_BY(mu_) = 0;
  AllocatorStats stats_ MR_GUARDED_BY(mu_);
};

// The BFC allocator of host memory with that limit, shared by the process: tensors outlive sessions.
BfcAllocator& HostBfcAllocator(int64_t limit_bytes);

}  // namespace millrace
