// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "millrace/monitored_session.h"
#include "millrace/run_metadata.h"
#include "millrace/saver.h"
#include "millrace/session_run_hook.h"
#include "millrace/summary.h"

// The hooks for training programs. Those that count steps need a global step (variables.h): otherwise
// FailedPrecondition "Global step should be created to use …".
namespace millrace {

// An interval: either a number of steps or a number of seconds.
struct Every {
  std::optional<int64_t> steps = {};
  std::optional<double> secs = {};
  static Every Steps(int64_t n) { return {.steps = n}; }
  static Every Secs(double s) { return {.secs = s}; }
};

// Decides at which steps a hook acts. The first call always triggers.
class SecondOrStepTimer {
 public:
  explicit SecondOrStepTimer(const Every& every) : every_(every) {}
  // InvalidArgument unless exactly one of the two is given.
  Status Check() const;
  void Reset() { last_step_ = std::nullopt; }
  bool ShouldTriggerForStep(int64_t step) const;
  struct Elapsed {
    double secs;
    int64_t steps;
  };
  // Records a trigger; returns the steps and seconds since the previous one.
  std::optional<Elapsed> UpdateLastTriggeredStep(int64_t step);
  std::optional<int64_t> last_triggered_step() const { return last_step_; }

 private:
  Every every_;
  std::optional<int64_t> last_step_;
  double last_time_ = 0;
};

// Called before and after checkpoints are saved.
class CheckpointSaverListener {
 public:
  virtual ~CheckpointSaverListener() = default;
  virtual Status Begin(const Scope& /*scope*/) { return Status(); }
  virtual Status BeforeSave(ClientSession& /*session*/, int64_t /*global_step*/) { return Status(); }
  // True stops the training.
  virtual StatusOr<bool> AfterSave(ClientSession& /*session*/, int64_t /*global_step*/) { return false; }
  virtual Status End(ClientSession& /*session*/, int64_t /*global_step*/) { return Status(); }
};

// Saves checkpoints "model.ckpt-<step>" at the start, at a fixed interval, and at the end.
class CheckpointSaverHook final : public SessionRunHook {
 public:
  // With the saver of the scaffold.
  CheckpointSaverHook(std::string checkpoint_dir, const Every& every, std::shared_ptr<Scaffold> scaffold,
                      std::vector<std::shared_ptr<CheckpointSaverListener>> listeners = {},
                      const std::string& basename = "model.ckpt");
  CheckpointSaverHook(std::string checkpoint_dir, const Every& every, std::shared_ptr<Saver> saver,
                      std::vector<std::shared_ptr<CheckpointSaverListener>> listeners = {},
                      const std::string& basename = "model.ckpt");
  // A thread writes the files while steps continue: Saver::SaveOptions::write_behind.
  void set_write_behind(bool write_behind) { write_behind_ = write_behind; }
  // Saver::SaveOptions::may_save.
  void set_may_save(std::function<Status()> may_save) { may_save_ = std::move(may_save); }

  Status Begin(const Scope& scope) override;
  Status AfterCreateSession(ClientSession& session, Coordinator& coordinator) override;
  StatusOr<SessionRunArgs> BeforeRun(SessionRunContext& context) override;
  Status AfterRun(SessionRunContext& context, const SessionRunValues& values) override;
  Status End(ClientSession& session) override;

 private:
  StatusOr<bool> Save(ClientSession& session, int64_t step);
  Saver* saver() const { return saver_ != nullptr ? saver_.get() : scaffold_->saver(); }

  const std::string checkpoint_dir_;
  const std::string save_path_;
  const std::shared_ptr<Scaffold> scaffold_;
  const std::shared_ptr<Saver> saver_;
  const std::vector<std::shared_ptr<CheckpointSaverListener>> listeners_;
  SecondOrStepTimer timer_;
  std::optional<Scope> scope_;
  std::shared_ptr<SummaryWriter> writer_;
  Output global_step_;
  bool write_behind_ = false;
  std::function<Status()> may_save_;
};

// Writes the number of steps per second as summary "global_step/sec", and logs it.
class StepCounterHook final : public SessionRunHook {
 public:
  // Without a folder the rate is only logged.
  explicit StepCounterHook(const Every& every = Every::Steps(100), std::string output_dir = {})
      : timer_(every), output_dir_(std::move(output_dir)) {}

  Status Begin(const Scope& scope) override;
  StatusOr<SessionRunArgs> BeforeRun(SessionRunContext& context) override;
  Status AfterRun(SessionRunContext& context, const SessionRunValues& values) override;

 private:
  SecondOrStepTimer timer_;
  const std::string output_dir_;
  std::shared_ptr<SummaryWriter> writer_;
  std::string tag_;
  Output global_step_;
  std::optional<int64_t> last_step_;
  int unchanged_ = 0;
};

// Writes summaries.
class SummarySaverHook final : public SessionRunHook {
 public:
  // The summary_op of the scaffold, or the given serialised Summaries.
  SummarySaverHook(const Every& every, std::string output_dir, std::shared_ptr<Scaffold> scaffold)
      : timer_(every), output_dir_(std::move(output_dir)), scaffold_(std::move(scaffold)) {}
  SummarySaverHook(const Every& every, std::string output_dir, std::vector<Output> summaries)
      : timer_(every), output_dir_(std::move(output_dir)), summaries_(std::move(summaries)) {}

  Status Begin(const Scope& scope) override;
  StatusOr<SessionRunArgs> BeforeRun(SessionRunContext& context) override;
  Status AfterRun(SessionRunContext& context, const SessionRunValues& values) override;
  Status End(ClientSession& session) override;

 private:
  SecondOrStepTimer timer_;
  const std::string output_dir_;
  const std::shared_ptr<Scaffold> scaffold_;
  std::vector<Output> summaries_;
  std::shared_ptr<SummaryWriter> writer_;
  Output global_step_;
  std::optional<int64_t> next_step_;
  bool requested_ = false;
};

// Logs values of tensors.
class LoggingTensorHook final : public SessionRunHook {
 public:
  using Tagged = std::vector<std::pair<std::string, Output>>;
  using Values = std::vector<std::pair<std::string, Tensor>>;
  struct Options {
    std::optional<Every> every = {};  // in runs; unset: at the end only, with at_end
    bool at_end = false;
    std::function<std::string(const Values&)> formatter = {};  // default: "tag = value, …"
  };
  LoggingTensorHook(Tagged tensors, Options options);

  Status Begin(const Scope& scope) override;
  StatusOr<SessionRunArgs> BeforeRun(SessionRunContext& context) override;
  Status AfterRun(SessionRunContext& context, const SessionRunValues& values) override;
  Status End(ClientSession& session) override;

 private:
  void Log(std::span<const Tensor> values);

  const Tagged tensors_;
  const Options options_;
  std::vector<Output> fetches_;
  SecondOrStepTimer timer_;
  int64_t runs_ = 0;
  bool triggered_ = false;
};

// Stops after a number of steps, or at a step. For a session that is restored at the last step, or later, it
// requests the stop at the start: MonitoredSession::Loop runs no step in it (TensorFlow's hook allows one).
class StopAtStepHook final : public SessionRunHook {
 public:
  struct Options {
    std::optional<int64_t> num_steps = {};
    std::optional<int64_t> last_step = {};
  };
  explicit StopAtStepHook(const Options& options) : options_(options), last_step_(options.last_step) {}

  Status Begin(const Scope& scope) override;
  Status AfterCreateSession(ClientSession& session, Coordinator& coordinator) override;
  StatusOr<SessionRunArgs> BeforeRun(SessionRunContext& context) override;
  Status AfterRun(SessionRunContext& context, const SessionRunValues& values) override;

 private:
  const Options options_;
  std::optional<int64_t> last_step_;
  Output global_step_;
};

// Stops, or fails with InvalidArgument "NaN loss during training.", if the loss is NaN.
class NanTensorHook final : public SessionRunHook {
 public:
  explicit NanTensorHook(const Output& loss, bool fail_on_nan_loss = true)
      : loss_(loss), fail_(fail_on_nan_loss) {}

  StatusOr<SessionRunArgs> BeforeRun(SessionRunContext& context) override;
  Status AfterRun(SessionRunContext& context, const SessionRunValues& values) override;

 private:
  const Output loss_;
  const bool fail_;
};

// Delays a worker until the global step has a value, with a time limit in seconds (DeadlineExceeded), so that
// workers start one after the other.
class GlobalStepWaiterHook final : public SessionRunHook {
 public:
  explicit GlobalStepWaiterHook(int64_t wait_until_step, double max_wait_secs = 7200,
                                double look_every_secs = 0.5)
      : wait_until_step_(wait_until_step), max_wait_secs_(max_wait_secs), look_every_secs_(look_every_secs) {}

  Status Begin(const Scope& scope) override;
  Status AfterCreateSession(ClientSession& session, Coordinator& coordinator) override;
  StatusOr<SessionRunArgs> BeforeRun(SessionRunContext& context) override;

 private:
  const int64_t wait_until_step_;
  const double max_wait_secs_;
  const double look_every_secs_;
  Coordinator* coordinator_ = nullptr;
  Output global_step_;
  bool started_ = false;
};

// Evaluates tensors at the end.
class FinalOpsHook final : public SessionRunHook {
 public:
  explicit FinalOpsHook(std::vector<Output> final_ops, ClientSession::Feeds feeds = {})
      : final_ops_(std::move(final_ops)), feeds_(std::move(feeds)) {}
  const std::vector<Tensor>& values() const { return values_; }

  Status End(ClientSession& session) override;

 private:
  const std::vector<Output> final_ops_;
  const ClientSession::Feeds feeds_;
  std::vector<Tensor> values_;
};

// Feeds the result of a function, which is called before each run.
class FeedFnHook final : public SessionRunHook {
 public:
  explicit FeedFnHook(std::function<StatusOr<ClientSession::Feeds>()> feed_fn)
      : feed_fn_(std::move(feed_fn)) {}

  StatusOr<SessionRunArgs> BeforeRun(SessionRunContext& context) override;

 private:
  const std::function<StatusOr<ClientSession::Feeds>()> feed_fn_;
};

// Traces a step at a fixed interval: "timeline-<step>.json" for Perfetto and chrome://tracing, and run
// metadata "step_<step>" in the events.
class ProfilerHook final : public SessionRunHook {
 public:
  ProfilerHook(const Every& every, std::string output_dir)
      : timer_(every), output_dir_(std::move(output_dir)) {}

  Status Begin(const Scope& scope) override;
  StatusOr<SessionRunArgs> BeforeRun(SessionRunContext& context) override;
  Status AfterRun(SessionRunContext& context, const SessionRunValues& values) override;

 private:
  SecondOrStepTimer timer_;
  const std::string output_dir_;
  std::shared_ptr<SummaryWriter> writer_;
  Output global_step_;
  std::optional<int64_t> next_step_;
  bool requested_ = false;
};

// Shows the progress of a training: step, steps per second, loss and remaining time; one updated line on a
// terminal, plain lines otherwise.
class ProgressHook final : public SessionRunHook {
 public:
  struct Options {
    Output loss = {};                                    // a scalar, float or double; unset: not shown
    std::optional<int64_t> last_step = {};               // unset: the remaining time is not shown
    double every_secs = 1;                               // on a terminal; plain lines: ten times this
    std::optional<bool> is_terminal = {};                // unset: detected for standard error
    std::function<void(const std::string&)> write = {};  // unset: to standard error
  };
  explicit ProgressHook(Options options) : options_(std::move(options)), timer_({.secs = 0}) {}

  Status Begin(const Scope& scope) override;
  StatusOr<SessionRunArgs> BeforeRun(SessionRunContext& context) override;
  Status AfterRun(SessionRunContext& context, const SessionRunValues& values) override;
  Status End(ClientSession& session) override;

 private:
  const Options options_;
  bool terminal_ = false;
  SecondOrStepTimer timer_;
  Output global_step_;
};

}  // namespace millrace
