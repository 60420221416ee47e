// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "millrace/client_session.h"
#include "millrace/saver.h"
#include "millrace/scope.h"
#include "millrace/session_run_hook.h"
#include "millrace/status.h"

// Sessions for training: they restore or initialise the model, start its threads, call hooks around each run,
// and are created again after the loss of a task; docs/training-sessions.md has examples.
namespace millrace {

// The ops that a training program needs besides its model. Unset ones are taken from the graph's collections,
// or created, by Finalize.
class Scaffold {
 public:
  struct Options {
    Operation init_op = {};  // initialises the variables that a checkpoint contains
    ClientSession::Feeds init_feeds = {};
    std::function<Status(ClientSession&)> init_fn = {};  // called after init_op
    Output ready_op = {};                                // names of uninitialised variables; empty: ready
    Output ready_for_local_init_op = {};
    Operation local_init_op = {};  // initialises local variables and tables, in every session
    Output summary_op = {};
    std::shared_ptr<Saver> saver = {};
  };
  explicit Scaffold(const Scope& scope) : Scaffold(scope, Options()) {}
  Scaffold(const Scope& scope, Options options) : scope_(scope), parts_(std::move(options)) {}

  // Creates missing ops and finalizes the graph: a node that is added later is an error of the scope,
  // FailedPrecondition "Graph is finalized and cannot be modified.". A second call has no effect.
  // FailedPrecondition if a collection has several candidates.
  Status Finalize();

  const Scope& scope() const { return scope_; }
  const Options& parts() const { return parts_; }
  Saver* saver() const { return parts_.saver.get(); }

 private:
  Status FindOrMake();

  const Scope scope_;
  Options parts_;
  bool finalized_ = false;
};

// Creates sessions whose variables are restored or initialised, or waits until they are.
class SessionManager {
 public:
  struct Options {
    Operation local_init_op = {};
    Output ready_op = {};
    Output ready_for_local_init_op = {};
    double recovery_wait_secs = 30;  // between two checks
  };
  SessionManager(const Scope& scope, Options options) : scope_(scope), options_(options) {}

  struct Restoring {
    SessionOptions session = {};
    Saver* saver = nullptr;
    // The newest checkpoint of a folder, or a checkpoint path; not both.
    std::string checkpoint_dir = {};
    std::string checkpoint_path = {};
    bool wait_for_checkpoint = false;
    double max_wait_secs = 7200;
  };
  struct Initializing {
    Operation init_op = {};
    ClientSession::Feeds init_feeds = {};
    std::function<Status(ClientSession&)> init_fn = {};
  };
  // For the chief: restores, or else initialises, then runs local_init_op. FailedPrecondition "Init
  // operations did not make model ready. …" if the model is not ready after that.
  StatusOr<std::unique_ptr<ClientSession>> PrepareSession(const Restoring& restoring,
                                                          const Initializing& initializing) const;
  // Only restores. Also returns whether the model is ready.
  StatusOr<std::pair<std::unique_ptr<ClientSession>, bool>> RecoverSession(const Restoring& restoring) const;
  // For other workers: creates a session repeatedly until the model is ready in it. DeadlineExceeded "Session
  // was not ready after waiting … secs.".
  StatusOr<std::unique_ptr<ClientSession>> WaitForSession(const SessionOptions& session,
                                                          double max_wait_secs = 7200) const;

 private:
  StatusOr<std::pair<std::unique_ptr<ClientSession>, bool>> Restore(const Restoring& restoring) const;
  // Empty if ready, else the reason.
  StatusOr<std::optional<std::string>> TryLocalInit(const ClientSession& session) const;

  const Scope scope_;
  const Options options_;
};

// Creates sessions in which the model is ready.
class SessionCreator {
 public:
  virtual ~SessionCreator() = default;
  virtual StatusOr<std::unique_ptr<ClientSession>> CreateSession() = 0;
};

// Restores or initialises the model.
class ChiefSessionCreator final : public SessionCreator {
 public:
  struct Options {
    SessionOptions session = {};
    std::string checkpoint_dir = {};
    std::string checkpoint_path = {};
    double recovery_wait_secs = 30;
  };
  ChiefSessionCreator(std::shared_ptr<Scaffold> scaffold, Options options)
      : scaffold_(std::move(scaffold)), options_(std::move(options)) {}
  StatusOr<std::unique_ptr<ClientSession>> CreateSession() override;

 private:
  const std::shared_ptr<Scaffold> scaffold_;
  const Options options_;
};

// Waits until another process has made the model ready.
class WorkerSessionCreator final : public SessionCreator {
 public:
  struct Options {
    SessionOptions session = {};
    double max_wait_secs = 30 * 60;
    double recovery_wait_secs = 30;
  };
  WorkerSessionCreator(std::shared_ptr<Scaffold> scaffold, Options options)
      : scaffold_(std::move(scaffold)), options_(std::move(options)) {}
  StatusOr<std::unique_ptr<ClientSession>> CreateSession() override;

 private:
  const std::shared_ptr<Scaffold> scaffold_;
  const Options options_;
};

using Hooks = std::vector<std::shared_ptr<SessionRunHook>>;

struct MonitoredSessionOptions {
  double stop_grace_period_secs = 120;  // for threads to end
  // After Aborted and Unavailable a new session is created, and the run is repeated in it, with a limit on
  // the time of failing attempts.
  bool recover = true;
  double max_recovery_secs = 7200;
  double recovery_wait_secs = 1;  // between two attempts to create a session
};

// A session that calls hooks, runs queue runners, and recovers from lost tasks. Not thread-safe.
//   while (!session->ShouldStop()) { … session->Run(train_op) … }
//   return session->Close(status);
class MonitoredSession {
 public:
  // Calls Begin of the hooks, creates the session, starts the queue runners, calls AfterCreateSession.
  static StatusOr<std::unique_ptr<MonitoredSession>> Make(const Scope& scope,
                                                          std::shared_ptr<SessionCreator> creator,
                                                          Hooks hooks = {},
                                                          const MonitoredSessionOptions& options = {});
  // As Close after an error: End of the hooks is not called.
  ~MonitoredSession();
  MonitoredSession(const MonitoredSession&) = delete;
  MonitoredSession& operator=(const MonitoredSession&) = delete;

  // True after Close, and after a hook or a thread requested a stop. Errors of threads are returned by Run.
  bool ShouldStop();

  // FailedPrecondition "Run called even after should_stop requested." and "Session is already closed.". An
  // error of a thread is returned instead of the error that it caused here.
  Status Run(const RunOptions& options, const ClientSession::Feeds& feeds, const std::vector<Output>& fetches,
             const std::vector<Operation>& operations, std::vector<Tensor>* outputs, RunMetadata* metadata);
  Status Run(const ClientSession::Feeds& feeds, const std::vector<Output>& fetches,
             const std::vector<Operation>& operations, std::vector<Tensor>* outputs) {
    return Run(RunOptions(), feeds, fetches, operations, outputs, nullptr);
  }
  Status Run(const std::vector<Output>& fetches, std::vector<Tensor>* outputs) {
    return Run({}, fetches, {}, outputs);
  }
  Status Run(const Operation& operation) { return Run({}, {}, {operation}, nullptr); }

  // The argument of a step function: the session without hooks, runs with hooks, and a stop request.
  class StepContext {
   public:
    // After Close the program ends with a message.
    ClientSession& session() const {
      if (owner_.raw_session() == nullptr)
        internal::EndWithMessage("MonitoredSession::StepContext::session: the session is closed");
      return *owner_.raw_session();
    }
    Status RunWithHooks(const ClientSession::Feeds& feeds, const std::vector<Output>& fetches,
                        const std::vector<Operation>& operations, std::vector<Tensor>* outputs);
    void RequestStop() { owner_.step_stop_ = true; }

   private:
    friend class MonitoredSession;
    explicit StepContext(MonitoredSession& owner) : owner_(owner) {}
    MonitoredSession& owner_;
  };
  // Calls the function; calls it again in a new session after Aborted and Unavailable.
  Status RunStepFn(const std::function<Status(StepContext&)>& step);

  // Runs `body` until ShouldStop or an error, and closes with its status.
  Status Loop(const std::function<Status(MonitoredSession&)>& body);

  // Closes: calls End of the hooks if `status` is OK or OutOfRange (the end of input); stops the threads and
  // the session. Returns the first error, except OutOfRange.
  Status Close(const Status& status = Status());

  // The session without hooks; null after Close; changes after recoveries.
  ClientSession* raw_session() const { return session_.get(); }

 private:
  MonitoredSession(const Scope& scope, std::shared_ptr<SessionCreator> creator, Hooks hooks,
                   const MonitoredSessionOptions& options);
  Status Begin();
  Status CreateSession();  // including the threads and hooks
  Status CreateSessionRetrying();
  Status CloseSession();
  Status Recovering(const std::function<Status()>& body);
  Status RunHooked(const RunOptions& options, const ClientSession::Feeds& feeds,
                   const std::vector<Output>& fetches, const std::vector<Operation>& operations,
                   std::vector<Tensor>* outputs, RunMetadata* metadata);

  const Scope scope_;
  const std::shared_ptr<SessionCreator> creator_;
  const Hooks hooks_;
  const MonitoredSessionOptions options_;
  std::unique_ptr<ClientSession> session_;
  std::unique_ptr<Coordinator> coordinator_;  // declared after the session, which its threads use
  bool hook_stop_ = false;
  bool step_stop_ = false;
  bool closed_ = false;
  bool was_finalized_ = false;
};

inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

class ChiefLease;

struct MonitoredTrainingSessionOptions {
  bool is_chief = true;
  // If set, it determines the chief, and another worker takes over when the chief is lost; see
  // millrace/replicas.h. All workers then need checkpoint_dir and the hooks of a chief.
  std::shared_ptr<ChiefLease> lease = {};
  std::string checkpoint_dir = {};  // "": nothing is saved or restored
  std::shared_ptr<Scaffold> scaffold = {};
  Hooks hooks = {};
  Hooks chief_only_hooks = {};
  // Intervals; at most one of each pair. Unset: checkpoints every 600 s, summaries every 100 steps; kNever.
  std::optional<int64_t> save_checkpoint_steps = {};
  std::optional<double> save_checkpoint_secs = {};
  bool write_checkpoints_behind = false;  // in a thread, while steps continue: Saver::SaveOptions
  std::optional<int64_t> save_summaries_steps = {};
  std::optional<double> save_summaries_secs = {};
  int64_t log_step_count_steps = 100;
  // Common hooks: the step to stop at (StopAtStepHook), and the loss to show with the progress
  // (ProgressHook).
  std::optional<int64_t> last_step = {};
  Output progress_loss = {};
  SessionOptions session = {};
  MonitoredSessionOptions monitored = {};
  double max_wait_secs = 7200;     // how long workers wait for the chief
  double recovery_wait_secs = 30;  // between two checks of a worker
  std::string summary_dir = {};    // "": checkpoint_dir
};

// A MonitoredSession that, on the chief, restores from and saves checkpoints, and writes summaries and the
// steps per second.
StatusOr<std::unique_ptr<MonitoredSession>> MonitoredTrainingSession(
    const Scope& scope, const MonitoredTrainingSessionOptions& options = {});

// Runs `train` in a MonitoredTrainingSession until ShouldStop.
Status RunTraining(const Scope& scope, const Operation& train,
                   const MonitoredTrainingSessionOptions& options = {});

// Without recovery.
StatusOr<std::unique_ptr<MonitoredSession>> SingularMonitoredSession(
    const Scope& scope, const Hooks& hooks = {}, const ChiefSessionCreator::Options& options = {},
    std::shared_ptr<Scaffold> scaffold = {}, double stop_grace_period_secs = 120);

}  // namespace millrace
