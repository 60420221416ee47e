// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "millrace/client_session.h"
#include "millrace/coordinator.h"
#include "millrace/monitored_session.h"
#include "millrace/scope.h"
#include "millrace/status.h"
#include "millrace/summary.h"
#include "millrace/tensor.h"

namespace millrace {

// The older API for training: the caller has a plain session and its own loop; threads save checkpoints and
// summaries at time intervals. A MonitoredSession, for new programs, does both between steps.
//   auto supervisor = Supervisor::Make(scope, {.logdir = "run1"});
//   Status status = (*supervisor)->ManagedSession([&](ClientSession& session) -> Status {
//     while (!(*supervisor)->ShouldStop()) MR_RETURN_IF_ERROR(session.Run({}, {}, {train}, nullptr));
//     return Status();
//   });
// Methods may be called by several threads, those that start and end sessions by one.
class Supervisor {
 public:
  struct Options {
    bool is_chief = true;
    std::shared_ptr<Scaffold> scaffold = {};  // initialisation ops, saver, summaries
    std::string logdir = {};                  // for checkpoints and events; "": nothing is written
    double save_summaries_secs = 120;         // 0: no summaries, and no steps per second
    double save_model_secs = 600;             // 0: no checkpoints
    double recovery_wait_secs = 30;           // between two checks of a worker whether the model is ready
    double stop_grace_secs = 120;             // for threads to end
    double max_wait_secs = 7200;              // how long workers wait for the chief
    std::string checkpoint_basename = "model.ckpt";
  };
  // Finalizes the scaffold and the graph, until the supervisor is destroyed.
  static StatusOr<std::unique_ptr<Supervisor>> Make(const Scope& scope) { return Make(scope, Options()); }
  static StatusOr<std::unique_ptr<Supervisor>> Make(const Scope& scope, Options options);
  ~Supervisor();  // stops the threads
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // The chief restores the newest checkpoint of the folder or initialises the model, writes the graph and,
  // unless disabled, starts the standard services; other tasks wait for the chief. Then the queue runners
  // start. The session must exist until Stop.
  StatusOr<std::unique_ptr<ClientSession>> PrepareOrWaitForSession(const SessionOptions& options = {},
                                                                   bool start_standard_services = true);
  // The threads that write summaries, the steps per second and checkpoints. FailedPrecondition on a task that
  // is not the chief.
  Status StartStandardServices(ClientSession& session);
  Status StartQueueRunners(ClientSession& session);
  // Prepares a session, runs `body` with it, and stops with its status; OutOfRange is a normal end.
  Status ManagedSession(const std::function<Status(ClientSession&)>& body,
                        const SessionOptions& options = {});

  // Calls `target` repeatedly in a thread, at an interval in seconds, until the supervisor stops.
  void Loop(std::optional<double> interval_secs, std::string name, std::function<Status()> target);
  bool ShouldStop() const { return coordinator_.ShouldStop(); }
  void RequestStop(const Status& error = Status()) { coordinator_.RequestStop(error); }
  // Waits for a stop request.
  void WaitForStop() const { coordinator_.WaitForStop(); }
  // Stops the threads, waits for them, and closes the events. Returns the first error.
  Status Stop(bool close_summary_writer = true, bool ignore_live_threads = false);

  // Writes a serialised Summary; without a step, with the global step of the current session.
  Status SummaryComputed(const Tensor& summary, std::optional<int64_t> step = {});

  bool is_chief() const { return options_.is_chief; }
  Coordinator& coordinator() { return coordinator_; }
  const Scaffold& scaffold() const { return *options_.scaffold; }
  Saver* saver() const { return options_.scaffold->saver(); }
  SummaryWriter* summary_writer() const { return writer_.get(); }  // null without a folder
  const std::string& save_path() const { return save_path_; }

 private:
  Supervisor(const Scope& scope, Options options);
  Status Prepare();
  Status WriteGraph(int64_t step);
  Status WriteSummaries(ClientSession& session);
  Status WriteRate(ClientSession& session);
  Status SaveModel(ClientSession& session);

  const Scope scope_;
  Options options_;
  std::string save_path_;
  std::shared_ptr<SummaryWriter> writer_;
  Output global_step_;                // unset if the graph has none
  ClientSession* session_ = nullptr;  // the last prepared one
  const bool was_finalized_;
  std::optional<std::pair<double, int64_t>> last_rate_;  // time and step
  Coordinator coordinator_;                              // declared last: its threads use the others
};

}  // namespace millrace
