// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "device/bfc_allocator.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <map>
#include <utility>

#include "base/fork.h"
#include "base/logging.h"

namespace millrace {
namespace {

constexpr int64_t kFirstRegion = int64_t{1} << 20;
// A chunk that is less than twice the request is handed out whole, unless that would waste this much.
constexpr size_t kMaxWaste = size_t{128} << 20;

}  // namespace

BfcAllocator::BfcAllocator(Allocator& sub, BfcOptions options)
    : Allocator(sub.memory_space()), sub_(sub), options_(std::move(options)) {
  next_region_bytes_ =
      options_.allow_growth ? std::min(options_.limit_bytes, kFirstRegion) : options_.limit_bytes;
  stats_.bytes_limit = options_.limit_bytes;
}

BfcAllocator::~BfcAllocator() {
  for (Region& region : regions_) sub_.Deallocate(region.memory, region.memory_bytes);
}

int BfcAllocator::BinOf(size_t bytes) {
  return std::min(kNumBins - 1, static_cast<int>(std::bit_width(bytes / kMinBytes)) - 1);
}

void* BfcAllocator::Allocate(size_t bytes) {
  if (bytes > static_cast<size_t>(std::max<int64_t>(options_.limit_bytes, 0))) return nullptr;
  const size_t rounded = RoundUp(bytes);
  MutexLock lock(mu_);
  if (void* p = TakeFree(rounded, bytes); p != nullptr) return p;
  if (Extend(rounded) || (ReturnFreeRegions() && Extend(rounded))) return TakeFree(rounded, bytes);
  return nullptr;
}

void* BfcAllocator::TakeFree(size_t rounded, size_t requested) {
  const Handle h = FindFree(rounded);
  if (h == kNone) return nullptr;
  RemoveFromBin(h);
  if (chunks_[h].size >= 2 * rounded || chunks_[h].size - rounded >= kMaxWaste) Split(h, rounded);
  Chunk& chunk = chunks_[h];
  chunk.requested = std::max<size_t>(requested, 1);
  chunk.owner[0] = 0;
  if (allocation_owner != nullptr) {
    const std::string& name = *allocation_owner;
    const size_t n = std::min(name.size(), chunk.owner.size() - 1);
    std::memcpy(chunk.owner.data(), name.data() + (name.size() - n), n);
    chunk.owner[n] = 0;
  }
  const auto size = static_cast<int64_t>(chunk.size);
  ++stats_.num_allocs;
  stats_.bytes_in_use += size;
  stats_.peak_bytes_in_use = std::max(stats_.peak_bytes_in_use, stats_.bytes_in_use);
  stats_.largest_alloc_size = std::max(stats_.largest_alloc_size, size);
  return chunk.at;
}

// In the request's own bin some chunks are too small; in the bins above it all are large enough.
BfcAllocator::Handle BfcAllocator::FindFree(size_t rounded) const {
  const int first = BinOf(rounded);
  const auto it = bins_[first].lower_bound(FreeChunk{rounded, nullptr, kNone});
  if (it != bins_[first].end()) return it->handle;
  for (int bin = first + 1; bin < kNumBins; ++bin) {
    if (!bins_[bin].empty()) return bins_[bin].begin()->handle;
  }
  return kNone;
}

void BfcAllocator::Split(Handle h, size_t rounded) {
  const Handle rest = NewChunk();  // may move chunks_
  Chunk& a = chunks_[h];
  Chunk& b = chunks_[rest];
  b.at = a.at + rounded;
  b.size = a.size - rounded;
  b.previous = h;
  b.next = a.next;
  if (a.next != kNone) chunks_[a.next].previous = rest;
  a.next = rest;
  a.size = rounded;
  HandleAt(*RegionOf(b.at), b.at) = rest;
  InsertInBin(rest);
}

void BfcAllocator::Deallocate(void* p, size_t bytes) {
  if (p == nullptr) return;
  MutexLock lock(mu_);
  const Handle h = HandleOf(p);
  MR_CHECK(h != kNone && chunks_[h].in_use() && chunks_[h].requested == std::max<size_t>(bytes, 1));
  stats_.bytes_in_use -= static_cast<int64_t>(chunks_[h].size);
  chunks_[h].requested = 0;
  InsertInBin(Coalesce(h));
}

BfcAllocator::Handle BfcAllocator::Coalesce(Handle h) {
  const Handle next = chunks_[h].next;
  if (next != kNone && !chunks_[next].in_use()) {
    RemoveFromBin(next);
    Merge(h, next);
  }
  const Handle previous = chunks_[h].previous;
  if (previous != kNone && !chunks_[previous].in_use()) {
    RemoveFromBin(previous);
    Merge(previous, h);
    h = previous;
  }
  return h;
}

void BfcAllocator::Merge(Handle first, Handle second) {
  Chunk& a = chunks_[first];
  const Chunk& b = chunks_[second];
  a.size += b.size;
  a.next = b.next;
  if (b.next != kNone) chunks_[b.next].previous = first;
  DropChunk(second);
}

void BfcAllocator::InsertInBin(Handle h) {
  const Chunk& chunk = chunks_[h];
  Bin& bin = bins_[BinOf(chunk.size)];
  const FreeChunk entry{chunk.size, chunk.at, h};
  if (spare_nodes_.empty()) {
    bin.insert(entry);
    return;
  }
  Bin::node_type node = std::move(spare_nodes_.back());
  spare_nodes_.pop_back();
  node.value() = entry;
  bin.insert(std::move(node));
}

void BfcAllocator::RemoveFromBin(Handle h) {
  const Chunk& chunk = chunks_[h];
  spare_nodes_.push_back(bins_[BinOf(chunk.size)].extract(FreeChunk{chunk.size, chunk.at, h}));
}

BfcAllocator::Handle BfcAllocator::NewChunk() {
  if (unused_chunk_ == kNone) {
    chunks_.emplace_back();
    return static_cast<Handle>(chunks_.size() - 1);
  }
  const Handle h = unused_chunk_;
  unused_chunk_ = std::exchange(chunks_[h].next, kNone);
  return h;
}

void BfcAllocator::DropChunk(Handle h) {
  chunks_[h] = Chunk();
  chunks_[h].next = unused_chunk_;
  unused_chunk_ = h;
}

// Takes a region that is large enough for `rounded` bytes: twice the size of the one before, less when the
// limit or the sub-allocator does not allow it.
bool BfcAllocator::Extend(size_t rounded) {
  constexpr int64_t kUnit = kMinBytes;
  const auto wanted = static_cast<int64_t>(rounded);
  const int64_t available = (options_.limit_bytes - reserved_) / kUnit * kUnit;
  if (wanted > available) return false;
  int64_t next = std::max(next_region_bytes_, kUnit);
  while (next < wanted) next *= 2;
  int64_t bytes = std::min(next, available);
  while (!AddRegion(static_cast<size_t>(bytes))) {
    if (bytes == wanted) return false;
    bytes = std::max(bytes / 10 * 9 / kUnit * kUnit, wanted);
  }
  if (next == next_region_bytes_) next *= 2;
  if (options_.allow_growth) next_region_bytes_ = next;
  return true;
}

bool BfcAllocator::AddRegion(size_t bytes) {
  const size_t slack = kMinBytes - kAlignment;  // the sub-allocator aligns to kAlignment only
  Region region;
  region.memory_bytes = bytes + slack;
  region.chunk_at.reset(static_cast<Handle*>(std::calloc(bytes / kMinBytes, sizeof(Handle))));
  if (region.chunk_at == nullptr) return false;
  region.memory = sub_.Allocate(region.memory_bytes);
  if (region.memory == nullptr) return false;
  const auto address = reinterpret_cast<uintptr_t>(region.memory);
  region.begin = static_cast<char*>(region.memory) + (kMinBytes - address % kMinBytes) % kMinBytes;
  region.size = bytes;
  const Handle h = NewChunk();
  chunks_[h].at = region.begin;
  chunks_[h].size = bytes;
  region.chunk_at[0] = h;
  reserved_ += static_cast<int64_t>(bytes);
  const auto after =
      std::find_if(regions_.begin(), regions_.end(), [&](const Region& r) { return r.begin > region.begin; });
  regions_.insert(after, std::move(region));
  InsertInBin(h);
  return true;
}

bool BfcAllocator::ReturnFreeRegions() {
  size_t kept = 0;
  for (size_t i = 0; i < regions_.size(); ++i) {
    Region& region = regions_[i];
    const Handle h = region.chunk_at[0];
    if (chunks_[h].in_use() || chunks_[h].next != kNone) {
      if (kept != i) regions_[kept] = std::move(region);
      ++kept;
      continue;
    }
    RemoveFromBin(h);
    DropChunk(h);
    reserved_ -= static_cast<int64_t>(region.size);
    sub_.Deallocate(region.memory, region.memory_bytes);
  }
  if (kept == regions_.size()) return false;
  regions_.erase(regions_.begin() + static_cast<std::ptrdiff_t>(kept), regions_.end());
  return true;
}

BfcAllocator::Region* BfcAllocator::RegionOf(const void* p) {
  const auto it = std::upper_bound(regions_.begin(), regions_.end(), p,
                                   [](const void* at, const Region& r) { return at < r.end(); });
  return it == regions_.end() || p < it->begin ? nullptr : &*it;
}

// kNone for an address that is not the start of a chunk.
BfcAllocator::Handle BfcAllocator::HandleOf(const void* p) const {
  const Region* region = RegionOf(p);
  if (region == nullptr) return kNone;
  const auto offset = static_cast<size_t>(static_cast<const char*>(p) - region->begin);
  const Handle h = region->chunk_at[offset / kMinBytes];
  return h < chunks_.size() && chunks_[h].at == p ? h : kNone;
}

size_t BfcAllocator::AllocatedBytes(const void* p) const {
  MutexLock lock(mu_);
  const Handle h = HandleOf(p);
  return h == kNone ? 0 : chunks_[h].size;
}

AllocatorStats BfcAllocator::Stats() const {
  MutexLock lock(mu_);
  return stats_;
}

BfcAllocator& HostBfcAllocator(int64_t limit_bytes) {
  struct Allocators {
    Mutex mu;
    std::map<int64_t, std::unique_ptr<BfcAllocator>> by_limit MR_GUARDED_BY(mu);
  };
  Allocators& allocators = OfProcess<Allocators>();
  MutexLock lock(allocators.mu);
  std::unique_ptr<BfcAllocator>& allocator = allocators.by_limit[limit_bytes];
  if (allocator == nullptr) {
    BfcOptions options;
    options.name = "cpu_bfc";
    options.limit_bytes = limit_bytes;
    allocator = std::make_unique<BfcAllocator>(CpuAllocator(), options);
  }
  return *allocator;
}

}  // namespace millrace
