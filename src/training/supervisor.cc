// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/supervisor.h"

#include <chrono>
#include <utility>

#include "base/env.h"
#include "base/logging.h"
#include "cc/scope_state.h"
#include "millrace/queue_runner.h"
#include "millrace/variables.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"
#include "training/global_step_read.h"
#include "training/meta_graph_io.h"
#include "training/proto_file.h"

namespace millrace {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Supervisor::Supervisor(const Scope& scope, Options options)
    : scope_(scope),
      options_(std::move(options)),
      was_finalized_(scope.state().finalized),
      coordinator_({ErrorCode::kOutOfRange}, options_.stop_grace_secs) {}

Supervisor::~Supervisor() {
  coordinator_.RequestStop();
  coordinator_.Join(options_.stop_grace_secs, /*ignore_live_threads=*/true)
      .IgnoreError("a destructor cannot return errors");
  scope_.state().finalized = was_finalized_;
}

StatusOr<std::unique_ptr<Supervisor>> Supervisor::Make(const Scope& scope, Options options) {
  std::unique_ptr<Supervisor> supervisor(new Supervisor(scope, std::move(options)));
  MR_RETURN_IF_ERROR(supervisor->Prepare());
  return supervisor;
}

Status Supervisor::Prepare() {
  MR_RETURN_IF_ERROR(scope_.status());
  if (GetGlobalStep(scope_).ref().IsSet()) {
    MR_ASSIGN_OR_RETURN(global_step_, GlobalStepRead(scope_, "Supervisor"));
  }
  if (options_.scaffold == nullptr) options_.scaffold = std::make_shared<Scaffold>(scope_);
  MR_RETURN_IF_ERROR(options_.scaffold->Finalize());
  if (options_.logdir.empty()) return Status();
  save_path_ = JoinPath(options_.logdir, options_.checkpoint_basename);
  if (!options_.is_chief) return Status();
  MR_ASSIGN_OR_RETURN(writer_, SummaryWriter::ForFolder(options_.logdir));
  return Status();
}

StatusOr<std::unique_ptr<ClientSession>> Supervisor::PrepareOrWaitForSession(const SessionOptions& options,
                                                                             bool start_standard_services) {
  const Scaffold::Options& parts = options_.scaffold->parts();
  coordinator_.ClearStop();
  const SessionManager manager(scope_, {.local_init_op = parts.local_init_op,
                                        .ready_op = parts.ready_op,
                                        .ready_for_local_init_op = parts.ready_for_local_init_op,
                                        .recovery_wait_secs = options_.recovery_wait_secs});
  std::unique_ptr<ClientSession> session;
  if (options_.is_chief) {
    MR_ASSIGN_OR_RETURN(
        session, manager.PrepareSession(
                     {.session = options, .saver = saver(), .checkpoint_dir = options_.logdir},
                     {.init_op = parts.init_op, .init_feeds = parts.init_feeds, .init_fn = parts.init_fn}));
    int64_t step = 0;
    if (global_step_.IsSet()) {
      MR_ASSIGN_OR_RETURN(step, ReadStep(*session, global_step_));
    }
    if (writer_ != nullptr) MR_RETURN_IF_ERROR(WriteGraph(step));
    if (start_standard_services && writer_ != nullptr) {
      MR_RETURN_IF_ERROR(StartStandardServices(*session));
    }
  } else {
    MR_ASSIGN_OR_RETURN(session, manager.WaitForSession(options, options_.max_wait_secs));
  }
  MR_RETURN_IF_ERROR(StartQueueRunners(*session));
  session_ = session.get();
  return session;
}

Status Supervisor::WriteGraph(int64_t step) {
  MetaGraph meta;
  if (saver() != nullptr && !saver()->empty()) meta.saver = saver()->def();
  tensorflow::MetaGraphDef proto;
  MR_RETURN_IF_ERROR(BuildMetaGraphDef(scope_, meta, {}, &proto));
  MR_RETURN_IF_ERROR(
      WriteTextProto(Env::Posix(), JoinPath(options_.logdir, "graph.pbtxt"), proto.graph_def()));
  MR_RETURN_IF_ERROR(writer_->AddGraph(scope_, step));
  return writer_->AddMetaGraph(proto.SerializeAsString(), step);
}

Status Supervisor::StartStandardServices(ClientSession& session) {
  if (!options_.is_chief) {
    return errors::FailedPrecondition("Only chief supervisor can start standard services.");
  }
  if (writer_ == nullptr) {
    MR_LOG(Warning) << "Standard services need a 'logdir' passed to the SessionManager";
    return Status();
  }
  int64_t step = 0;
  if (global_step_.IsSet()) {
    MR_ASSIGN_OR_RETURN(step, ReadStep(session, global_step_));
  }
  MR_RETURN_IF_ERROR(writer_->AddSessionLog(SummaryWriter::SessionStatus::kStart, step));
  if (options_.save_summaries_secs > 0) {
    if (options_.scaffold->parts().summary_op.IsSet()) {
      Loop(options_.save_summaries_secs, "summaries", [this, &session] { return WriteSummaries(session); });
    }
    if (global_step_.IsSet()) {
      last_rate_ = std::nullopt;
      Loop(options_.save_summaries_secs, "steps", [this, &session] { return WriteRate(session); });
    }
  }
  if (saver() != nullptr && !saver()->empty() && options_.save_model_secs > 0) {
    Loop(options_.save_model_secs, "checkpoints", [this, &session] { return SaveModel(session); });
  }
  return Status();
}

Status Supervisor::StartQueueRunners(ClientSession& session) {
  return millrace::StartQueueRunners(scope_, *session.session(), coordinator_);
}

Status Supervisor::WriteSummaries(ClientSession& session) {
  std::vector<Output> fetches = {options_.scaffold->parts().summary_op};
  if (global_step_.IsSet()) fetches.push_back(global_step_);
  std::vector<Tensor> values;
  MR_RETURN_IF_ERROR(session.Run(fetches, &values));
  const int64_t step = global_step_.IsSet() ? StepOf(values[1]) : 0;
  if (values[0].dtype() != DataType::kString || values[0].num_elements() != 1) {
    return errors::InvalidArgument("the summary is not a string scalar");
  }
  return writer_->AddSummary(values[0].flat<std::string>()[0], step);
}

Status Supervisor::WriteRate(ClientSession& session) {
  MR_ASSIGN_OR_RETURN(const int64_t step, ReadStep(session, global_step_));
  const double now = Now();
  const auto last = std::exchange(last_rate_, std::pair(now, step));
  if (!last.has_value() || now <= last->first) return Status();
  const double rate = static_cast<double>(step - last->second) / (now - last->first);
  MR_LOG(Info) << "global_step/sec: " << rate;
  return writer_->AddScalar("global_step/sec", static_cast<float>(rate), step);
}

Status Supervisor::SaveModel(ClientSession& session) {
  Saver::SaveOptions options;
  if (global_step_.IsSet()) {
    MR_ASSIGN_OR_RETURN(options.global_step, ReadStep(session, global_step_));
  }
  MR_LOG(Info) << "Saving checkpoint to path " << save_path_;
  MR_RETURN_IF_ERROR(saver()->Save(session, save_path_, options).status());
  if (!options.global_step.has_value()) return Status();
  return writer_->AddSessionLog(SummaryWriter::SessionStatus::kCheckpoint, *options.global_step, save_path_);
}

Status Supervisor::ManagedSession(const std::function<Status(ClientSession&)>& body,
                                  const SessionOptions& options) {
  if (body == nullptr) return errors::InvalidArgument("ManagedSession has no function to run");
  auto session = PrepareOrWaitForSession(options);
  if (!session.ok()) {
    Stop().IgnoreError("the first one counts");
    return session.status();
  }
  RequestStop(body(**session));
  Status status = Stop();
  session_ = nullptr;
  (*session)->session()->Close().IgnoreError("the required part has run");
  return status;
}

void Supervisor::Loop(std::optional<double> interval_secs, std::string name, std::function<Status()> target) {
  LooperThread::Loop(coordinator_, interval_secs, std::move(name), std::move(target));
}

Status Supervisor::Stop(bool close_summary_writer, bool ignore_live_threads) {
  coordinator_.RequestStop();
  Status status = coordinator_.Join(options_.stop_grace_secs, ignore_live_threads);
  if (writer_ != nullptr && close_summary_writer) {
    status.Update(writer_->AddSessionLog(SummaryWriter::SessionStatus::kStop, 0));
    status.Update(writer_->Flush());
  }
  return status;
}

Status Supervisor::SummaryComputed(const Tensor& summary, std::optional<int64_t> step) {
  if (writer_ == nullptr) return errors::FailedPrecondition("Writing a summary requires a summary writer.");
  if (summary.dtype() != DataType::kString || summary.num_elements() != 1) {
    return errors::InvalidArgument("the summary is not a string scalar");
  }
  if (!step.has_value() && global_step_.IsSet() && session_ != nullptr) {
    MR_ASSIGN_OR_RETURN(step, ReadStep(*session_, global_step_));
  }
  return writer_->AddSummary(summary.flat<std::string>()[0], step.value_or(0));
}

}  // namespace millrace
