// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "device/device.h"
#include "exec/allocation_trace.h"
#include "exec/plan.h"
#include "kernel/kernel_context.h"
#include "millrace/run_metadata.h"

namespace millrace {

// Records one traced step on one device. Steps that are not traced have none, without any cost.
// Thread-safe.
class DeviceTrace {
 public:
  using Clock = AllocationTrace::Clock;
  // Nodes that run later (in a long loop) are only counted.
  static constexpr size_t kMostNodes = size_t{1} << 20;

  // `report_shortages`: out-of-memory errors list the memory of nodes. `caller` is the number of the thread
  // that called Run.
  DeviceTrace(Device& device, Clock::time_point step_start, bool report_shortages = false,
              uint32_t caller = ThreadNumber());
  ~DeviceTrace() { allocations_->Release(); }
  DeviceTrace(const DeviceTrace&) = delete;
  DeviceTrace& operator=(const DeviceTrace&) = delete;
  // The allocator of device memory for kernels.
  Allocator& allocator() { return *allocations_; }
  int64_t NowNs() const { return std::chrono::nanoseconds(Clock::now() - step_start_).count(); }
  void Add(NodeStats node) MR_EXCLUDES(mu_);
  // All records, when nothing of the step runs any more.
  DeviceStats Take() MR_EXCLUDES(mu_);

 private:
  const Clock::time_point step_start_;
  const uint32_t caller_;
  const int64_t bytes_at_start_;
  AllocationTrace* const allocations_;
  Mutex mu_;
  DeviceStats stats_ MR_GUARDED_BY(mu_);
};

// Records a run of a plan: of a step, or of a function that it calls. Thread-safe.
class StepTrace {
 public:
  // The nodes of a function are called <function>/<node>. REQUIRES: `device` outlives this.
  explicit StepTrace(DeviceTrace& device, std::string_view function = {})
      : device_(device), function_(function), began_ns_(function.empty() ? 0 : device.NowNs()) {}
  int64_t NowNs() const { return device_.NowNs(); }
  // To be called when a node has ended, before its consumers become ready, on the thread that ran it.
  void Record(const Plan& plan, uint32_t node, int64_t start_ns, int64_t end_ns, const TensorValue* outputs)
      MR_EXCLUDES(mu_);
  // The same for a node that the walker runs itself, in no time: a Switch, a NoOp.
  void RecordInstant(const Plan& plan, uint32_t node, const TensorValue* outputs) {
    const int64_t now = NowNs();
    Record(plan, node, now, now, outputs);
  }

 private:
  void NoteReady(const Plan& plan, uint32_t node, int64_t end_ns) MR_REQUIRES(mu_);

  DeviceTrace& device_;
  const std::string function_;
  const int64_t began_ns_;
  Mutex mu_;
  std::vector<int64_t> ready_ns_ MR_GUARDED_BY(mu_);  // by plan node: when its latest input came
};

// The traces of a step by device. Functions may run where the step itself does not. Thread-safe.
class StepTraces {
 public:
  // Created on the thread that called Run.
  explicit StepTraces(bool report_shortages)
      : start_(DeviceTrace::Clock::now()), caller_(ThreadNumber()), report_shortages_(report_shortages) {}
  // Lives as long as this.
  DeviceTrace& Of(Device& device) MR_EXCLUDES(mu_);
  // Adds when a node's work was done in the stream of `device`, by std::chrono::steady_clock. Such rows
  // are in "<device>/stream:all", beside those of the device, which say when its kernel ran on the
  // host.
  void AddWork(const Device& device, NodeStats node, int64_t start_ns, int64_t end_ns) MR_EXCLUDES(mu_);
  // Appends the record of each device. To be called when nothing of the step runs any more.
  void Take(std::vector<DeviceStats>* devices) MR_EXCLUDES(mu_);

 private:
  const DeviceTrace::Clock::time_point start_;
  const uint32_t caller_;
  const bool report_shortages_;
  Mutex mu_;
  std::deque<std::pair<const Device*, DeviceTrace>> traces_ MR_GUARDED_BY(mu_);
  std::map<std::string, DeviceStats> streams_ MR_GUARDED_BY(mu_);  // by name
};

}  // namespace millrace
