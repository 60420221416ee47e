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
  // Takes over what `begun` holds, which must not be used any more.
  StateLease(const Plan& plan, StateLease* begun)
      : plan_(plan), state_(begun == nullptr ? plan.AcquireState() : std::move(begun->state_)) {}
  ~StateLease() {
    if (state_ != nullptr) plan_.ReleaseState(std::move(state_));
  }
  StateLease(const StateLease&) = delete;
  StateLease& operator=(const StateLease&) = delete;
  StepState& operator*() const { return *state_; }

 private:
  const Plan& plan_;
  std::unique_ptr<StepState> state_;
};

struct FlatRun {
  FlatRun(PartitionRun& part, ReadyQueue& queue, StepAbort& abort, StateLease* begun)
      : plan(*part.plan),
        measure(plan.ShouldMeasure(plan.CountStep())),
        state(plan, begun),
        walker(plan, *state, part.services, queue, abort, measure, part.trace) {}
  const Plan& plan;
  const bool measure;
  StateLease state;
  FlatWalker walker;
};

// RunByCounting; with `begun`, of one partition whose nodes before `first` have run.
Status Count(std::span<PartitionRun> partitions, ThreadPool* pool, StateLease* begun, uint32_t first) {
  const StepServices& services = partitions.front().services;
  const RefPtr<ReadyQueue> queue = MakeRef<ReadyQueue>(pool);
  StepAbort abort(services.rendezvous, services.cancellation);
  const CancellationManager::Token token =
      services.cancellation->Register([&abort] { abort.Abort(errors::Cancelled("Step was cancelled")); });
  if (token == CancellationManager::kInvalidToken) {
    if (begun != nullptr) (**begun).DropValues();
    return errors::Cancelled("Step was cancelled");
  }
  std::deque<FlatRun> runs;
  for (PartitionRun& part : partitions) runs.emplace_back(part, *queue, abort, begun);
  for (FlatRun& run : runs) {
    if (first == 0) {
      run.walker.Start();
    } else {
      run.walker.StartAt(first);
    }
  }
  queue->WorkUntilDone();
  services.cancellation->Deregister(token);
  const Status status = abort.status();
  for (FlatRun& run : runs) {
    if (!status.ok()) (*run.state).DropValues();
    if (run.measure) run.plan.UpdateParallelism();
  }
  return status;
}

}  // namespace

Status RunByCounting(std::span<PartitionRun> partitions, ThreadPool* pool) {
  return Count(partitions, pool, nullptr, 0);
}

Status RunPartitions(std::span<PartitionRun> partitions, ThreadPool* pool) {
  if (pool != nullptr && pool->parallelism() <= 1) pool = nullptr;
  if (partitions.size() != 1) return partitions.empty() ? Status() : RunByCounting(partitions, pool);
  PartitionRun& part = partitions.front();
  const Plan& plan = *part.plan;
  if (plan.has_async() || (pool != nullptr && plan.worth_parallel())) return RunByCounting(partitions, pool);
  const bool measure = plan.ShouldMeasure(plan.CountStep());
  StateLease state(plan);
  uint32_t waits_at = 0;
  Status status = RunSequentially(plan, *state, part.services, measure, part.trace, &waits_at);
  // From here on other nodes may run while that one waits.
  if (waits_at < static_cast<uint32_t>(plan.num_nodes()) && status.ok())
    return Count(partitions, pool, &state, waits_at);
  if (measure && status.ok()) plan.UpdateParallelism();
  return status;
}

}  // namespace millrace
