// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/allocation_trace.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "base/byte_size.h"
#include "base/strings.h"
#include "millrace/status.h"
#include "tensor/allocation_owner.h"

namespace millrace {

namespace {

class ReportingTrace final : public AllocationTrace, public ShortageReporter {
 public:
  ReportingTrace(Allocator& base, const ShortageReporter* reporter, Clock::time_point start,
                 std::string device)
      : AllocationTrace(base, start), reporter_(reporter), device_(std::move(device)) {}
  std::string DescribeShortage(size_t bytes) const override {
    std::string text = reporter_ == nullptr ? "" : reporter_->DescribeShortage(bytes);
    if (!device_.empty()) text += DescribeHolders(device_);
    return text;
  }

 private:
  ~ReportingTrace() override = default;

  const ShortageReporter* const reporter_;
  const std::string device_;  // "": nodes are not listed
};

}  // namespace

uint32_t ThreadNumber() {
  static std::atomic<uint32_t> next{0};  // relaxed: only the numbers matter
  thread_local const uint32_t mine = next.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

AllocationTrace* AllocationTrace::Make(Allocator& base, Clock::time_point start, std::string device) {
  const auto* const reporter = dynamic_cast<const ShortageReporter*>(&base);
  if (reporter == nullptr && device.empty()) return new AllocationTrace(base, start);
  return new ReportingTrace(base, reporter, start, std::move(device));
}

std::string AllocationTrace::DescribeHolders(std::string_view device) const {
  constexpr size_t kMostNodes = 100;
  std::map<std::string, int64_t> held;
  {
    MutexLock lock(mu_);
    for (const auto& [block, note] : live_) {
      const std::string* const owner = notes_[note].owner;
      held[owner == nullptr ? "unknown" : *owner] += notes_[note].bytes;
    }
  }
  std::vector<std::pair<int64_t, std::string>> largest;
  for (const auto& [node, bytes] : held) largest.emplace_back(bytes, node);
  std::sort(largest.begin(), largest.end(), std::greater<>());
  std::string text = StrCat("\nCurrent usage from device: ", device, ", allocator: ", name(), "\n");
  for (size_t i = 0; i < std::min(largest.size(), kMostNodes); ++i) {
    text += StrCat("  ", ByteSizeText(largest[i].first), " from ", largest[i].second, "\n");
  }
  if (largest.size() <= kMostNodes) return text;
  int64_t rest = 0;
  for (size_t i = kMostNodes; i < largest.size(); ++i) rest += largest[i].first;
  return StrCat(text, "  Remaining ", largest.size() - kMostNodes, " nodes with ", ByteSizeText(rest), "\n");
}

void* AllocationTrace::Allocate(size_t bytes) {
  void* const p = base_.Allocate(bytes);
  if (p == nullptr) return nullptr;
  users_.fetch_add(1, std::memory_order_relaxed);  // the caller's own use keeps it above zero
  MutexLock lock(mu_);
  if (open_ && notes_.size() < kMostNotes) {
    live_[p] = notes_.size();
    const std::string* owner = nullptr;
    if (allocation_owner != nullptr) owner = &*owners_.insert(*allocation_owner).first;
    notes_.push_back({.allocated_ns = NowNs(),
                      .bytes = static_cast<int64_t>(bytes),
                      .thread = ThreadNumber(),
                      .owner = owner});
  }
  return p;
}

void AllocationTrace::Deallocate(void* p, size_t bytes) {
  {
    // Before the block can be allocated again.
    MutexLock lock(mu_);
    if (const auto it = live_.find(p); it != live_.end()) {
      if (open_) notes_[it->second].freed_ns = NowNs();
      live_.erase(it);
    }
  }
  base_.Deallocate(p, bytes);
  Release();
}

std::vector<AllocationTrace::Note> AllocationTrace::Take() {
  MutexLock lock(mu_);
  open_ = false;
  live_.clear();
  return std::exchange(notes_, {});
}

}  // namespace millrace
