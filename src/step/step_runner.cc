// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "step/step_runner.h"

#include <chrono>

#include "base/asymmetric_fence.h"
#include "base/step_cancelled.h"
#include "base/thread_pool.h"
#include "step/deadline.h"
#include "step/run_workers.h"

namespace millrace {
namespace {

Status ClosedError() { return errors::Cancelled("Session has been closed."); }

}  // namespace

StepRunner::~StepRunner() {
  WaitForStarted();
  const auto free = [](List& list) {
    for (Context* c = list.first.load(std::memory_order_acquire); c != nullptr;) {
      Context* next = c->next;
      delete c;
      c = next;
    }
  };
  for (List& list : lists_) free(list);
  free(started_list_);
}

// CancelSteps may have been called for the previous step, which ended meanwhile. Steps after Close stay
// refused: closed_ is read later.
void StepRunner::ForgetLateCancel(Context& context) {
  if (context.cancellation.IsCancelled()) [[unlikely]]
    context.cancellation.Reset();
}

StepRunner::Context* StepRunner::Acquire(List& from) {
  std::atomic<Context*>& list = from.first;
  for (Context* c = list.load(std::memory_order_acquire); c != nullptr; c = c->next) {
    bool free = false;
    // Acquire pairs with the release at the end of a step: its last use is over.
    if (!c->in_use.load(std::memory_order_relaxed) &&
        c->in_use.compare_exchange_strong(free, true, std::memory_order_seq_cst)) {
      ForgetLateCancel(*c);
      return c;
    }
  }
  return AddContext(from);
}

StepRunner::Context* StepRunner::AcquireOwn(List& from) {
  for (Context* c = from.first.load(std::memory_order_relaxed); c != nullptr; c = c->next) {
    if (c->in_use.load(std::memory_order_relaxed)) continue;
    c->in_use.store(true, std::memory_order_relaxed);
    LightFence();  // pairs with the heavy fences in Close and CancelSteps
    ForgetLateCancel(*c);
    return c;
  }
  return AddContext(from);
}

StepRunner::Context* StepRunner::AddContext(List& to) {
  std::atomic<Context*>& list = to.first;
  auto* made = new Context;
  made->in_use.store(true, std::memory_order_relaxed);
  made->next = list.load(std::memory_order_relaxed);
  // Release publishes the fields; seq_cst because Close reads the list after it set closed_ (see Run).
  while (!list.compare_exchange_weak(made->next, made, std::memory_order_seq_cst)) {
  }
  return made;
}

StepArgs StepRunner::Begin(Context& context, const CompiledStep& step, const Request& request,
                           CancellationManager::Token* token) {
  StepArgs args;
  args.info.step_id = request.step_id != 0 ? request.step_id : context.step_ids.Next();
  args.info.several_tasks = step.several_tasks;
  args.info.trace = request.metadata != nullptr;
  args.info.report_allocations = request.report_allocations;
  args.info.timeout_in_ms = request.timeout_in_ms;
  args.info.collective_step = request.collective_step;
  args.info.collective_leader = request.collective_leader;
  args.args = request.args;
  args.rets = request.rets;
  args.cancellation = &context.cancellation;
  args.inter_op_pool = request.inter_op_pool;
  args.intra_op_pool = request.intra_op_pool;
  args.metadata = request.metadata;
  args.step_resources = request.step_resources;
  // Several tasks have a container each, which is deleted when the step is cleaned up.
  if (args.step_resources == nullptr && !step.several_tasks) args.step_resources = &context.step_resources;
  args.rendezvous = request.rendezvous;
  if (request.cancellation != nullptr) [[unlikely]] {
    *token = request.cancellation->Register([&context] { context.cancellation.StartCancel(); });
    if (*token == CancellationManager::kInvalidToken) context.cancellation.StartCancel();
  }
  return args;
}

Status StepRunner::End(Context* context, const Request& request, CancellationManager::Token token,
                       Status status, bool expired) {
  if (token != CancellationManager::kInvalidToken) [[unlikely]] {
    request.cancellation->Deregister(token);
  }
  if (!status.ok()) [[unlikely]] {
    if (closed()) {
      // A node that was waiting has reported what it was waiting for.
      if (IsStepCancelled(status)) status = ClosedError();
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

Status StepRunner::Run(const CompiledStep& step, const Request& request) {
  const unsigned slot = ThreadSlot();
  List& list = lists_[PlaceOfSlot(slot, kSharedLists)];
  Context* context = slot < kOwnedSlots ? AcquireOwn(list) : Acquire(list);
  // Either this sees closed_, or Close, which sets it first and then walks the list, cancels this context.
  if (closed_.load(std::memory_order_seq_cst)) {
    context->in_use.store(false, std::memory_order_release);
    return ClosedError();
  }
  CancellationManager::Token token = CancellationManager::kInvalidToken;
  StepArgs args = Begin(*context, step, request, &token);
  if (request.timeout_in_ms <= 0) return End(context, request, token, RunWorkers(step, args), false);
  Status status;
  bool expired = false;
  {
    const ScopedDeadline deadline(context->cancellation, request.timeout_in_ms);
    status = RunWorkers(step, args);
    expired = deadline.expired();
  }
  return End(context, request, token, std::move(status), expired);
}

// Deletes itself.
struct StepRunner::StartedStep {
  StepRunner& runner;
  const CompiledStep& step;
  const Request request;
  Done done;
  Context* context = nullptr;
  CancellationManager::Token token = CancellationManager::kInvalidToken;

  StartedStep(StepRunner& r, const CompiledStep& s, const Request& wanted, Done d)
      : runner(r), step(s), request(wanted), done(std::move(d)) {}
  void Begin() {
    context = Acquire(runner.started_list_);
    StepArgs args = StepRunner::Begin(*context, step, request, &token);
    // See Run.
    if (runner.closed()) return Ended(ClosedError());
    args.detached = true;
    auto ended = [this](const Status& s) { Ended(s); };
    if (step.several_tasks) return StartOnWorkers(step, args, ended);
    step.partitions[0]->Run(args, ended);
  }

 private:
  void Ended(const Status& status) {
    StepRunner& of = runner;
    const Status result = of.End(context, request, token, status, false);
    done(result);
    delete this;
    MutexLock lock(of.started_mu_);
    --of.started_;
    of.started_ended_.NotifyAll();  // under the lock: the waiting thread may destroy the runner
  }
};

void StepRunner::Start(const CompiledStep& step, const Request& request, Done done) {
  {
    MutexLock lock(started_mu_);
    ++started_;
  }
  auto* started = new StartedStep(*this, step, request, std::move(done));
  request.inter_op_pool->Schedule([started] { started->Begin(); });
}

void StepRunner::WaitForStarted() {
  MutexLock lock(started_mu_);
  while (started_ > 0) started_ended_.Wait(started_mu_);
}

Status StepRunner::RunWorkers(const CompiledStep& step, StepArgs& args) {
  if (step.several_tasks) [[unlikely]]
    return RunOnWorkers(step, args);
  Status status;
  step.partitions[0]->Run(args, [&status](Status s) { status = std::move(s); });
  return status;
}

void StepRunner::Close() {
  MutexLock lock(mu_);
  closed_.store(true, std::memory_order_seq_cst);
  HeavyFence();
  const auto cancel = [](List& list) {
    for (Context* c = list.first.load(std::memory_order_seq_cst); c != nullptr; c = c->next)
      c->cancellation.StartCancel();
  };
  for (List& list : lists_) cancel(list);
  cancel(started_list_);
}

void StepRunner::CancelSteps() {
  MutexLock lock(mu_);
  HeavyFence();
  const auto cancel = [](List& list) {
    for (Context* c = list.first.load(std::memory_order_seq_cst); c != nullptr; c = c->next) {
      if (c->in_use.load(std::memory_order_acquire)) c->cancellation.StartCancel();
    }
  };
  for (List& list : lists_) cancel(list);
  cancel(started_list_);
}

}  // namespace millrace
