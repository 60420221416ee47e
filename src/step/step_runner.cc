// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "step/step_runner.h"

#include <chrono>

#include "base/notification.h"
#include "step/deadline.h"

namespace millrace {
namespace {

Status ClosedError() { return errors::Cancelled("Session has been closed."); }

}  // namespace

StepRunner::~StepRunner() {
  for (List& list : lists_) {
    for (Context* c = list.first.load(std::memory_order_acquire); c != nullptr;) {
      Context* next = c->next;
      delete c;
      c = next;
    }
  }
}

StepRunner::Context* StepRunner::Acquire() {
  std::atomic<Context*>& list = lists_[ThreadSlot() % kLists].first;
  for (Context* c = list.load(std::memory_order_acquire); c != nullptr; c = c->next) {
    bool free = false;
    // Acquire pairs with the release at the end of a step: its last use is over.
    if (!c->in_use.load(std::memory_order_relaxed) &&
        c->in_use.compare_exchange_strong(free, true, std::memory_order_seq_cst)) {
      return c;
    }
  }
  auto* made = new Context;
  made->in_use.store(true, std::memory_order_relaxed);
  made->next = list.load(std::memory_order_relaxed);
  // Release publishes the fields; seq_cst because Close reads the list after it set closed_ (see Run).
  while (!list.compare_exchange_weak(made->next, made, std::memory_order_seq_cst)) {
  }
  return made;
}

int64_t StepRunner::NextStepId(Context& context) {
  if (context.next_step_id == context.end_step_ids) {
    context.next_step_id = next_step_id_.fetch_add(kStepIds, std::memory_order_relaxed);
    context.end_step_ids = context.next_step_id + kStepIds;
  }
  return context.next_step_id++;
}

Status StepRunner::Run(const CompiledStep& step, const Request& request) {
  Context* context = Acquire();
  // Either this sees closed_, or Close, which sets it first and then walks the list, cancels this context.
  if (closed_.load(std::memory_order_seq_cst)) {
    context->in_use.store(false, std::memory_order_release);
    return ClosedError();
  }
  StepArgs args;
  args.step_id = NextStepId(*context);
  args.args = request.args;
  args.rets = request.rets;
  args.cancellation = &context->cancellation;
  args.inter_op_pool = request.inter_op_pool;
  args.intra_op_pool = request.intra_op_pool;
  args.metadata = request.metadata;
  args.report_allocations = request.report_allocations;
  args.step_resources = &context->step_resources;
  args.rendezvous = request.rendezvous;

  CancellationManager::Token token = CancellationManager::kInvalidToken;
  if (request.cancellation != nullptr) [[unlikely]] {
    token = request.cancellation->Register([context] { context->cancellation.StartCancel(); });
    if (token == CancellationManager::kInvalidToken) context->cancellation.StartCancel();
  }
  Status status;
  bool expired = false;
  if (request.timeout_in_ms > 0) {
    const ScopedDeadline deadline(context->cancellation, request.timeout_in_ms);
    status = RunWorkers(step, args);
    expired = deadline.expired();
  } else {
    status = RunWorkers(step, args);
  }
  if (token != CancellationManager::kInvalidToken) [[unlikely]] {
    request.cancellation->Deregister(token);
  }
  if (!status.ok()) [[unlikely]] {
    if (closed()) {
      if (errors::IsCancelled(status)) status = ClosedError();
    } else {
      if (expired && errors::IsCancelled(status)) {
        status = errors::DeadlineExceeded("Timed out waiting for notification: the step took more than ",
                                          request.timeout_in_ms, " ms");
      }
    }
  }
  if (context->cancellation.IsCancelled()) [[unlikely]] {
    if (!closed()) context->cancellation.Reset();
  }
  if (!context->step_resources.unused()) context->step_resources.Clear();
  context->in_use.store(false, std::memory_order_release);
  return status;
}

Status StepRunner::RunWorkers(const CompiledStep& step, StepArgs& args) {
  if (step.partitions.size() == 1) [[likely]] {
    Status status;
    step.partitions[0]->Run(args, [&status](Status s) { status = std::move(s); });
    return status;
  }
  // Remote workers answer on threads of their own.
  struct Gather {
    Mutex mu;
    Status status MR_GUARDED_BY(mu);
    size_t waiting MR_GUARDED_BY(mu) = 0;
    CondVar done;
  } gather;
  {
    MutexLock lock(gather.mu);
    gather.waiting = step.partitions.size();
  }
  for (const auto& partition : step.partitions) {
    partition->Run(args, [&gather, &args](const Status& s) {
      if (!s.ok()) args.cancellation->StartCancel();
      MutexLock lock(gather.mu);
      gather.status.Update(s);
      if (--gather.waiting == 0) gather.done.NotifyAll();
    });
  }
  MutexLock lock(gather.mu);
  while (gather.waiting > 0) gather.done.Wait(gather.mu);
  return gather.status;
}

void StepRunner::Close() {
  MutexLock lock(mu_);
  closed_.store(true, std::memory_order_seq_cst);
  for (List& list : lists_) {
    for (Context* c = list.first.load(std::memory_order_seq_cst); c != nullptr; c = c->next)
      c->cancellation.StartCancel();
  }
}

}  // namespace millrace
