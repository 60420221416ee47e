// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/allocation_trace.h"

#include <string>
#include <utility>

#include "tensor/allocation_owner.h"

namespace millrace {

namespace {

class ReportingTrace final : public AllocationTrace, public ShortageReporter {
 public:
  ReportingTrace(Allocator& base, const ShortageReporter& reporter, Clock::time_point start)
      : AllocationTrace(base, start), reporter_(reporter) {}
  std::string DescribeShortage(size_t bytes) const override { return reporter_.DescribeShortage(bytes); }

 private:
  ~ReportingTrace() override = default;

  const ShortageReporter& reporter_;
};

}  // namespace

uint32_t ThreadNumber() {
  static std::atomic<uint32_t> next{0};  // relaxed: only the numbers matter
  thread_local const uint32_t mine = next.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

AllocationTrace* AllocationTrace::Make(Allocator& base, Clock::time_point start) {
  const auto* const reporter = dynamic_cast<const ShortageReporter*>(&base);
  if (reporter != nullptr) return new ReportingTrace(base, *reporter, start);
  return new AllocationTrace(base, start);
}

void* AllocationTrace::Allocate(size_t bytes) {
  void* const p = base_.Allocate(bytes);
  if (p == nullptr) return nullptr;
  users_.fetch_add(1, std::memory_order_relaxed);  // the caller's own use keeps it above zero
  MutexLock lock(mu_);
  if (open_ && notes_.size() < kMostNotes) {
    live_[p] = notes_.size();
    notes_.push_back(
        {.allocated_ns = NowNs(), .bytes = static_cast<int64_t>(bytes), .thread = ThreadNumber()});
  }
  return p;
}

void AllocationTrace::Deallocate(void* p, size_t bytes) {
  {
    // Before the block can be handed out again.
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
