// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/counting_walker.h"

#include <memory>
#include <utility>
#include <vector>

#include "exec/frame_state.h"
#include "exec/step_host.h"
#include "kernel/blocking_kernel.h"
#include "tensor/allocation_owner.h"

namespace millrace {
namespace {

// A node that takes longer than this is worth offering to another thread.
constexpr uint32_t kExpensiveNs = 10'000;

}  // namespace

// The state of an asynchronous kernel between its threads.
struct CountingWalker::AsyncRun {
  AsyncRun(CountingWalker& w, const ReadyItem& i, const PlanNode& node, TensorValue* in)
      : walker(w),
        item(i),
        inputs(in),
        outputs(node.num_outputs),
        context(w.services_, node.kernel, {in, node.num_inputs}, outputs) {
    if (i.iteration != nullptr) context.set_frame(i.iteration->frame->id, i.iteration->index);
  }
  void Finish(const Status& status) { walker.FinishAsync(this, status); }
  CountingWalker& walker;
  const ReadyItem item;
  TensorValue* const inputs;
  int64_t start_ns = 0;
  std::vector<TensorValue> outputs;
  KernelContext context;
};

bool CountingWalker::Expensive(uint32_t index) const {
  return plan_.node(index).kernel != nullptr && plan_.cost_ns(index) > kExpensiveNs;
}

ReadyQueue* CountingWalker::QueueOfOwnThread() const {
  return services_.host == nullptr ? nullptr : services_.host->queue;
}

void CountingWalker::BeforeLongWork() {
  if (ReadyQueue* const queue = QueueOfOwnThread(); queue != nullptr) queue->ReleasePutOff();
}

void CountingWalker::StartAsync(const ReadyItem& item, TensorValue* inputs) {
  const PlanNode& node = plan_.node(item.node);
  queue_.BeginAsync();
  auto run = std::make_unique<AsyncRun>(*this, item, node, inputs);
  if (notes_.trace != nullptr) run->start_ns = notes_.trace->NowNs();
  if (item.dead) MarkDead(node, inputs, true);
  const ScopedAllocationOwner owner(&node.kernel->name());
  const ScopedBlockingHost host(QueueOfOwnThread());
  StartAsyncKernel(*node.async, std::move(run));
}

void CountingWalker::FinishAsync(AsyncRun* finished, const Status& status) {
  const std::unique_ptr<AsyncRun> run(finished);
  const uint32_t index = run->item.node;
  const PlanNode& node = plan_.node(index);
  if (run->item.dead) MarkDead(node, run->inputs, false);
  // The step, and this walker with it, may end as soon as EndAsync allows it.
  const RefPtr<ReadyQueue> queue = ShareRef(&queue_);
  Status result;
  if (status.ok()) {
    if (notes_.trace != nullptr)
      notes_.trace->Record(plan_, index, run->start_ns, notes_.trace->NowNs(), run->outputs.data());
    ReleaseInputs(run->inputs, node.num_inputs);
    result = FollowAsync(run->item, run->outputs.data());
  } else {
    result = AddNodeContext(status, plan_.graph_node(index));
  }
  if (!result.ok()) abort_.Abort(result);
  queue->EndAsync();
}

}  // namespace millrace
