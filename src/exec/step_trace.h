// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "exec/allocation_trace.h"
#include "exec/plan.h"
#include "kernel/kernel_context.h"
#include "millrace/run_metadata.h"

namespace millrace {

// Collects what one traced step did on one device. Steps that are not traced have none, and pay nothing for
// it. Thread-safe.
class StepTrace {
 public:
  using Clock = AllocationTrace::Clock;
  // Nodes that run later (a long loop) are counted only.
  static constexpr size_t kMostNodes = size_t{1} << 20;

  // Made on the thread that called Run. `report_shortages`: errors for lack of memory list what nodes hold.
  StepTrace(Device& device, Clock::time_point step_start, bool report_shortages = false);
  // What kernels should take for their device.
  Device& device() { return device_; }
  int64_t NowNs() const { return std::chrono::nanoseconds(Clock::now() - step_start_).count(); }
  // A node has ended. Called before its consumers are told, on the thread that ran it.
  void Record(const Plan& plan, uint32_t node, int64_t start_ns, int64_t end_ns, const TensorValue* outputs)
      MR_EXCLUDES(mu_);
  // The same for a node that the walker does itself, in no time: a Switch, a NoOp.
  void RecordInstant(const Plan& plan, uint32_t node, const TensorValue* outputs) {
    const int64_t now = NowNs();
    Record(plan, node, now, now, outputs);
  }
  // Everything, when nothing of the step runs any more.
  DeviceStats Take() MR_EXCLUDES(mu_);

 private:
  void NoteReady(const Plan& plan, uint32_t node, int64_t end_ns) MR_REQUIRES(mu_);

  const Clock::time_point step_start_;
  const uint32_t caller_;
  const int64_t bytes_at_start_;
  TracedDevice device_;
  Mutex mu_;
  DeviceStats stats_ MR_GUARDED_BY(mu_);
  std::vector<int64_t> ready_ns_ MR_GUARDED_BY(mu_);  // by plan node: when its latest input came
};

}  // namespace millrace
