// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "step/step_runner.h"

#include <chrono>

#include "base/thread_pool.h"
#include "kernel/session_tensors.h"
#include "step/deadline.h"

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

StepRunner::Context* StepRunner::Acquire(List& from) {
  std::atomic<Context*>& list = from.first;
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

StepArgs StepRunner::Begin(Context& context, const Request& request, CancellationManager::Token* token) {
  StepArgs args;
  args.step_id = NextStepId(context);
  args.args = request.args;
  args.rets = request.rets;
  args.cancellation = &context.cancellation;
  args.inter_op_pool = request.inter_op_pool;
  args.intra_op_pool = request.intra_op_pool;
  args.metadata = request.metadata;
  args.report_allocations = request.report_allocations;
  args.step_resources = request.step_resources != nullptr ? request.step_resources : &context.step_resources;
  args.session_tensors = &session_tensors_;
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
  if (!context->step_resources.unused()) {
    if (status.ok()) session_tensors_.Keep(context->step_resources, request.fetches);
    context->step_resources.Clear();
  }
  context->in_use.store(false, std::memory_order_release);
  return status;
}

Status StepRunner::Run(const CompiledStep& step, const Request& request) {
  Context* context = Acquire(lists_[ThreadSlot() % kLists]);
  // Either this sees closed_, or Close, which sets it first and then walks the list, cancels this context.
  if (closed_.load(std::memory_order_seq_cst)) {
    context->in_use.store(false, std::memory_order_release);
    return ClosedError();
  }
  CancellationManager::Token token = CancellationManager::kInvalidToken;
  StepArgs args = Begin(*context, request, &token);
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

// Frees itself.
struct StepRunner::StartedStep {
  StepRunner& runner;
  const CompiledStep& step;
  const Request request;
  Done done;
  Context* context = nullptr;
  CancellationManager::Token token = CancellationManager::kInvalidToken;
  Mutex mu;
  Status status MR_GUARDED_BY(mu);
  size_t waiting MR_GUARDED_BY(mu) = 0;

  StartedStep(StepRunner& r, const CompiledStep& s, const Request& wanted, Done d)
      : runner(r), step(s), request(wanted), done(std::move(d)) {}
  void Begin() {
    context = Acquire(runner.started_list_);
    StepArgs args = runner.Begin(*context, request, &token);
    {
      MutexLock lock(mu);
      waiting = step.partitions.size() + 1;  // and this function
    }
    // See Run.
    if (runner.closed()) return Stop();
    args.detached = true;
    for (const auto& partition : step.partitions) {
      StepArgs own = args;
      partition->Run(own, [this](const Status& s) { Ended(s); });
    }
    Ended(Status());
  }

 private:
  void Stop() {
    {
      MutexLock lock(mu);
      waiting = 1;
    }
    Ended(ClosedError());
  }
  void Ended(const Status& ended) {
    if (!ended.ok()) context->cancellation.StartCancel();
    Status first;
    {
      MutexLock lock(mu);
      status.Update(ended);
      if (--waiting > 0) return;
      first = status;
    }
    StepRunner& of = runner;
    const Status result = of.End(context, request, token, std::move(first), false);
    done(result);
    delete this;
    MutexLock lock(of.started_mu_);
    --of.started_;
    of.started_ended_.NotifyAll();  // under the lock: who waits may destroy the runner
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

bool StepRunner::IsTensorHandle(const Tensor& fed) {
  return fed.dtype() == DataType::kResource && fed.num_elements() == 1 && fed.IsInitialized() &&
         fed.data<ResourceHandle>()[0].container == SessionTensors::kContainer;
}

StatusOr<Tensor> StepRunner::TensorOfHandle(const Tensor& fed) const {
  if (fed.dtype() != DataType::kResource || fed.num_elements() != 1 || !fed.IsInitialized()) {
    return errors::InvalidArgument("Not a handle of a tensor: ", DataTypeName(fed.dtype()), fed.shape());
  }
  const ResourceHandle& handle = fed.data<ResourceHandle>()[0];
  if (IsTensorHandle(fed)) return session_tensors_.Get(handle.name);
  return errors::InvalidArgument("Invalid resource type hash code: ", handle.hash_code,
                                 "(name: ", handle.name, " type: ", handle.maybe_type_name,
                                 "). Perhaps a resource tensor was being provided as a feed? That is not "
                                 "currently allowed.");
}

void StepRunner::Close() {
  MutexLock lock(mu_);
  closed_.store(true, std::memory_order_seq_cst);
  const auto cancel = [](List& list) {
    for (Context* c = list.first.load(std::memory_order_seq_cst); c != nullptr; c = c->next)
      c->cancellation.StartCancel();
  };
  for (List& list : lists_) cancel(list);
  cancel(started_list_);
}

}  // namespace millrace
