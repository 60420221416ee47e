// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "base/env.h"
#include "base/logging.h"
#include "millrace/graph_def.h"
#include "millrace/hooks.h"
#include "millrace/variables.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"
#include "training/global_step_read.h"
#include "training/meta_graph_io.h"
#include "training/proto_file.h"

namespace millrace {

CheckpointSaverHook::CheckpointSaverHook(std::string checkpoint_dir, const Every& every,
                                         std::shared_ptr<Scaffold> scaffold,
                                         std::vector<std::shared_ptr<CheckpointSaverListener>> listeners,
                                         const std::string& basename)
    : checkpoint_dir_(std::move(checkpoint_dir)),
      save_path_(JoinPath(checkpoint_dir_, basename)),
      scaffold_(std::move(scaffold)),
      listeners_(std::move(listeners)),
      timer_(every) {}

CheckpointSaverHook::CheckpointSaverHook(std::string checkpoint_dir, const Every& every,
                                         std::shared_ptr<Saver> saver,
                                         std::vector<std::shared_ptr<CheckpointSaverListener>> listeners,
                                         const std::string& basename)
    : checkpoint_dir_(std::move(checkpoint_dir)),
      save_path_(JoinPath(checkpoint_dir_, basename)),
      saver_(std::move(saver)),
      listeners_(std::move(listeners)),
      timer_(every) {}

Status CheckpointSaverHook::Begin(const Scope& scope) {
  MR_RETURN_IF_ERROR(timer_.Check());
  if (saver_ == nullptr && scaffold_ == nullptr) {
    return errors::InvalidArgument("CheckpointSaverHook needs a saver or a scaffold");
  }
  for (const auto& listener : listeners_) {
    if (listener == nullptr) return errors::InvalidArgument("a listener of CheckpointSaverHook is null");
  }
  timer_.Reset();
  scope_ = scope;
  MR_ASSIGN_OR_RETURN(global_step_, GlobalStepRead(scope, "CheckpointSaverHook"));
  MR_ASSIGN_OR_RETURN(writer_, SummaryWriter::ForFolder(checkpoint_dir_));
  for (const auto& listener : listeners_) MR_RETURN_IF_ERROR(listener->Begin(scope));
  return Status();
}

Status CheckpointSaverHook::AfterCreateSession(ClientSession& session, Coordinator& /*coordinator*/) {
  MR_ASSIGN_OR_RETURN(const int64_t step, ReadStep(session, global_step_));
  // The graph is final now, so that all of it is written.
  MetaGraph meta;
  if (saver() != nullptr && !saver()->empty()) meta.saver = saver()->def();
  tensorflow::MetaGraphDef proto;
  MR_RETURN_IF_ERROR(BuildMetaGraphDef(*scope_, meta, {}, &proto));
  MR_RETURN_IF_ERROR(
      WriteTextProto(Env::Posix(), JoinPath(checkpoint_dir_, "graph.pbtxt"), proto.graph_def()));
  MR_RETURN_IF_ERROR(writer_->AddGraph(*scope_, step));
  MR_RETURN_IF_ERROR(writer_->AddMetaGraph(proto.SerializeAsString(), step));
  MR_RETURN_IF_ERROR(Save(session, step).status());
  timer_.UpdateLastTriggeredStep(step);
  return Status();
}

StatusOr<SessionRunArgs> CheckpointSaverHook::BeforeRun(SessionRunContext& /*context*/) {
  return SessionRunArgs{.fetches = {global_step_}};
}

Status CheckpointSaverHook::AfterRun(SessionRunContext& context, const SessionRunValues& values) {
  if (!timer_.ShouldTriggerForStep(StepOf(values.results[0]) + 1)) return Status();
  // The value that was read may or may not include the step's own update.
  MR_ASSIGN_OR_RETURN(const int64_t step, ReadStep(context.session(), global_step_));
  if (!timer_.ShouldTriggerForStep(step)) return Status();
  timer_.UpdateLastTriggeredStep(step);
  MR_ASSIGN_OR_RETURN(const bool stop, Save(context.session(), step));
  if (stop) context.RequestStop();
  return Status();
}

Status CheckpointSaverHook::End(ClientSession& session) {
  MR_ASSIGN_OR_RETURN(const int64_t step, ReadStep(session, global_step_));
  if (timer_.last_triggered_step() != step) MR_RETURN_IF_ERROR(Save(session, step).status());
  if (saver() != nullptr) MR_RETURN_IF_ERROR(saver()->Finish());
  for (const auto& listener : listeners_) MR_RETURN_IF_ERROR(listener->End(session, step));
  return writer_->Flush();
}

StatusOr<bool> CheckpointSaverHook::Save(ClientSession& session, int64_t step) {
  MR_LOG(Info) << "Saving checkpoints for " << step << " into " << save_path_ << ".";
  for (const auto& listener : listeners_) MR_RETURN_IF_ERROR(listener->BeforeSave(session, step));
  if (saver() != nullptr) {
    MR_RETURN_IF_ERROR(saver()
                           ->Save(session, save_path_,
                                  {.global_step = step, .write_behind = write_behind_, .may_save = may_save_})
                           .status());
  }
  MR_RETURN_IF_ERROR(writer_->AddSessionLog(SummaryWriter::SessionStatus::kCheckpoint, step, save_path_));
  bool stop = false;
  for (const auto& listener : listeners_) {
    MR_ASSIGN_OR_RETURN(const bool wanted, listener->AfterSave(session, step));
    if (wanted) MR_LOG(Info) << "A CheckpointSaverListener requested that training be stopped.";
    stop = stop || wanted;
  }
  return stop;
}

Status StepCounterHook::Begin(const Scope& scope) {
  MR_RETURN_IF_ERROR(timer_.Check());
  timer_.Reset();
  MR_ASSIGN_OR_RETURN(global_step_, GlobalStepRead(scope, "StepCounterHook"));
  tag_ = GetGlobalStep(scope).name() + "/sec";
  if (!output_dir_.empty()) {
    MR_ASSIGN_OR_RETURN(writer_, SummaryWriter::ForFolder(output_dir_));
  }
  return Status();
}

StatusOr<SessionRunArgs> StepCounterHook::BeforeRun(SessionRunContext& /*context*/) {
  return SessionRunArgs{.fetches = {global_step_}};
}

Status StepCounterHook::AfterRun(SessionRunContext& context, const SessionRunValues& values) {
  const int64_t stale = StepOf(values.results[0]);
  if (timer_.ShouldTriggerForStep(stale + 1)) {
    MR_ASSIGN_OR_RETURN(const int64_t step, ReadStep(context.session(), global_step_));
    if (timer_.ShouldTriggerForStep(step)) {
      const auto elapsed = timer_.UpdateLastTriggeredStep(step);
      if (elapsed.has_value() && elapsed->secs > 0) {
        const double rate = static_cast<double>(elapsed->steps) / elapsed->secs;
        if (writer_ != nullptr) {
          MR_RETURN_IF_ERROR(writer_->AddScalar(tag_, static_cast<float>(rate), step));
        }
        MR_LOG(Info) << tag_ << ": " << rate;
      }
    }
  }
  // Steps of several workers overlap, and some optimizers do not count each step: a single repetition is no
  // error.
  constexpr int kMostUnchanged = 20;
  unchanged_ = last_step_ == stale ? unchanged_ + 1 : 0;
  if (unchanged_ == kMostUnchanged) {
    unchanged_ = 0;
    MR_LOG(Warning) << "It seems that global step (tf.train.get_global_step) has not been increased. Current "
                       "value (could be stable): "
                    << stale << " vs previous value: " << stale
                    << ". You could increase the global step by passing tf.train.get_global_step() to "
                       "Optimizer.apply_gradients or Optimizer.minimize.";
  }
  last_step_ = stale;
  return Status();
}

Status SummarySaverHook::Begin(const Scope& scope) {
  MR_RETURN_IF_ERROR(timer_.Check());
  if ((scaffold_ == nullptr) == summaries_.empty()) {
    return errors::InvalidArgument("Exactly one of scaffold or summary_op must be provided.");
  }
  timer_.Reset();
  next_step_ = std::nullopt;
  MR_ASSIGN_OR_RETURN(global_step_, GlobalStepRead(scope, "SummarySaverHook"));
  MR_ASSIGN_OR_RETURN(writer_, SummaryWriter::ForFolder(output_dir_));
  return Status();
}

StatusOr<SessionRunArgs> SummarySaverHook::BeforeRun(SessionRunContext& /*context*/) {
  requested_ = !next_step_.has_value() || timer_.ShouldTriggerForStep(*next_step_);
  SessionRunArgs args{.fetches = {global_step_}};
  if (!requested_) return args;
  if (scaffold_ != nullptr && scaffold_->parts().summary_op.IsSet()) {
    args.fetches.push_back(scaffold_->parts().summary_op);
  }
  args.fetches.insert(args.fetches.end(), summaries_.begin(), summaries_.end());
  return args;
}

Status SummarySaverHook::AfterRun(SessionRunContext& context, const SessionRunValues& values) {
  int64_t step = StepOf(values.results[0]) + 1;
  if (requested_) {
    MR_ASSIGN_OR_RETURN(step, ReadStep(context.session(), global_step_));
  }
  if (!next_step_.has_value()) {
    MR_RETURN_IF_ERROR(writer_->AddSessionLog(SummaryWriter::SessionStatus::kStart, step));
  }
  if (requested_) {
    timer_.UpdateLastTriggeredStep(step);
    for (const Tensor& summary : values.results.subspan(1)) {
      if (summary.dtype() != DataType::kString || summary.num_elements() != 1) {
        return errors::InvalidArgument("a summary is not a string scalar");
      }
      MR_RETURN_IF_ERROR(writer_->AddSummary(summary.flat<std::string>()[0], step));
    }
  }
  next_step_ = step + 1;
  return Status();
}

Status SummarySaverHook::End(ClientSession& /*session*/) { return writer_->Flush(); }

Status ProfilerHook::Begin(const Scope& scope) {
  MR_RETURN_IF_ERROR(timer_.Check());
  timer_.Reset();
  next_step_ = std::nullopt;
  MR_ASSIGN_OR_RETURN(global_step_, GlobalStepRead(scope, "ProfilerHook"));
  MR_ASSIGN_OR_RETURN(writer_, SummaryWriter::ForFolder(output_dir_));
  return Status();
}

StatusOr<SessionRunArgs> ProfilerHook::BeforeRun(SessionRunContext& /*context*/) {
  requested_ = next_step_.has_value() && timer_.ShouldTriggerForStep(*next_step_);
  SessionRunArgs args{.fetches = {global_step_}};
  if (requested_) args.options = RunOptions{.trace_level = RunOptions::TraceLevel::kFull};
  return args;
}

Status ProfilerHook::AfterRun(SessionRunContext& context, const SessionRunValues& values) {
  const int64_t stale = StepOf(values.results[0]);
  // The first step includes one-time preparations, so it is not traced.
  if (!next_step_.has_value()) timer_.UpdateLastTriggeredStep(stale);
  int64_t step = stale + 1;
  if (requested_) {
    MR_ASSIGN_OR_RETURN(step, ReadStep(context.session(), global_step_));
    timer_.UpdateLastTriggeredStep(step);
    const std::string path = JoinPath(output_dir_, StrCat("timeline-", step, ".json"));
    MR_LOG(Info) << "Saving timeline for " << step << " into '" << path << "'.";
    MR_RETURN_IF_ERROR(WriteFileAtomically(Env::Posix(), path, values.metadata.ToChromeTrace()));
    MR_RETURN_IF_ERROR(writer_->AddRunMetadata(values.metadata, StrCat("step_", step), step));
  }
  next_step_ = step + 1;
  return Status();
}

}  // namespace millrace
