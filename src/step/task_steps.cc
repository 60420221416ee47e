// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "step/task_steps.h"

#include <utility>

#include "base/hash.h"

namespace millrace {
namespace {

constexpr std::string_view kDerivedMark = "[_Derived_]";

}  // namespace

TaskRendezvous::TaskRendezvous(int64_t step_id, const std::string& task, const PullTensor& pull)
    : step_id_(step_id), task_(task), pull_(pull) {}

void TaskRendezvous::RecvAsync(const Key& key, RecvDone done) {
  const std::string_view sender = SendingTask(key);
  std::shared_ptr<const TaskPeers> peers;
  int64_t number = 0;
  Status failed;
  bool here = false;
  {
    MutexLock lock(mu_);
    peers = peers_;
    here = sender == (peers == nullptr ? task_ : peers->task);
    if (!here) failed = aborted_;
    if (!here && failed.ok()) {
      number = next_pull_++;
      pulls_.emplace(number, std::move(done));
    }
  }
  if (here) return local_->RecvAsync(key, std::move(done));
  if (!failed.ok()) return done(failed, Tensor(), false);
  const PullTensor& pull = peers == nullptr ? pull_ : peers->pull;
  pull(sender, step_id_, key, cancellation_,
       [self = ShareRef(this), number](const Status& status, Tensor tensor, bool is_dead) {
         self->Arrived(number, status, std::move(tensor), is_dead);
       });
}

void TaskRendezvous::Use(std::shared_ptr<const TaskPeers> peers) {
  MutexLock lock(mu_);
  peers_ = std::move(peers);
}

void TaskRendezvous::Arrived(int64_t number, const Status& status, Tensor tensor, bool is_dead) {
  RecvDone done;
  {
    MutexLock lock(mu_);
    const auto it = pulls_.find(number);
    if (it == pulls_.end()) return;  // aborted meanwhile
    done = std::move(it->second);
    pulls_.erase(it);
  }
  done(status, std::move(tensor), is_dead);
}

void TaskRendezvous::StartAbort(const Status& status) {
  decltype(pulls_) orphans;
  Status why;
  {
    MutexLock lock(mu_);
    aborted_.Update(status);
    why = aborted_;
    orphans.swap(pulls_);
  }
  for (auto& [number, done] : orphans) done(why, Tensor(), false);
  cancellation_.StartCancel();
  local_->StartAbort(status);
}

bool TaskRendezvous::idle() const {
  {
    MutexLock lock(mu_);
    if (!pulls_.empty()) return false;
  }
  return local_->empty();
}

TaskSteps::~TaskSteps() {
  decltype(steps_) left;
  {
    MutexLock lock(mu_);
    left.swap(steps_);
  }
  for (auto& [id, step] : left) step->rendezvous->StartAbort(errors::Cancelled("The task is shutting down"));
}

StatusOr<RefPtr<TaskSteps::Step>> TaskSteps::Find(int64_t step_id) { return FindOrMake(step_id, true); }

StatusOr<RefPtr<TaskSteps::Step>> TaskSteps::FindOrMake(int64_t step_id, bool to_run) {
  MutexLock lock(mu_);
  if (ended_.contains(step_id)) return errors::Aborted("Step ", step_id, " has ended at ", task_);
  RefPtr<Step>& step = steps_[step_id];
  if (step == nullptr) step = MakeRef<Step>(step_id, task_, pull_);
  step->is_run = step->is_run || to_run;
  if (!to_run) step->pulls->fetch_add(1, std::memory_order_relaxed);
  return step;
}

void TaskSteps::RecvLocal(int64_t step_id, const Rendezvous::Key& key, Rendezvous::RecvDone done) {
  const StatusOr<RefPtr<Step>> step = FindOrMake(step_id, false);
  if (!step.ok()) return done(MakeDerived(step.status()), Tensor(), false);
  (*step)->rendezvous->RecvLocal(key, [pulls = (*step)->pulls, finish = std::move(done)](
                                          const Status& status, Tensor tensor, bool is_dead) mutable {
    finish(MakeDerived(status), std::move(tensor), is_dead);
    pulls->fetch_sub(1, std::memory_order_release);
  });
}

RefPtr<TaskSteps::Step> TaskSteps::Remove(int64_t step_id) {
  if (ended_.insert(step_id).second) {
    ended_order_.push_back(step_id);
    if (ended_order_.size() > kRemembered) {
      ended_.erase(ended_order_.front());
      ended_order_.pop_front();
    }
  }
  const auto it = steps_.find(step_id);
  if (it == steps_.end()) return nullptr;
  RefPtr<Step> step = std::move(it->second);
  steps_.erase(it);
  return step;
}

void TaskSteps::CleanUp(int64_t step_id) {
  RefPtr<Step> step;
  {
    MutexLock lock(mu_);
    step = Remove(step_id);
  }
  // A partial run may take tensors after its step has ended; only other tasks wait in vain.
  if (step != nullptr) step->resources.Clear();
}

bool TaskSteps::CleanUpIfIdle(int64_t step_id) {
  RefPtr<Step> step;
  MutexLock lock(mu_);
  const auto it = steps_.find(step_id);
  if (it == steps_.end()) return false;
  if (it->second->pulls->load(std::memory_order_acquire) > 0 || !it->second->resources.unused()) return false;
  if (!it->second->rendezvous->idle()) return false;
  step = Remove(step_id);  // destroyed after the lock is released
  return true;
}

void TaskSteps::CleanUpUnlessRun(int64_t step_id) {
  RefPtr<Step> step;
  {
    MutexLock lock(mu_);
    const auto it = steps_.find(step_id);
    if (it == steps_.end() || it->second->is_run) return;
    step = Remove(step_id);
  }
  step->rendezvous->StartAbort(errors::Aborted("Step ", step_id, " has ended at ", task_));
}

size_t TaskSteps::size() const {
  MutexLock lock(mu_);
  return steps_.size();
}

Rendezvous::Key KeyFromText(std::string text) {
  const uint64_t hash = Hash64(text);
  return {std::move(text), hash};
}

std::string_view SendingTask(const Rendezvous::Key& key) {
  const std::string_view device = std::string_view(key.text).substr(0, key.text.find(';'));
  const size_t local = device.find("/device:");
  return device.substr(0, local == std::string_view::npos ? 0 : local);
}

Status MakeDerived(const Status& status) {
  if (status.ok() || IsDerived(status)) return status;
  return Status(status.code(), StrCat(kDerivedMark, status.message()));
}

bool IsDerived(const Status& status) { return status.message().find(kDerivedMark) != std::string_view::npos; }

Status WithoutDerivedMark(const Status& status) {
  const size_t at = status.message().find(kDerivedMark);
  if (at == std::string_view::npos) return status;
  std::string text = status.message();
  return Status(status.code(), text.erase(at, kDerivedMark.size()));
}

}  // namespace millrace
