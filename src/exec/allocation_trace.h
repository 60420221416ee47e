// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/mutex.h"
#include "tensor/allocator.h"

namespace millrace {

// A small number for the calling thread, assigned at the first call.
uint32_t ThreadNumber();

// Replaces a device's allocator in a traced step and records each allocation with its time and thread.
// Buffers refer to it, and some outlive the step (fetches, variables): it lives until its owner and all that
// it allocated are freed, and records nothing after Take. Thread-safe.
class AllocationTrace : public Allocator {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr int64_t kNever = -1;
  struct Note {
    int64_t allocated_ns = 0;
    int64_t freed_ns = kNever;
    int64_t bytes = 0;
    uint32_t thread = 0;
    const std::string* owner = nullptr;  // the node, when known; lives as long as the trace
  };
  // Later allocations of a step are not recorded.
  static constexpr size_t kMostNotes = size_t{1} << 20;

  // With a `base` that reports shortages, creates one that does so too. With a name in `device`, creates one
  // that reports the memory of the step's nodes there.
  static AllocationTrace* Make(Allocator& base, Clock::time_point start, std::string device = {});
  AllocationTrace(const AllocationTrace&) = delete;
  AllocationTrace& operator=(const AllocationTrace&) = delete;

  std::string_view name() const override { return base_.name(); }
  void* Allocate(size_t bytes) override MR_EXCLUDES(mu_);
  void Deallocate(void* p, size_t bytes) override MR_EXCLUDES(mu_);
  AllocatorStats Stats() const override { return base_.Stats(); }

  // The recorded allocations, in order.
  std::vector<Note> Take() MR_EXCLUDES(mu_);
  // Drops the owner's reference; call once.
  void Release() {
    if (users_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 protected:
  AllocationTrace(Allocator& base, Clock::time_point start)
      : Allocator(base.memory_space()), base_(base), start_(start) {}
  ~AllocationTrace() override = default;
  // "\nCurrent usage from device: …", and a line for each node that holds memory, the largest first.
  std::string DescribeHolders(std::string_view device) const MR_EXCLUDES(mu_);

 private:
  int64_t NowNs() const { return std::chrono::nanoseconds(Clock::now() - start_).count(); }

  Allocator& base_;
  const Clock::time_point start_;
  std::atomic<int64_t> users_{1};  // the owner and the blocks in use; removing the last one deletes
  mutable Mutex mu_;
  bool open_ MR_GUARDED_BY(mu_) = true;
  std::vector<Note> notes_ MR_GUARDED_BY(mu_);
  std::unordered_map<void*, size_t> live_ MR_GUARDED_BY(mu_);  // blocks to their records
  std::unordered_set<std::string> owners_ MR_GUARDED_BY(mu_);  // the records point to these
};

}  // namespace millrace
