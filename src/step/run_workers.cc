// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "step/run_workers.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/notification.h"
#include "base/step_cancelled.h"
#include "base/thread_pool.h"
#include "millrace/ref.h"
#include "step/task_steps.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace {
namespace {

// The error of a fetch without a value, which has its number, with the name of the tensor.
Status WithNameOfFetch(const Status& error, const InstalledPartition& partition) {
  constexpr std::string_view kStart = "Retval[";
  constexpr std::string_view kEnd = "] does not have value";
  constexpr std::string_view kPrefix = "_retval_";  // of a node's name: _retval_NODE_OUTPUT_NUMBER
  const std::string_view text = error.message();
  if (!errors::IsInvalidArgument(error) || !text.starts_with(kStart) || !text.ends_with(kEnd)) return error;
  const std::string number =
      StrCat("_", text.substr(kStart.size(), text.size() - kStart.size() - kEnd.size()));
  for (const std::string& bytes : partition.SerializedGraphs()) {
    tensorflow::GraphDef graph;
    if (!graph.ParseFromString(bytes)) continue;
    for (const tensorflow::NodeDef& node : graph.node()) {
      std::string name = node.name();
      if (node.op() != "_Retval" || !name.starts_with(kPrefix) || !name.ends_with(number)) continue;
      name = name.substr(kPrefix.size(), name.size() - kPrefix.size() - number.size());
      const size_t output = name.rfind('_');
      if (output == std::string::npos) continue;
      name[output] = ':';
      return errors::InvalidArgument("The tensor returned for ", name, " was not valid.");
    }
  }
  return error;
}

// One step on its workers. Exists until all of them have ended, and as long as a callback of the caller's
// cancellation may run.
class WorkersRun : public RefCounted {
 public:
  WorkersRun(const CompiledStep& step, const StepArgs& args, InstalledPartition::Done done)
      : step_(step), args_(args), caller_(*args.cancellation), done_(std::move(done)) {
    parts_.resize(step.partitions.size());
    MutexLock lock(mu_);
    waiting_ = parts_.size();
  }

  // `on_this_thread`: Start returns after the last partition of this process has run.
  void Start(bool on_this_thread) {
    token_ = caller_.Register([self = ShareRef(this)] { self->cancellation_.StartCancel(); });
    if (token_ == CancellationManager::kInvalidToken) return done_(StepCancelled());
    const RefPtr<WorkersRun> keep = ShareRef(this);
    std::vector<size_t> here;
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (step_.workers[i]->in_process()) {
        here.push_back(i);
      } else {
        RunPart(i, true);
      }
    }
    for (size_t k = 0; k < here.size(); ++k) {
      const bool last = k + 1 == here.size();
      if (!last && args_.inter_op_pool != nullptr) {
        args_.inter_op_pool->Schedule([self = ShareRef(this), i = here[k]] { self->RunPart(i, true); });
      } else {
        RunPart(here[k], !last || !on_this_thread);
      }
    }
  }

 private:
  struct Part {
    RunMetadata metadata;
    StepArgs args;
    bool cleaned_up = false;
  };

  void RunPart(size_t i, bool detached) {
    Part& part = parts_[i];
    part.args = args_;
    part.args.info.several_tasks = true;
    part.args.cancellation = &cancellation_;
    if (args_.metadata != nullptr) {
      part.metadata.step_start_unix_us = args_.metadata->step_start_unix_us;
      part.args.metadata = &part.metadata;
    }
    part.args.detached = detached;
    part.args.cleaned_up = &part.cleaned_up;
    step_.partitions[i]->Run(part.args, [self = ShareRef(this), i](const Status& s) { self->Ended(i, s); });
  }

  void Ended(size_t i, const Status& reported) {
    // A task may have dropped the cancelled step before the run began there.
    const Status& status =
        cancellation_.IsCancelled() && IsOfEndedStep(reported) ? StepCancelled() : reported;
    if (!status.ok()) {
      MutexLock lock(mu_);
      const int rank = RankOf(status, !error_.ok());
      if (rank > rank_ || IsOriginalOf(status, error_)) {
        error_ = status;
        rank_ = std::max(rank, rank_);
        failed_ = i;
      }
    }
    if (!status.ok()) cancellation_.StartCancel();
    Status result;
    {
      MutexLock lock(mu_);
      if (--waiting_ > 0) return;
      result = error_;
      if (!result.ok() && args_.info.call_depth == 0)
        result = WithNameOfFetch(result, *step_.partitions[failed_]);
      if (!result.ok()) result = FromTask(result, step_.workers[failed_]->task());
    }
    Finish(result);
  }

  // Errors of higher rank take precedence over earlier ones: the error of a node, then errors derived from it
  // in other tasks, then their cancellations because of it.
  static int RankOf(const Status& status, bool cancelling) {
    if (IsDerived(status)) return 2;
    // A worker may be cancelled before the error that caused the cancellation has arrived.
    const bool told = cancelling || status == StepCancelled();
    return told && errors::IsCancelled(status) ? 1 : 3;
  }

  bool IsOfEndedStep(const Status& status) const {
    if (!errors::IsAborted(status)) return false;
    return WithoutDerivedMark(status).message().starts_with(
        StrCat("Step ", args_.info.step_id, " has ended at "));
  }

  // Whether `error` has come to another task by a tensor and was reported by that one first.
  static bool IsOriginalOf(const Status& status, const Status& error) {
    return IsDerived(error) && !IsDerived(status) && status.code() == error.code() &&
           WithoutDerivedMark(error).message().starts_with(status.message());
  }

  static Status FromTask(const Status& status, const std::string& task) {
    const Status error = WithoutDerivedMark(status);
    if (error == StepCancelled()) return StepCancelled();  // errors of other processes only have this text
    // A called function may have run on several tasks itself.
    if (error.message().starts_with("From /job:")) return error;
    return Status(error.code(), StrCat("From ", task, ":\n", error.message()));
  }

  void Finish(const Status& result) {
    for (Part& part : parts_) {
      if (args_.metadata == nullptr) break;
      std::move(part.metadata.devices.begin(), part.metadata.devices.end(),
                std::back_inserter(args_.metadata->devices));
    }
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i].cleaned_up) continue;
      // If this call fails, the task keeps its state of the step until the next clean-up or its own end. The
      // step has its result.
      step_.workers[i]->CleanUpStep(args_.info.step_id, [](const Status& s) {
        s.IgnoreError("the result of the step does not depend on it");
      });
    }
    caller_.TryDeregister(token_);
    // The caller and its cancellation manager may be destroyed as soon as it is called.
    InstalledPartition::Done done = std::move(done_);
    done(result);
  }

  const CompiledStep& step_;
  const StepArgs args_;
  CancellationManager& caller_;
  CancellationManager::Token token_ = CancellationManager::kInvalidToken;
  CancellationManager cancellation_;
  InstalledPartition::Done done_;
  std::vector<Part> parts_;
  Mutex mu_;
  size_t waiting_ MR_GUARDED_BY(mu_) = 0;
  Status error_ MR_GUARDED_BY(mu_);
  int rank_ MR_GUARDED_BY(mu_) = 0;  // of error_
  size_t failed_ MR_GUARDED_BY(mu_) = 0;
};

}  // namespace

Status RunOnWorkers(const CompiledStep& step, const StepArgs& args) {
  Status result;
  Notification ended;
  MakeRef<WorkersRun>(step, args, [&](const Status& status) {
    result = status;
    ended.Notify();
  })->Start(true);
  ended.Wait();
  return result;
}

void StartOnWorkers(const CompiledStep& step, const StepArgs& args, InstalledPartition::Done done) {
  MakeRef<WorkersRun>(step, args, std::move(done))->Start(false);
}

}  // namespace millrace
