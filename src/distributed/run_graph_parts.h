// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "base/cancellation.h"
#include "base/mutex.h"
#include "distributed/transport.h"
#include "step/task_steps.h"
#include "step/worker.h"

namespace tensorflow {
class RunGraphRequest;
}  // namespace tensorflow

namespace millrace {

// Passes the tensors of a request to the step.
Status SendFeeds(tensorflow::RunGraphRequest* request, TaskSteps::Step& step);

// Steps that another master runs in parts: calls of RunGraph with is_partial. The first one starts the graph;
// each feeds tensors and fetches others, as soon as they are computed; the last one is answered when nothing
// of the graph runs any more. Thread-safe.
class RunGraphParts {
 public:
  // Starts the graph; `done` is called once, when it has ended.
  using StartGraph = UniqueFunction<void(CancellationManager& cancellation, InstalledPartition::Done done)>;

  // REQUIRES: `steps` outlives this.
  explicit RunGraphParts(TaskSteps& steps) : steps_(steps) {}
  // Answers one call. Cancelling `caller`, which lives until the reply, ends the whole step.
  void Run(std::shared_ptr<tensorflow::RunGraphRequest> request, CancellationManager& caller,
           StartGraph start, Reply reply) MR_EXCLUDES(mu_);
  // Stops and drops a step, or all of them. Does not wait. `why` is the error of calls in progress that
  // nobody else has cancelled before; OK: Cancelled or Aborted.
  void CleanUp(int64_t step_id, const Status& why) MR_EXCLUDES(mu_);
  void CleanUpAll(const Status& why) MR_EXCLUDES(mu_);

 private:
  struct OneRun;
  struct Call;
  void Ended(OneRun& run, const Status& status);
  void Answer(const std::shared_ptr<Call>& call, Status status);
  void Finish(Call& call, Status status);

  TaskSteps& steps_;
  Mutex mu_;
  std::map<int64_t, std::shared_ptr<OneRun>> runs_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace
