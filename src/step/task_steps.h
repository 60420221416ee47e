// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/cancellation.h"
#include "base/mutex.h"
#include "kernel/rendezvous.h"
#include "kernel/resource.h"
#include "millrace/ref.h"
#include "millrace/status.h"
#include "step/local_rendezvous.h"
#include "step/task_collectives.h"

namespace millrace {

// Requests a tensor of a step from another task: Worker::RecvTensor of the worker for that task. Cancelling
// `cancellation`, which lives until `done`, ends the request.
using PullTensor = std::function<void(std::string_view task, int64_t step_id, const Rendezvous::Key& key,
                                      CancellationManager& cancellation, Rendezvous::RecvDone done)>;

// The name of a task in a step, and its way to request tensors from others. `pull` may be called while a
// session that uses it runs a partition.
struct TaskPeers {
  std::string task;
  PullTensor pull;
};

// The part of a step's rendezvous at one of its tasks. Sent tensors stay here until they are received, by
// this task or another one; tensors of other tasks are requested there. Thread-safe.
class TaskRendezvous : public Rendezvous {
 public:
  // REQUIRES: `task` and `pull` outlive this.
  TaskRendezvous(int64_t step_id, const std::string& task, const PullTensor& pull);
  Status Send(const Key& key, Tensor tensor, bool is_dead) override {
    return local_->Send(key, std::move(tensor), is_dead);
  }
  void RecvAsync(const Key& key, RecvDone done) override MR_EXCLUDES(mu_);
  void StartAbort(const Status& status) override MR_EXCLUDES(mu_);
  // For a step of another cluster than that of the task. REQUIRES: called before its partition runs.
  void Use(std::shared_ptr<const TaskPeers> peers) MR_EXCLUDES(mu_);
  // For tensors that are sent at this task.
  void RecvLocal(const Key& key, RecvDone done) { local_->RecvAsync(key, std::move(done)); }
  // Whether nothing waits here: no tensor for a receiver, no receiver for a tensor.
  bool idle() const MR_EXCLUDES(mu_);

 private:
  void Arrived(int64_t number, const Status& status, Tensor tensor, bool is_dead) MR_EXCLUDES(mu_);

  const int64_t step_id_;
  const std::string& task_;
  const PullTensor& pull_;
  const RefPtr<LocalRendezvous> local_ = MakeRef<LocalRendezvous>();
  CancellationManager cancellation_;  // of the pulls, which hold this
  mutable Mutex mu_;
  std::shared_ptr<const TaskPeers> peers_ MR_GUARDED_BY(mu_);  // null: task_ and pull_
  Status aborted_ MR_GUARDED_BY(mu_);
  int64_t next_pull_ MR_GUARDED_BY(mu_) = 0;
  std::map<int64_t, RecvDone> pulls_ MR_GUARDED_BY(mu_);  // that have not been answered
};

// The state of a task for steps that run on several tasks, by step id. An entry is created by the first
// event, a partition or a request of another task for a tensor, and dropped by CleanUp. Thread-safe.
class TaskSteps {
 public:
  struct Step : RefCounted {
    Step(int64_t id, const std::string& task, const PullTensor& pull)
        : rendezvous(MakeRef<TaskRendezvous>(id, task, pull)) {}
    const RefPtr<TaskRendezvous> rendezvous;
    ResourceManager resources{"the step's container"};
    bool is_run = false;  // a partition has it, whose master cleans up; guarded by the mutex of TaskSteps
    // Requests of other tasks in progress. Incremented under the mutex of TaskSteps; the release at the end
    // of one pairs with the acquire in CleanUpIfIdle.
    const std::shared_ptr<std::atomic<int>> pulls = std::make_shared<std::atomic<int>>(0);
  };

  TaskSteps(std::string task, PullTensor pull)
      : task_(std::move(task)), pull_(std::move(pull)), collectives_(task_) {}
  ~TaskSteps();
  // For a partition. Aborted when the step has already ended here.
  StatusOr<RefPtr<Step>> Find(int64_t step_id) MR_EXCLUDES(mu_);
  // A tensor that the step sends under `key` here, once it is available. Errors get the mark of MakeDerived.
  void RecvLocal(int64_t step_id, const Rendezvous::Key& key, Rendezvous::RecvDone done) MR_EXCLUDES(mu_);
  void CleanUp(int64_t step_id) MR_EXCLUDES(mu_);
  // Cleans up a step whose partition has ended if nothing of it is left that another task may need. False:
  // the master has to do it.
  bool CleanUpIfIdle(int64_t step_id) MR_EXCLUDES(mu_);
  // Cleans up a step that is known only by requests of other tasks for its tensors: one of them has given up,
  // and the master may not know that the step is here.
  void CleanUpUnlessRun(int64_t step_id) MR_EXCLUDES(mu_);
  const std::string& task() const { return task_; }
  size_t size() const MR_EXCLUDES(mu_);
  TaskCollectives& collectives() { return collectives_; }

 private:
  // The number of ended steps whose ids are remembered. Messages are not delayed for longer than that.
  static constexpr size_t kRemembered = 4096;

  StatusOr<RefPtr<Step>> FindOrMake(int64_t step_id, bool to_run) MR_EXCLUDES(mu_);
  RefPtr<Step> Remove(int64_t step_id) MR_REQUIRES(mu_);

  const std::string task_;
  const PullTensor pull_;
  TaskCollectives collectives_;
  mutable Mutex mu_;
  std::unordered_map<int64_t, RefPtr<Step>> steps_ MR_GUARDED_BY(mu_);
  std::unordered_set<int64_t> ended_ MR_GUARDED_BY(mu_);
  std::deque<int64_t> ended_order_ MR_GUARDED_BY(mu_);
};

// A key in text form.
Rendezvous::Key KeyFromText(std::string text);
// "/job:…/replica:…/task:…" of the device that sends under the key.
std::string_view SendingTask(const Rendezvous::Key& key);

// An error that reached a task because of another error of the same step, which is the one to report. It
// keeps the mark in messages; TensorFlow's tasks use the same one.
Status MakeDerived(const Status& status);
bool IsDerived(const Status& status);
// Without the mark.
Status WithoutDerivedMark(const Status& status);

}  // namespace millrace
