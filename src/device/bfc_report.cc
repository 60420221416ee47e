// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// The report of a BfcAllocator, and the check of its invariants.
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

#include "base/byte_size.h"
#include "device/bfc_allocator.h"
#include "millrace/status.h"

namespace millrace {
namespace {

constexpr size_t kMostHolders = 10;

}  // namespace

BfcAllocator::Fragmentation BfcAllocator::Measure() const {
  Fragmentation f;
  f.reserved_bytes = reserved_;
  f.regions = static_cast<int>(regions_.size());
  for (const Region& region : regions_) {
    for (Handle h = region.chunk_at[0]; h != kNone; h = chunks_[h].next) {
      const Chunk& chunk = chunks_[h];
      const auto size = static_cast<int64_t>(chunk.size);
      ++f.chunks;
      if (chunk.in_use()) {
        f.wasted_bytes += size - static_cast<int64_t>(chunk.requested);
        continue;
      }
      ++f.free_chunks;
      f.free_bytes += size;
      f.largest_free_bytes = std::max(f.largest_free_bytes, size);
    }
  }
  return f;
}

BfcAllocator::Fragmentation BfcAllocator::GetFragmentation() const {
  MutexLock lock(mu_);
  return Measure();
}

// "a 4.00MiB in 2, b 1.00MiB, …", largest first.
std::string BfcAllocator::HoldersText(size_t most) const {
  std::map<std::string_view, std::pair<int64_t, int>> held;
  for (const Region& region : regions_) {
    for (Handle h = region.chunk_at[0]; h != kNone; h = chunks_[h].next) {
      const Chunk& chunk = chunks_[h];
      if (!chunk.in_use()) continue;
      auto& [bytes, count] = held[chunk.owner.data()];
      bytes += static_cast<int64_t>(chunk.size);
      ++count;
    }
  }
  std::vector<std::pair<std::string_view, std::pair<int64_t, int>>> sorted(held.begin(), held.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.first > b.second.first; });
  std::string text;
  for (size_t i = 0; i < sorted.size() && i < most; ++i) {
    const auto& [name, what] = sorted[i];
    if (!text.empty()) text += ", ";
    text += StrCat(name.empty() ? "(outside kernels)" : name, " ", ByteSizeText(what.first));
    if (what.second > 1) text += StrCat(" in ", what.second);
  }
  if (sorted.size() > most) text += StrCat(", and ", sorted.size() - most, " more");
  return text.empty() ? "nobody" : text;
}

std::string BfcAllocator::DescribeShortage(size_t bytes) const {
  MutexLock lock(mu_);
  const Fragmentation f = Measure();
  return StrCat("Allocator (", options_.name, ") ran out of memory trying to allocate ",
                ByteSizeText(static_cast<int64_t>(std::min<size_t>(bytes, INT64_MAX))), ": limit ",
                ByteSizeText(options_.limit_bytes), ", in use ", ByteSizeText(stats_.bytes_in_use),
                ", free in regions ", ByteSizeText(f.free_bytes), ", largest free chunk ",
                ByteSizeText(f.largest_free_bytes), ". Largest holders: ", HoldersText(kMostHolders));
}

std::string BfcAllocator::Report() const {
  MutexLock lock(mu_);
  struct Row {
    int chunks = 0;
    int in_use = 0;
    int64_t bytes = 0;
    int64_t bytes_in_use = 0;
    int64_t requested = 0;
  };
  std::array<Row, kNumBins> rows;
  for (const Region& region : regions_) {
    for (Handle h = region.chunk_at[0]; h != kNone; h = chunks_[h].next) {
      const Chunk& chunk = chunks_[h];
      Row& row = rows[static_cast<size_t>(BinOf(chunk.size))];
      ++row.chunks;
      row.bytes += static_cast<int64_t>(chunk.size);
      if (!chunk.in_use()) continue;
      ++row.in_use;
      row.bytes_in_use += static_cast<int64_t>(chunk.size);
      row.requested += static_cast<int64_t>(chunk.requested);
    }
  }
  const Fragmentation f = Measure();
  std::string text =
      StrCat("Allocator (", options_.name, "): limit ", ByteSizeText(options_.limit_bytes), ", reserved ",
             ByteSizeText(f.reserved_bytes), " in ", f.regions, " regions, in use ",
             ByteSizeText(stats_.bytes_in_use), ", peak ", ByteSizeText(stats_.peak_bytes_in_use), ", free ",
             ByteSizeText(f.free_bytes), " in ", f.free_chunks, " chunks, largest ",
             ByteSizeText(f.largest_free_bytes), ", wasted by rounding ", ByteSizeText(f.wasted_bytes),
             ", allocations ", stats_.num_allocs, "\n");
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    if (row.chunks == 0) continue;
    text += StrCat("Bin (", int64_t{kMinBytes} << i, "): chunks ", row.chunks, ", in use ", row.in_use, "; ",
                   ByteSizeText(row.bytes), ", in use ", ByteSizeText(row.bytes_in_use), ", requested ",
                   ByteSizeText(row.requested), "\n");
  }
  return StrCat(text, "Largest holders: ", HoldersText(kMostHolders), "\n");
}

std::string BfcAllocator::CheckRegion(const Region& region, size_t* free_chunks, int64_t* in_use) const {
  const char* at = region.begin;
  Handle previous = kNone;
  for (Handle h = region.chunk_at[0]; h != kNone; h = chunks_[h].next) {
    const Chunk& chunk = chunks_[h];
    if (chunk.at != at) return "a gap or an overlap between chunks";
    if (chunk.previous != previous) return "a wrong link to the chunk before";
    if (chunk.size == 0 || chunk.size % kMinBytes != 0)
      return "a chunk of a size that is not a multiple of 256";
    if (HandleOf(chunk.at) != h) return "a chunk that is not found by its address";
    const size_t binned = bins_[BinOf(chunk.size)].count(FreeChunk{chunk.size, chunk.at, h});
    if (chunk.in_use()) {
      if (binned != 0) return "a chunk in use in a bin";
      if (chunk.requested > chunk.size) return "a chunk smaller than the request";
      *in_use += static_cast<int64_t>(chunk.size);
    } else {
      if (binned != 1) return "a free chunk outside its bin";
      if (previous != kNone && !chunks_[previous].in_use()) return "two free neighbours";
      ++*free_chunks;
    }
    at += chunk.size;
    previous = h;
  }
  return at == region.end() ? "" : "a region that its chunks do not fill";
}

std::string BfcAllocator::FindInconsistencyForTest() const {
  MutexLock lock(mu_);
  size_t free_chunks = 0;
  int64_t in_use = 0;
  int64_t reserved = 0;
  const char* end = nullptr;
  for (const Region& region : regions_) {
    if (end != nullptr && region.begin < end) return "regions out of order";
    end = region.end();
    reserved += static_cast<int64_t>(region.size);
    if (std::string wrong = CheckRegion(region, &free_chunks, &in_use); !wrong.empty()) return wrong;
  }
  size_t binned = 0;
  for (const Bin& bin : bins_) binned += bin.size();
  if (binned != free_chunks) return "bins with missing chunks";
  if (reserved != reserved_ || reserved > options_.limit_bytes) return "a wrong sum of regions";
  if (in_use != stats_.bytes_in_use) return "a wrong sum in use";
  if (in_use > stats_.peak_bytes_in_use) return "a peak below the present";
  return "";
}

}  // namespace millrace
