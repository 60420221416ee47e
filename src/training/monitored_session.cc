// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/monitored_session.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/logging.h"
#include "cc/scope_state.h"
#include "millrace/hooks.h"
#include "millrace/queue_runner.h"
#include "training/leased_session.h"
#include "training/save_guard.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// A new session may succeed where the old one could not.
bool IsPreemption(const Status& status) { return errors::IsAborted(status) || errors::IsUnavailable(status); }

// Merges the options: the higher trace level and the longer timeout.
void Merge(const RunOptions& wanted, RunOptions* options) {
  options->trace_level = std::max(options->trace_level, wanted.trace_level);
  options->timeout_in_ms = std::max(options->timeout_in_ms, wanted.timeout_in_ms);
  options->inter_op_thread_pool = std::max(options->inter_op_thread_pool, wanted.inter_op_thread_pool);
  options->output_partition_graphs |= wanted.output_partition_graphs;
  options->report_tensor_allocations_upon_oom |= wanted.report_tensor_allocations_upon_oom;
}

Status AddFeeds(const ClientSession::Feeds& more, size_t num_of_user, ClientSession::Feeds* feeds) {
  for (const auto& feed : more) {
    for (size_t i = 0; i < feeds->size(); ++i) {
      if (!((*feeds)[i].first == feed.first)) continue;
      const char* const text = i < num_of_user ? "Same tensor is fed by a SessionRunHook and user."
                                               : "Same tensor is fed by two hooks.";
      return errors::InvalidArgument(text, " Conflict(s): ", Scope::NameOf(feed.first));
    }
    feeds->push_back(feed);
  }
  return Status();
}

// The caller's hooks, and those for the options.
Hooks WithSimpleHooks(const MonitoredTrainingSessionOptions& options) {
  Hooks hooks = options.hooks;
  if (options.last_step.has_value()) {
    hooks.push_back(
        std::make_shared<StopAtStepHook>(StopAtStepHook::Options{.last_step = options.last_step}));
  }
  if (options.progress_loss.IsSet()) {
    hooks.push_back(std::make_shared<ProgressHook>(
        ProgressHook::Options{.loss = options.progress_loss, .last_step = options.last_step}));
  }
  return hooks;
}

}  // namespace

MonitoredSession::MonitoredSession(const Scope& scope, std::shared_ptr<SessionCreator> creator, Hooks hooks,
                                   const MonitoredSessionOptions& options)
    : scope_(scope),
      creator_(std::move(creator)),
      hooks_(std::move(hooks)),
      options_(options),
      was_finalized_(scope.state().finalized) {}

StatusOr<std::unique_ptr<MonitoredSession>> MonitoredSession::Make(const Scope& scope,
                                                                   std::shared_ptr<SessionCreator> creator,
                                                                   Hooks hooks,
                                                                   const MonitoredSessionOptions& options) {
  if (creator == nullptr) {
    creator = std::make_shared<ChiefSessionCreator>(std::make_shared<Scaffold>(scope),
                                                    ChiefSessionCreator::Options());
  }
  std::unique_ptr<MonitoredSession> session(
      new MonitoredSession(scope, std::move(creator), std::move(hooks), options));
  MR_RETURN_IF_ERROR(session->Begin());
  return session;
}

MonitoredSession::~MonitoredSession() {
  Close(errors::Cancelled("the session is destroyed")).IgnoreError("a destructor cannot return errors");
}

Status MonitoredSession::Begin() {
  MR_RETURN_IF_ERROR(scope_.status());
  for (const auto& hook : hooks_) {
    if (hook == nullptr) return errors::InvalidArgument("a hook is null");
    MR_RETURN_IF_ERROR(hook->Begin(scope_));
    MR_RETURN_IF_ERROR(scope_.status());
  }
  return options_.recover ? CreateSessionRetrying() : CreateSession();
}

Status MonitoredSession::CreateSession() {
  MR_ASSIGN_OR_RETURN(session_, creator_->CreateSession());
  coordinator_ = std::make_unique<Coordinator>(std::vector<ErrorCode>());
  hook_stop_ = false;
  MR_RETURN_IF_ERROR(StartQueueRunners(scope_, *session_->session(), *coordinator_));
  for (const auto& hook : hooks_) MR_RETURN_IF_ERROR(hook->AfterCreateSession(*session_, *coordinator_));
  return Status();
}

Status MonitoredSession::CreateSessionRetrying() {
  const Clock::time_point begin = Clock::now();
  for (;;) {
    Status status = CreateSession();
    if (!IsPreemption(status)) return status;
    if (SecondsSince(begin) >= options_.max_recovery_secs) {
      return status.WithContext(StrCat("; for ", options_.max_recovery_secs, " s no session could be made"));
    }
    MR_LOG(Info) << "An error was raised while a session was being created. This may be due to a preemption "
                    "of a connected worker or parameter server. A new session will be created. Error: "
                 << status;
    CloseSession().IgnoreError("another one is made");
    std::this_thread::sleep_for(std::chrono::duration<double>(options_.recovery_wait_secs));
  }
}

// Returns the threads' first error, which is more informative than that of the session.
Status MonitoredSession::CloseSession() {
  Status status;
  if (coordinator_ != nullptr) {
    coordinator_->RequestStop();
    status = coordinator_->Join(options_.stop_grace_period_secs, /*ignore_live_threads=*/true);
  }
  // Ends runs of remaining threads.
  if (session_ != nullptr && session_->session() != nullptr) {
    session_->session()->Close().IgnoreError("the required part has run");
  }
  coordinator_ = nullptr;
  session_ = nullptr;
  return status;
}

bool MonitoredSession::ShouldStop() {
  if (closed_ || step_stop_) return true;
  if (session_ == nullptr || hook_stop_) return hook_stop_;
  if (!coordinator_->ShouldStop()) return false;
  // Run recovers from these.
  return !(options_.recover && IsPreemption(coordinator_->RequestedError()));
}

Status MonitoredSession::Recovering(const std::function<Status()>& body) {
  if (closed_) return errors::FailedPrecondition("Session is already closed.");
  std::optional<Clock::time_point> first_failure;
  for (;;) {
    Status status;
    if (session_ == nullptr) status = options_.recover ? CreateSessionRetrying() : CreateSession();
    if (status.ok() && coordinator_->ShouldStop() && IsPreemption(coordinator_->RequestedError())) {
      status = coordinator_->RequestedError();
    }
    if (status.ok()) status = body();
    // The error of a thread may be the cause.
    if (!status.ok() && !IsPreemption(status) && coordinator_ != nullptr) {
      if (const Status cause = coordinator_->RequestedError(); !cause.ok()) status = cause;
    }
    if (closed_ || !options_.recover || !IsPreemption(status)) return status;
    if (!first_failure.has_value()) first_failure = Clock::now();
    if (SecondsSince(*first_failure) >= options_.max_recovery_secs) return status;
    MR_LOG(Info) << "An error was raised. This may be due to a preemption in a connected worker or parameter "
                    "server. The current session will be closed and a new session will be created. Error: "
                 << status;
    CloseSession().IgnoreError("another one is made");
  }
}

Status MonitoredSession::Run(const RunOptions& options, const ClientSession::Feeds& feeds,
                             const std::vector<Output>& fetches, const std::vector<Operation>& operations,
                             std::vector<Tensor>* outputs, RunMetadata* metadata) {
  return Recovering([&] { return RunHooked(options, feeds, fetches, operations, outputs, metadata); });
}

Status MonitoredSession::RunHooked(const RunOptions& options, const ClientSession::Feeds& feeds,
                                   const std::vector<Output>& fetches,
                                   const std::vector<Operation>& operations, std::vector<Tensor>* outputs,
                                   RunMetadata* metadata) {
  const auto already_closed = [] { return errors::FailedPrecondition("Session is already closed."); };
  if (session_ == nullptr) return already_closed();  // by the step function
  if (hook_stop_ || step_stop_) {
    return errors::FailedPrecondition("Run called even after should_stop requested.");
  }
  SessionRunContext context(*session_, fetches);
  RunOptions all_options = options;
  ClientSession::Feeds all_feeds = feeds;
  std::vector<Output> all_fetches = fetches;
  std::vector<size_t> begins;  // the start of the fetches of each hook
  for (const auto& hook : hooks_) {
    MR_ASSIGN_OR_RETURN(const SessionRunArgs args, hook->BeforeRun(context));
    if (session_ == nullptr) return already_closed();  // by the hook
    begins.push_back(all_fetches.size());
    all_fetches.insert(all_fetches.end(), args.fetches.begin(), args.fetches.end());
    MR_RETURN_IF_ERROR(AddFeeds(args.feeds, feeds.size(), &all_feeds));
    if (args.options.has_value()) Merge(*args.options, &all_options);
  }
  begins.push_back(all_fetches.size());
  std::vector<Tensor> values;
  RunMetadata own_metadata;
  RunMetadata* const used = metadata == nullptr ? &own_metadata : metadata;
  MR_RETURN_IF_ERROR(session_->Run(all_options, all_feeds, all_fetches, operations, &values, used));
  // A hook that closes the session is the last one: the others could not use it.
  for (size_t i = 0; i < hooks_.size() && session_ != nullptr; ++i) {
    const std::span<const Tensor> results(values.data() + begins[i], begins[i + 1] - begins[i]);
    MR_RETURN_IF_ERROR(hooks_[i]->AfterRun(context, {results, all_options, *used}));
  }
  hook_stop_ = hook_stop_ || context.stop_requested();
  values.resize(fetches.size());
  if (outputs != nullptr) *outputs = std::move(values);
  return Status();
}

Status MonitoredSession::StepContext::RunWithHooks(const ClientSession::Feeds& feeds,
                                                   const std::vector<Output>& fetches,
                                                   const std::vector<Operation>& operations,
                                                   std::vector<Tensor>* outputs) {
  return owner_.RunHooked(RunOptions(), feeds, fetches, operations, outputs, nullptr);
}

Status MonitoredSession::RunStepFn(const std::function<Status(StepContext&)>& step) {
  if (step == nullptr) return errors::InvalidArgument("RunStepFn has no function to run");
  return Recovering([&] {
    StepContext context(*this);
    return step(context);
  });
}

Status MonitoredSession::Loop(const std::function<Status(MonitoredSession&)>& body) {
  Status status;
  if (body == nullptr) status = errors::InvalidArgument("MonitoredSession::Loop has no function to run");
  while (status.ok() && !ShouldStop()) status = body(*this);
  return Close(status);
}

Status MonitoredSession::Close(const Status& status) {
  if (closed_) return errors::FailedPrecondition("Session is already closed.");
  closed_ = true;
  const bool at_end = status.ok() || errors::IsOutOfRange(status);
  Status first = at_end ? Status() : status;
  if (at_end && session_ != nullptr) {
    for (const auto& hook : hooks_) {
      first.Update(hook->End(*session_));
      if (!first.ok()) break;
    }
  }
  const Status of_threads = CloseSession();
  first.Update(of_threads);
  scope_.state().finalized = was_finalized_;  // restored: nodes can be added again if they could before
  return first;
}

StatusOr<std::unique_ptr<MonitoredSession>> MonitoredTrainingSession(
    const Scope& scope, const MonitoredTrainingSessionOptions& options) {
  if ((options.save_checkpoint_steps && options.save_checkpoint_secs) ||
      (options.save_summaries_steps && options.save_summaries_secs)) {
    return errors::InvalidArgument("Can not provide both every_secs and every_steps.");
  }
  const auto scaffold = options.scaffold != nullptr ? options.scaffold : std::make_shared<Scaffold>(scope);
  const Hooks of_user = WithSimpleHooks(options);
  if (!options.is_chief && options.lease == nullptr) {
    const auto creator = std::make_shared<WorkerSessionCreator>(
        scaffold, WorkerSessionCreator::Options{.session = options.session,
                                                .max_wait_secs = options.max_wait_secs,
                                                .recovery_wait_secs = options.recovery_wait_secs});
    return MonitoredSession::Make(scope, creator, of_user, options.monitored);
  }
  Hooks hooks = options.chief_only_hooks;
  const std::string& folder = options.checkpoint_dir;
  const auto guard =
      options.lease != nullptr && !folder.empty() ? std::make_shared<SaveGuard>(folder) : nullptr;
  const std::string& summaries = options.summary_dir.empty() ? folder : options.summary_dir;
  const auto wanted = [](const Every& every) {
    return every.secs.value_or(0) > 0 || (every.steps.value_or(0) > 0 && *every.steps != kNever);
  };
  if (!summaries.empty()) {
    const Every count = Every::Steps(options.log_step_count_steps);
    if (wanted(count)) hooks.push_back(std::make_shared<StepCounterHook>(count, summaries));
    const Every every = {.steps = options.save_summaries_secs ? std::optional<int64_t>()
                                                              : options.save_summaries_steps.value_or(100),
                         .secs = options.save_summaries_secs};
    if (wanted(every)) hooks.push_back(std::make_shared<SummarySaverHook>(every, summaries, scaffold));
  }
  const Every every = {.steps = options.save_checkpoint_steps,
                       .secs = options.save_checkpoint_steps ? std::optional<double>()
                                                             : options.save_checkpoint_secs.value_or(600)};
  if (!folder.empty() && wanted(every)) {
    const auto saving = std::make_shared<CheckpointSaverHook>(folder, every, scaffold);
    saving->set_write_behind(options.write_checkpoints_behind);
    if (guard != nullptr) saving->set_may_save([guard] { return guard->Check(); });
    hooks.push_back(saving);
  }
  if (options.lease != nullptr) return MakeLeasedSession(scope, options, scaffold, guard, hooks, of_user);
  hooks.insert(hooks.end(), of_user.begin(), of_user.end());
  const auto creator = std::make_shared<ChiefSessionCreator>(
      scaffold, ChiefSessionCreator::Options{.session = options.session, .checkpoint_dir = folder});
  return MonitoredSession::Make(scope, creator, std::move(hooks), options.monitored);
}

Status RunTraining(const Scope& scope, const Operation& train,
                   const MonitoredTrainingSessionOptions& options) {
  MR_ASSIGN_OR_RETURN(const auto session, MonitoredTrainingSession(scope, options));
  return session->Loop([&](MonitoredSession& s) { return s.Run(train); });
}

StatusOr<std::unique_ptr<MonitoredSession>> SingularMonitoredSession(
    const Scope& scope, const Hooks& hooks, const ChiefSessionCreator::Options& options,
    std::shared_ptr<Scaffold> scaffold, double stop_grace_period_secs) {
  if (scaffold == nullptr) scaffold = std::make_shared<Scaffold>(scope);
  return MonitoredSession::Make(scope, std::make_shared<ChiefSessionCreator>(std::move(scaffold), options),
                                hooks, {.stop_grace_period_secs = stop_grace_period_secs, .recover = false});
}

}  // namespace millrace
