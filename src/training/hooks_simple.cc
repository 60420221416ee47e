// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>

#include "base/logging.h"
#include "millrace/hooks.h"
#include "training/global_step_read.h"

namespace millrace {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The value of a scalar of floats; nullopt for others.
std::optional<double> FloatOf(const Tensor& value) {
  if (value.num_elements() != 1) return std::nullopt;
  if (value.dtype() == DataType::kFloat) return value.flat<float>()[0];
  if (value.dtype() == DataType::kDouble) return value.flat<double>()[0];
  return std::nullopt;
}

// "1:02:03", "2:03".
std::string Duration(double seconds) {
  const auto whole = static_cast<int64_t>(std::min(seconds, 1e9));
  char text[32];
  if (whole >= 3600) {
    std::snprintf(text, sizeof(text), "%lld:%02d:%02d", static_cast<long long>(whole / 3600),
                  static_cast<int>(whole / 60 % 60), static_cast<int>(whole % 60));
  } else {
    std::snprintf(text, sizeof(text), "%d:%02d", static_cast<int>(whole / 60), static_cast<int>(whole % 60));
  }
  return text;
}

std::string Short(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", value);
  return text;
}

}  // namespace

Status SecondOrStepTimer::Check() const {
  if (!every_.secs && !every_.steps) {
    return errors::InvalidArgument("Either every_secs or every_steps should be provided.");
  }
  if (every_.secs && every_.steps) {
    return errors::InvalidArgument("Can not provide both every_secs and every_steps.");
  }
  if (every_.steps.value_or(1) <= 0) {
    return errors::InvalidArgument("invalid every_n_iter=", *every_.steps, ".");
  }
  return Status();
}

bool SecondOrStepTimer::ShouldTriggerForStep(int64_t step) const {
  if (!last_step_.has_value()) return true;
  if (*last_step_ == step) return false;
  if (every_.secs.has_value()) return Now() >= last_time_ + *every_.secs;
  return every_.steps.has_value() && step - *last_step_ >= *every_.steps;
}

std::optional<SecondOrStepTimer::Elapsed> SecondOrStepTimer::UpdateLastTriggeredStep(int64_t step) {
  const double now = Now();
  std::optional<Elapsed> elapsed;
  if (last_step_.has_value()) elapsed = Elapsed{.secs = now - last_time_, .steps = step - *last_step_};
  last_step_ = step;
  last_time_ = now;
  return elapsed;
}

LoggingTensorHook::LoggingTensorHook(Tagged tensors, Options options)
    : tensors_(std::move(tensors)), options_(std::move(options)), timer_(options_.every.value_or(Every())) {
  for (const auto& [tag, tensor] : tensors_) fetches_.push_back(tensor);
}

Status LoggingTensorHook::Begin(const Scope& /*scope*/) {
  if (!options_.every.has_value() && !options_.at_end) {
    return errors::InvalidArgument(
        "either at_end and/or exactly one of every_n_iter and every_n_secs must be provided.");
  }
  if (options_.every.has_value()) MR_RETURN_IF_ERROR(timer_.Check());
  timer_.Reset();
  runs_ = 0;
  return Status();
}

StatusOr<SessionRunArgs> LoggingTensorHook::BeforeRun(SessionRunContext& /*context*/) {
  triggered_ = options_.every.has_value() && timer_.ShouldTriggerForStep(runs_);
  return triggered_ ? SessionRunArgs{.fetches = fetches_} : SessionRunArgs();
}

Status LoggingTensorHook::AfterRun(SessionRunContext& /*context*/, const SessionRunValues& values) {
  if (triggered_) Log(values.results);
  ++runs_;
  return Status();
}

Status LoggingTensorHook::End(ClientSession& session) {
  if (!options_.at_end) return Status();
  std::vector<Tensor> values;
  MR_RETURN_IF_ERROR(session.Run(fetches_, &values));
  Log(values);
  return Status();
}

void LoggingTensorHook::Log(std::span<const Tensor> values) {
  const auto elapsed = timer_.UpdateLastTriggeredStep(runs_);
  if (options_.formatter) {
    Values tagged;
    for (size_t i = 0; i < values.size(); ++i) tagged.emplace_back(tensors_[i].first, values[i]);
    MR_LOG(Info) << options_.formatter(tagged);
    return;
  }
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) {
    text += StrCat(i == 0 ? "" : ", ", tensors_[i].first, " = ", values[i].ToString());
  }
  if (elapsed.has_value()) {
    char secs[32];
    std::snprintf(secs, sizeof(secs), " (%.3f sec)", elapsed->secs);
    text += secs;
  }
  MR_LOG(Info) << text;
}

Status StopAtStepHook::Begin(const Scope& scope) {
  if (options_.num_steps && options_.last_step) {
    return errors::InvalidArgument("Only one of num_steps or last_step can be specified.");
  }
  if (!options_.num_steps && !options_.last_step) {
    return errors::InvalidArgument("One of num_steps or last_step must be specified.");
  }
  MR_ASSIGN_OR_RETURN(global_step_, GlobalStepRead(scope, "StopAtStepHook"));
  return Status();
}

Status StopAtStepHook::AfterCreateSession(ClientSession& session, Coordinator& coordinator) {
  MR_ASSIGN_OR_RETURN(const int64_t step, ReadStep(session, global_step_));
  if (!last_step_.has_value()) last_step_ = step + *options_.num_steps;
  if (step >= *last_step_) coordinator.RequestStop();
  return Status();
}

StatusOr<SessionRunArgs> StopAtStepHook::BeforeRun(SessionRunContext& /*context*/) {
  return SessionRunArgs{.fetches = {global_step_}};
}

Status StopAtStepHook::AfterRun(SessionRunContext& context, const SessionRunValues& values) {
  if (StepOf(values.results[0]) + 1 < *last_step_) return Status();
  // The value may be from before the step, so it is read again.
  MR_ASSIGN_OR_RETURN(const int64_t step, ReadStep(context.session(), global_step_));
  if (step >= *last_step_) context.RequestStop();
  return Status();
}

StatusOr<SessionRunArgs> NanTensorHook::BeforeRun(SessionRunContext& /*context*/) {
  return SessionRunArgs{.fetches = {loss_}};
}

Status NanTensorHook::AfterRun(SessionRunContext& context, const SessionRunValues& values) {
  const auto loss = FloatOf(values.results[0]);
  if (!loss.has_value()) {
    return errors::InvalidArgument("NanTensorHook: the loss '", Scope::NameOf(loss_),
                                   "' is not a float or double scalar");
  }
  if (!std::isnan(*loss)) return Status();
  constexpr const char* kText = "Model diverged with loss = NaN.";
  if (fail_) {
    MR_LOG(Error) << kText;
    return errors::InvalidArgument("NaN loss during training.");
  }
  MR_LOG(Warning) << kText;
  context.RequestStop();
  return Status();
}

Status GlobalStepWaiterHook::Begin(const Scope& scope) {
  started_ = false;
  MR_ASSIGN_OR_RETURN(global_step_, GlobalStepRead(scope, "_GlobalStepWaiterHook"));
  return Status();
}

Status GlobalStepWaiterHook::AfterCreateSession(ClientSession& /*session*/, Coordinator& coordinator) {
  coordinator_ = &coordinator;
  return Status();
}

StatusOr<SessionRunArgs> GlobalStepWaiterHook::BeforeRun(SessionRunContext& context) {
  if (started_ || wait_until_step_ <= 0) return SessionRunArgs();
  MR_LOG(Info) << "Waiting for global step " << wait_until_step_ << " before starting training.";
  const double begin = Now();
  int64_t last_logged = 0;
  for (;;) {
    MR_ASSIGN_OR_RETURN(const int64_t step, ReadStep(context.session(), global_step_));
    if (step >= wait_until_step_) break;
    if (step - last_logged > 1000) {
      MR_LOG(Info) << "Waiting for global step " << wait_until_step_
                   << " before starting training. Current step is " << step << ".";
      last_logged = step;
    }
    if (!(Now() - begin < max_wait_secs_)) {
      return errors::DeadlineExceeded("The global step was still ", step, ", not ", wait_until_step_,
                                      ", after ", max_wait_secs_, " secs.");
    }
    if (coordinator_->WaitForStop(look_every_secs_)) break;
  }
  started_ = true;
  return SessionRunArgs();
}

Status FinalOpsHook::End(ClientSession& session) {
  Status status = session.Run(feeds_, final_ops_, &values_);
  if (errors::IsOutOfRange(status)) {
    MR_LOG(Warning) << "The tensors of FinalOpsHook depend on an input that has ended. They should only read "
                       "variables.";
  }
  return status;
}

StatusOr<SessionRunArgs> FeedFnHook::BeforeRun(SessionRunContext& /*context*/) {
  if (feed_fn_ == nullptr) return errors::InvalidArgument("FeedFnHook has no function");
  MR_ASSIGN_OR_RETURN(auto feeds, feed_fn_());
  return SessionRunArgs{.feeds = std::move(feeds)};
}

Status ProgressHook::Begin(const Scope& scope) {
  terminal_ = options_.is_terminal.value_or(isatty(STDERR_FILENO) == 1);
  timer_ = SecondOrStepTimer(Every::Secs(options_.every_secs * (terminal_ ? 1 : 10)));
  MR_ASSIGN_OR_RETURN(global_step_, GlobalStepRead(scope, "ProgressHook"));
  return Status();
}

StatusOr<SessionRunArgs> ProgressHook::BeforeRun(SessionRunContext& /*context*/) {
  SessionRunArgs args{.fetches = {global_step_}};
  if (options_.loss.IsSet()) args.fetches.push_back(options_.loss);
  return args;
}

Status ProgressHook::AfterRun(SessionRunContext& /*context*/, const SessionRunValues& values) {
  const int64_t step = StepOf(values.results[0]) + 1;
  if (!timer_.ShouldTriggerForStep(step)) return Status();
  const auto elapsed = timer_.UpdateLastTriggeredStep(step);
  std::string line = StrCat("step ", step);
  if (options_.last_step) line += StrCat("/", *options_.last_step);
  if (options_.loss.IsSet()) {
    if (const auto loss = FloatOf(values.results[1])) line += "  loss " + Short(*loss);
  }
  if (elapsed && elapsed->secs > 0 && elapsed->steps > 0) {
    const double rate = static_cast<double>(elapsed->steps) / elapsed->secs;
    line += StrCat("  ", Short(rate), " steps/s");
    if (options_.last_step && *options_.last_step >= step) {
      line += StrCat("  ", Duration(static_cast<double>(*options_.last_step - step) / rate), " left");
    }
  }
  const std::string text = terminal_ ? StrCat("\r\033[K", line) : line + "\n";
  if (options_.write) {
    options_.write(text);
  } else {
    std::fputs(text.c_str(), stderr);
  }
  return Status();
}

Status ProgressHook::End(ClientSession& /*session*/) {
  if (!terminal_) return Status();
  if (options_.write) {
    options_.write("\n");
  } else {
    std::fputs("\n", stderr);
  }
  return Status();
}

}  // namespace millrace
