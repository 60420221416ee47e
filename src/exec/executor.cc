// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/executor.h"

#include <deque>
#include <memory>
#include <vector>

#include "exec/flat_walker.h"
#include "exec/sequential_walker.h"

namespace millrace {
namespace {

// A state that goes back to its plan.
class StateLease {
 public:
  explicit StateLease(const Plan& plan) : plan_(plan), state_(plan.AcquireState()) {}
  ~StateLease() { plan_.ReleaseState(std::move(state_)); }
  StateLease(const StateLease&) = delete;
  StateLease& operator=(const StateLease&) = delete;
  StepState& operator*() const { return *state_; }

 private:
  const Plan& plan_;
  std::unique_ptr<StepState> state_;
};

struct FlatRun {
  FlatRun(PartitionRun& part, ReadyQueue& queue, StepAbort& abort)
      : plan(*part.plan),
        measure(plan.ShouldMeasure(plan.CountStep())),
        state(plan),
        walker(plan, *state, part.services, queue, abort, measure, part.trace) {}
  const Plan& plan;
  const bool measure;
  StateLease state;
  FlatWalker walker;
};

}  // namespace

Status RunByCounting(std::span<PartitionRun> partitions, ThreadPool* pool) {
  const StepServices& services = partitions.front().services;
  const RefPtr<ReadyQueue> queue = MakeRef<ReadyQueue>(pool);
  StepAbort abort(services.rendezvous, services.cancellation);
  const CancellationManager::Token token =
      services.cancellation->Register([&abort] { abort.Abort(errors::Cancelled("Step was cancelled")); });
  if (token == CancellationManager::kInvalidToken) return errors::Cancelled("Step was cancelled");
  std::deque<FlatRun> runs;
  for (PartitionRun& part : partitions) runs.emplace_back(part, *queue, abort);
  for (FlatRun& run : runs) run.walker.Start();
  queue->WorkUntilDone();
  services.cancellation->Deregister(token);
  const Status status = abort.status();
  for (FlatRun& run : runs) {
    if (!status.ok()) (*run.state).DropValues();
    if (run.measure) run.plan.UpdateParallelism();
  }
  return status;
}

Status RunPartitions(std::span<PartitionRun> partitions, ThreadPool* pool) {
  if (pool != nullptr && pool->parallelism() <= 1) pool = nullptr;
  if (partitions.size() != 1) return partitions.empty() ? Status() : RunByCounting(partitions, pool);
  PartitionRun& part = partitions.front();
  const Plan& plan = *part.plan;
  if (plan.has_async() || (pool != nullptr && plan.worth_parallel())) return RunByCounting(partitions, pool);
  const bool measure = plan.ShouldMeasure(plan.CountStep());
  const StateLease state(plan);
  Status status = RunSequentially(plan, *state, part.services, measure, part.trace);
  if (measure && status.ok()) plan.UpdateParallelism();
  return status;
}

}  // namespace millrace
