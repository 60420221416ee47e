// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "step/partial_step.h"

#include <algorithm>
#include <utility>

#include "step/local_rendezvous.h"
#include "step/local_worker.h"
#include "step/task_steps.h"

namespace millrace {
namespace {

// Waits until `ready`; false if the time limit is reached first. 0: no limit.
template <typename Ready>
bool WaitFor(Mutex& mu, CondVar& changed, int64_t timeout_in_ms, const Ready& ready) MR_REQUIRES(mu) {
  if (timeout_in_ms <= 0) {
    while (!ready()) changed.Wait(mu);
    return true;
  }
  constexpr int64_t kLongest = int64_t{365} * 24 * 3600 * 1000;
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(std::min(timeout_in_ms, kLongest));
  while (!ready()) {
    if (!changed.WaitUntil(mu, deadline)) return ready();
  }
  return true;
}

Status TimedOut(int64_t timeout_in_ms) {
  return errors::DeadlineExceeded("Timed out waiting for notification: the partial run took more than ",
                                  timeout_in_ms, " ms");
}

// The tensors that a Fetch waits for. Shared with the callbacks, which may outlive the Fetch.
struct Receiving {
  Mutex mu;
  CondVar changed;
  size_t missing MR_GUARDED_BY(mu) = 0;
  Status status MR_GUARDED_BY(mu);   // of the rendezvous
  Status invalid MR_GUARDED_BY(mu);  // a dead tensor, which does not end the step
  std::vector<Tensor> values MR_GUARDED_BY(mu);
};

}  // namespace

PartialStep::PartialStep(Border border, RefPtr<Rendezvous> rendezvous)
    : border_(std::move(border)), rendezvous_(std::move(rendezvous)) {}

StatusOr<RefPtr<PartialStep>> PartialStep::Start(StepRunner& runner, const CompiledStep& step,
                                                 const StepRunner::Request& wanted, Border border,
                                                 std::shared_ptr<const void> owner) {
  const int64_t step_id = StepIds::NextShared();
  RefPtr<Rendezvous> rendezvous;
  if (step.several_tasks) {
    MR_ASSIGN_OR_RETURN(const RefPtr<TaskSteps::Step> here, border.worker->steps().Find(step_id));
    rendezvous = here->rendezvous;
  } else {
    rendezvous = MakeRef<LocalRendezvous>();
  }
  RefPtr<PartialStep> made = MakeRef<PartialStep>(std::move(border), std::move(rendezvous));
  StepRunner::Request request = wanted;
  request.step_id = step_id;
  // Several tasks find it by the id.
  if (!step.several_tasks) request.rendezvous = made->rendezvous_.get();
  request.cancellation = &made->cancellation_;
  request.step_resources = &made->step_resources_;
  runner.Start(step, request,
               [made, owner = std::move(owner)](const Status& status) { made->Ended(status); });
  return made;
}

void PartialStep::Ended(const Status& status) {
  // After a successful end the tensors that were sent can still be fetched; an error ends every wait.
  if (!status.ok()) rendezvous_->StartAbort(status);
  MutexLock lock(mu_);
  status_ = status;
  done_ = true;
  ended_.NotifyAll();
}

void PartialStep::KeepSessionTensors(std::span<const std::string> fetches) {
  border_.worker->session_tensors().Keep(step_resources_, fetches);
}

void PartialStep::Cancel(const Status& why) {
  {
    MutexLock lock(mu_);
    cancelled_ = true;
    ended_.NotifyAll();
  }
  rendezvous_->StartAbort(why);
  cancellation_.StartCancel();
}

Status PartialStep::Cause(const Status& status, int64_t timeout_in_ms) {
  MutexLock lock(mu_);
  if (!WaitFor(mu_, ended_, timeout_in_ms,
               [this]() MR_NO_THREAD_SAFETY_ANALYSIS { return done_ || cancelled_; })) {
    return TimedOut(timeout_in_ms);
  }
  return cancelled_ || status_.ok() ? status : status_;
}

Status PartialStep::Feed(const std::string& tensor, const Tensor& value, int64_t timeout_in_ms) {
  const Status status = rendezvous_->Send(
      Rendezvous::Key::Make(border_.device, border_.incarnation, border_.device, tensor), value, false);
  return status.ok() ? status : Cause(status, timeout_in_ms);
}

Status PartialStep::Fetch(std::span<const std::string> tensors, int64_t timeout_in_ms,
                          std::vector<Tensor>* values) {
  const auto receiving = std::make_shared<Receiving>();
  {
    MutexLock lock(receiving->mu);
    receiving->missing = tensors.size();
    receiving->values.resize(tensors.size());
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto key = Rendezvous::Key::Make(border_.device, border_.incarnation, border_.device, tensors[i]);
    rendezvous_->RecvAsync(
        key, [receiving, i, name = tensors[i]](const Status& status, Tensor tensor, bool is_dead) {
          MutexLock lock(receiving->mu);
          receiving->status.Update(status);
          if (status.ok() && is_dead) {
            receiving->invalid.Update(
                errors::InvalidArgument("The tensor returned for ", name, " was not valid."));
          }
          receiving->values[i] = std::move(tensor);
          --receiving->missing;
          receiving->changed.NotifyAll();
        });
  }
  Status failed;
  {
    MutexLock lock(receiving->mu);
    if (!WaitFor(receiving->mu, receiving->changed, timeout_in_ms, [&]() MR_NO_THREAD_SAFETY_ANALYSIS {
          return receiving->missing == 0 || !receiving->status.ok() || !receiving->invalid.ok();
        })) {
      return TimedOut(timeout_in_ms);
    }
    MR_RETURN_IF_ERROR(receiving->invalid);
    failed = receiving->status;
    if (failed.ok()) *values = std::move(receiving->values);
  }
  return failed.ok() ? failed : Cause(failed, timeout_in_ms);
}

Status PartialStep::Wait(int64_t timeout_in_ms) {
  MutexLock lock(mu_);
  if (!WaitFor(mu_, ended_, timeout_in_ms, [this]() MR_NO_THREAD_SAFETY_ANALYSIS { return done_; })) {
    return TimedOut(timeout_in_ms);
  }
  return status_;
}

}  // namespace millrace
