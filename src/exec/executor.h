// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "base/function.h"
#include "base/thread_pool.h"
#include "exec/kernel_runner.h"
#include "exec/plan.h"
#include "kernel/kernel_context.h"
#include "millrace/status.h"

namespace millrace {

// One partition within a step.
struct PartitionRun {
  const Plan* plan = nullptr;
  StepServices services;
  StepTrace* trace = nullptr;  // null: not traced
};

// Runs the partitions of one step on the calling thread, with the help of `pool` (null: none) where measured
// costs say that waking another thread makes it faster. Returns the first error; by then nothing of the step
// runs any more. Cancelling services.cancellation (the same for all partitions) ends the step early.
Status RunPartitions(std::span<PartitionRun> partitions, ThreadPool* pool);

// The same by counting down dependencies, regardless of costs: needed for several partitions, asynchronous
// kernels and several threads. REQUIRES: at least one partition.
Status RunByCounting(std::span<PartitionRun> partitions, ThreadPool* pool);

using StepDone = UniqueFunction<void(const Status&)>;

// The same without a blocked thread: nodes run on the calling thread until one has to wait, and then on the
// pool, without one on the thread of services.host, without both on the thread that completes the wait.
// `done` is called once, when nothing of the step runs any more, possibly before this returns, but never by a
// callback of services.cancellation. Objects in services must live until then.
void StartPartitions(std::vector<PartitionRun> partitions, ThreadPool* pool, StepDone done);

}  // namespace millrace
