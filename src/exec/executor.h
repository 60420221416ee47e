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

// Runs the partitions of one step to their end on the calling thread, with the help of `pool` (null: alone)
// where the measured costs say that waking another thread pays. Returns the first error; by then nothing of
// the step runs any more. Cancelling services.cancellation (the same for all partitions) ends the step early.
Status RunPartitions(std::span<PartitionRun> partitions, ThreadPool* pool);

// The same by counting down dependencies, whatever the costs say: several partitions, asynchronous kernels
// and several threads need it. REQUIRES: at least one partition.
Status RunByCounting(std::span<PartitionRun> partitions, ThreadPool* pool);

using StepDone = UniqueFunction<void(const Status&)>;

// The same without a thread that waits: nodes run on the calling thread until one has to wait for something,
// and then on the pool, without one on the thread of services.host, without both on whichever brings it.
// `done` is called once, when nothing of the step runs any more, perhaps before this returns, but never by a
// callback of services.cancellation. What services point to must live until then.
void StartPartitions(std::vector<PartitionRun> partitions, ThreadPool* pool, StepDone done);

}  // namespace millrace
