// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/executor.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "base/denormals.h"
#include "base/step_cancelled.h"
#include "device/stream.h"
#include "exec/flat_walker.h"
#include "exec/frame_walker.h"
#include "exec/sequential_walker.h"
#include "exec/step_host.h"

namespace millrace {
namespace {

// A state that is returned to its plan.
class StateLease {
 public:
  explicit StateLease(const Plan& plan) : StateLease(plan, nullptr) {}
  // Takes over the state of `begun`, which must not be used any more.
  StateLease(const Plan& plan, StateLease* begun)
      : plan_(plan), state_(begun == nullptr ? plan.AcquireState() : std::move(begun->state_)) {
    if (begun == nullptr) state_->BeginStep();
  }
  ~StateLease() {
    if (state_ == nullptr) return;
    state_->EndStep();
    plan_.ReleaseState(std::move(state_));
  }
  StateLease(const StateLease&) = delete;
  StateLease& operator=(const StateLease&) = delete;
  StepState& operator*() const { return *state_; }

 private:
  const Plan& plan_;
  std::unique_ptr<StepState> state_;
};

// If the memory of steps is planned, nodes allocate by the plan, except in a traced step, whose allocator
// records allocations.
void AllocateAsPlanned(const StepState& state, PartitionRun* part) {
  if (Allocator* arena = state.arena(); arena != nullptr && part->trace == nullptr)
    part->services.allocator = arena;
}

// One partition of a counting step: its values and its walker.
class CountingRun {
 public:
  CountingRun(PartitionRun& part, ReadyQueue& queue, StepAbort& abort, StateLease* begun)
      : plan_(*part.plan), state_(plan_, begun), measure_(plan_.ShouldMeasure((*state_).CountStep())) {
    AllocateAsPlanned(*state_, &part);
    const NodeNotes notes{.measure = measure_, .trace = part.trace};
    if (FrameState* frames = (*state_).frames(); frames != nullptr) {
      walker_.emplace<FrameWalker>(plan_, *frames, part.services, queue, abort, notes);
    } else {
      walker_.emplace<FlatWalker>(plan_, *state_, part.services, queue, abort, notes);
    }
  }
  Stream* stream() const { return plan_.stream(); }
  Walker& walker() {
    if (FrameWalker* frames = std::get_if<FrameWalker>(&walker_)) return *frames;
    return std::get<FlatWalker>(walker_);
  }
  Status Finish(bool ok) {
    if (measure_) plan_.UpdateParallelism();
    return walker().Finish(ok);
  }

 private:
  const Plan& plan_;
  StateLease state_;
  const bool measure_;
  std::variant<std::monostate, FlatWalker, FrameWalker> walker_;
};

// A step from its first node to its last.
class CountingStep {
 public:
  explicit CountingStep(RefPtr<ReadyQueue> queue, const StepServices& services)
      : queue_(std::move(queue)),
        host_{queue_.get(), services.host == nullptr ? nullptr : services.host->traces},
        cancellation_(*services.cancellation),
        abort_(services.rendezvous, services.cancellation) {}

  // With `begun`: one partition whose nodes before `first` have run. False: already cancelled.
  bool Start(std::span<PartitionRun> partitions, StateLease* begun, uint32_t first) {
    token_ = cancellation_.Register([this] { abort_.Cancel(); });
    if (token_ == CancellationManager::kInvalidToken) return false;
    for (PartitionRun& part : partitions) {
      // Calls without a separate thread leave their work to the enclosing step that has one.
      if (!queue_->detached()) part.services.host = &host_;
      runs_.push_back(std::make_unique<CountingRun>(part, *queue_, abort_, begun));
    }
    for (const auto& run : runs_) run->walker().Start(first);
    return true;
  }
  ReadyQueue& queue() { return *queue_; }
  // The streams to which kernels of the step may have added work.
  std::vector<Stream*> Streams() const {
    std::vector<Stream*> streams;
    for (const auto& run : runs_) {
      if (Stream* const stream = run->stream(); stream != nullptr) streams.push_back(stream);
    }
    return streams;
  }
  void Abort(const Status& status) { abort_.Abort(status); }
  // To be called when nothing of the step runs any more, neither on the devices.
  Status Finish() {
    cancellation_.Deregister(token_);
    Status status = abort_.status();
    const bool ok = status.ok();
    for (const auto& run : runs_) status.Update(run->Finish(ok));
    return status;
  }

 private:
  const RefPtr<ReadyQueue> queue_;
  const StepHost host_;
  CancellationManager& cancellation_;
  StepAbort abort_;
  CancellationManager::Token token_ = CancellationManager::kInvalidToken;
  std::vector<std::unique_ptr<CountingRun>> runs_;
};

// With `begun` the state is that of the one partition, whose nodes before `first` have run.
Status Count(std::span<PartitionRun> partitions, ThreadPool* pool, StateLease* begun, uint32_t first) {
  CountingStep step(MakeRef<ReadyQueue>(pool), partitions.front().services);
  if (!step.Start(partitions, begun, first)) {
    if (first > 0) (**begun).DropValues();
    return StepCancelled();
  }
  step.queue().WorkUntilDone();
  for (Stream* const stream : step.Streams()) {
    if (const Status status = stream->Record()->Wait(); !status.ok()) step.Abort(status);
  }
  return step.Finish();
}

// A step without a separate thread; deletes itself.
struct DetachedStep {
  DetachedStep(std::vector<PartitionRun> p, ThreadPool* helpers, StepDone d)
      : partitions(std::move(p)),
        pool(helpers),
        done(std::move(d)),
        step(MakeRef<ReadyQueue>(pool, HostQueue(), [this](bool works) { EndWhenDevicesDo(works); }),
             partitions.front().services) {}

  void Begin(StateLease* begun, uint32_t first) {
    const RefPtr<ReadyQueue> queue = ShareRef(&step.queue());
    // Without this the step could end before its last partition has started.
    queue->BeginAsync();
    if (!step.Start(partitions, begun, first)) {
      if (begun != nullptr) (**begun).DropValues();
      StepDone finish = std::move(done);
      delete this;
      return finish(StepCancelled());
    }
    // A nested call starts on the stack of the enclosing one. At some depths it gets a new
    // stack.
    if (partitions.front().services.call_depth % 32 == 31)
      return OnAnotherThread([queue] { queue->WorkAndEndAsync(); });
    queue->WorkAndEndAsync();
  }

 private:
  ReadyQueue* HostQueue() const {
    const StepHost* const host = partitions.front().services.host;
    return host == nullptr ? nullptr : host->queue;
  }

  // Waits without holding a thread while devices work.
  void EndWhenDevicesDo(bool works) {
    const std::vector<Stream*> streams = step.Streams();
    if (streams.empty()) return EndSoon(works);
    working_devices = streams.size();
    for (Stream* const stream : streams) {
      stream->Record()->Then([this](const Status& status) {
        if (!status.ok()) step.Abort(status);
        // acq_rel: the last one sees what the others wrote to the step.
        if (working_devices.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
        OnAnotherThread([this] { End(); });
      });
    }
  }

  // The following work may be long. It must not run on a thread that belongs to another step, nor in a
  // callback of the cancellation, for which the end of the step would have to wait.
  void EndSoon(bool works) {
    const bool own = works || (pool == nullptr && HostQueue() == nullptr);
    if (own && !partitions.front().services.cancellation->IsCancelled()) return End();
    OnAnotherThread([this] { End(); });
  }
  void OnAnotherThread(UniqueFunction<void()> task) {
    if (pool != nullptr) return pool->Schedule(std::move(task));
    if (HostQueue() != nullptr) return HostQueue()->Schedule(std::move(task));
    FallbackPool().Schedule(std::move(task));
  }
  static ThreadPool& FallbackPool() {
    static auto* const thread = new ThreadPool("end_of_cancelled_steps", 1);
    return *thread;
  }

  void End() {
    const Status status = step.Finish();
    StepDone finish = std::move(done);
    delete this;
    finish(status);
  }

  std::vector<PartitionRun> partitions;
  ThreadPool* const pool;
  StepDone done;
  std::atomic<size_t> working_devices{0};
  CountingStep step;
};

bool Sequential(const Plan& plan, ThreadPool* pool) {
  return plan.frames().empty() && !plan.has_async() && plan.stream() == nullptr &&
         (pool == nullptr || !plan.worth_parallel());
}

// Whether kernels of the step may add work to the stream of a device.
bool LeaveWork(std::span<const PartitionRun> partitions) {
  return std::any_of(partitions.begin(), partitions.end(),
                     [](const PartitionRun& part) { return part.plan->stream() != nullptr; });
}

ThreadPool& ThreadsBesideDevices() {
  static auto* const threads = new ThreadPool("steps_of_devices", 2);
  return *threads;
}

// Runs nodes until one has to wait: see RunSequentially.
Status RunInOrder(PartitionRun& part, StateLease* state, uint32_t* waits_at) {
  const Plan& plan = *part.plan;
  const bool measure = plan.ShouldMeasure((**state).CountStep());
  AllocateAsPlanned(**state, &part);
  Status status =
      RunSequentially(plan, **state, part.services, {.measure = measure, .trace = part.trace}, waits_at);
  if (measure && status.ok() && *waits_at == static_cast<uint32_t>(plan.num_nodes()))
    plan.UpdateParallelism();
  return status;
}

// Runs one partition in the calling thread and, with a pool, in the pool's threads.
Status RunOne(std::span<PartitionRun> partitions, ThreadPool* pool, StateLease* state) {
  PartitionRun& part = partitions.front();
  const Plan& plan = *part.plan;
  if (!Sequential(plan, pool)) {
    const bool parallel = plan.frames().empty() || plan.worth_parallel();
    return Count(partitions, parallel ? pool : nullptr, state, 0);
  }
  uint32_t waits_at = 0;
  Status status = RunInOrder(part, state, &waits_at);
  // From here on other nodes may run while that one waits.
  if (waits_at < static_cast<uint32_t>(plan.num_nodes()) && status.ok())
    return Count(partitions, pool, state, waits_at);
  return status;
}

// A called function may run for long: kernels that the enclosing step has postponed need not wait for it.
void BeforeCall(const StepHost* host) {
  if (host != nullptr && host->queue != nullptr) host->queue->ReleasePutOff();
}

}  // namespace

Status RunByCounting(std::span<PartitionRun> partitions, ThreadPool* pool) {
  const ScopedFlushDenormals flush;
  return Count(partitions, pool, nullptr, 0);
}

Status RunPartitions(std::span<PartitionRun> partitions, ThreadPool* pool) {
  if (pool != nullptr && pool->parallelism() <= 1) pool = nullptr;
  if (partitions.size() != 1) return partitions.empty() ? Status() : RunByCounting(partitions, pool);
  PartitionRun& part = partitions.front();
  BeforeCall(part.services.host);
  const Plan& plan = *part.plan;
  const ScopedFlushDenormals flush(plan.computes_reals());
  StateLease state(plan);
  const uint64_t step = (*state).steps();
  // The time of a step that waits is not meaningful, and its kernels keep the pool.
  const bool chooses =
      pool != nullptr && !plan.may_wait() && plan.stream() == nullptr && part.trace == nullptr;
  if (!chooses) return RunOne(partitions, pool, &state);
  const ThreadChoice::Step choice = plan.thread_choice().ForStep(step, plan.worth_parallel());
  std::optional<ThreadPool> alone;  // loops have the same blocks, in this thread
  if (choice.threads == StepThreads::kAlone && part.services.pool != nullptr)
    part.services.pool = &alone.emplace(*part.services.pool, 1);
  if (choice.threads != StepThreads::kNodes) pool = nullptr;
  if (!choice.timed) return RunOne(partitions, pool, &state);
  const auto start = std::chrono::steady_clock::now();
  const Status status = RunOne(partitions, pool, &state);
  const auto time = std::chrono::steady_clock::now() - start;
  if (status.ok()) plan.thread_choice().Record(step, choice.threads, std::chrono::nanoseconds(time).count());
  return status;
}

void StartPartitions(std::vector<PartitionRun> partitions, ThreadPool* pool, StepDone done) {
  const ScopedFlushDenormals flush;
  if (pool != nullptr && pool->parallelism() <= 1) pool = nullptr;
  if (partitions.empty()) return done(Status());
  PartitionRun& part = partitions.front();
  BeforeCall(part.services.host);
  // The thread that delivers a device's results must not run the nodes that wait for them.
  const bool has_host = part.services.host != nullptr && part.services.host->queue != nullptr;
  if (pool == nullptr && !has_host && LeaveWork(partitions)) pool = &ThreadsBesideDevices();
  const Plan& plan = *part.plan;
  if (partitions.size() > 1 || !Sequential(plan, pool)) {
    return (new DetachedStep(std::move(partitions), pool, std::move(done)))->Begin(nullptr, 0);
  }
  std::optional<StateLease> state(std::in_place, plan);
  uint32_t waits_at = 0;
  const Status status = RunInOrder(part, &*state, &waits_at);
  if (waits_at < static_cast<uint32_t>(plan.num_nodes()) && status.ok()) {
    return (new DetachedStep(std::move(partitions), pool, std::move(done)))->Begin(&*state, waits_at);
  }
  state.reset();
  done(status);
}

}  // namespace millrace
