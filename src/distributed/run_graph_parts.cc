// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/run_graph_parts.h"

#include <string>
#include <utility>
#include <vector>

#include "tensor/tensor_codec.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace millrace {

Status SendFeeds(tensorflow::RunGraphRequest* request, TaskSteps::Step& step) {
  for (tensorflow::NamedTensorProto& feed : *request->mutable_send()) {
    MR_RETURN_IF_ERROR(Rendezvous::Key::Parse(feed.name()).status());
    MR_ASSIGN_OR_RETURN(Tensor value, TakeTensorFromProto(feed.mutable_tensor()));
    MR_RETURN_IF_ERROR(step.rendezvous->Send(KeyFromText(feed.name()), std::move(value), false));
  }
  return Status();
}

// A step that is run in parts.
struct RunGraphParts::OneRun {
  // Ends everything for which the graph and all calls wait.
  void Stop(const Status& why) {
    cancellation.StartCancel();
    step->rendezvous->StartAbort(why);
  }
  // The same by the task, not by a caller.
  void End(const Status& why) MR_EXCLUDES(mu) {
    {
      MutexLock lock(mu);
      if (!cancellation.IsCancelled()) why_ended = why;
    }
    step->rendezvous->StartAbort(why);
    cancellation.StartCancel();
  }
  // The error to report for `failed`.
  Status Explain(const Status& failed) MR_EXCLUDES(mu) {
    MutexLock lock(mu);
    return errors::IsCancelled(failed) && !why_ended.ok() ? why_ended : failed;
  }

  RefPtr<TaskSteps::Step> step;
  CancellationManager cancellation;
  Mutex mu;
  bool ended MR_GUARDED_BY(mu) = false;
  Status status MR_GUARDED_BY(mu);     // of the graph, after it has ended
  Status why_ended MR_GUARDED_BY(mu);  // see RunGraphParts::CleanUp
  UniqueFunction<void(const Status&)> when_ended MR_GUARDED_BY(mu);
};

// One call, until its reply. The last of its receivers answers.
struct RunGraphParts::Call {
  std::shared_ptr<tensorflow::RunGraphRequest> request;
  std::shared_ptr<OneRun> run;
  CancellationManager* caller = nullptr;
  CancellationManager::Token token = CancellationManager::kInvalidToken;
  Reply reply;
  Mutex mu;
  int missing MR_GUARDED_BY(mu) = 0;
  Status status MR_GUARDED_BY(mu);
  std::vector<Tensor> fetched MR_GUARDED_BY(mu);
};

void RunGraphParts::Run(std::shared_ptr<tensorflow::RunGraphRequest> request, CancellationManager& caller,
                        StartGraph start, Reply reply) {
  const int64_t id = request->step_id();
  const StatusOr<RefPtr<TaskSteps::Step>> step = steps_.Find(id);
  if (!step.ok()) return reply(step.status(), {});
  auto call = std::make_shared<Call>();
  call->request = std::move(request);
  call->caller = &caller;
  call->reply = std::move(reply);
  bool is_new = false;
  {
    MutexLock lock(mu_);
    std::shared_ptr<OneRun>& run = runs_[id];
    is_new = run == nullptr;
    if (is_new) {
      run = std::make_shared<OneRun>();
      run->step = *step;
    }
    call->run = run;
  }
  call->token =
      caller.Register([run = call->run] { run->Stop(errors::Cancelled("RunGraph was cancelled")); });
  Status failed;
  if (call->token == CancellationManager::kInvalidToken) failed = errors::Cancelled("RunGraph was cancelled");
  if (failed.ok()) failed = SendFeeds(call->request.get(), **step);
  if (is_new && !failed.ok()) Ended(*call->run, failed);  // the run is not started
  if (failed.ok()) {
    MutexLock lock(call->run->mu);
    failed = call->run->status;
  }
  if (!failed.ok()) return Answer(call, std::move(failed));
  if (is_new) {
    start(call->run->cancellation, [this, run = call->run](const Status& status) { Ended(*run, status); });
  }
  const int keys = call->request->recv_key_size();
  {
    MutexLock lock(call->mu);
    call->fetched.resize(static_cast<size_t>(keys));
    call->missing = keys + 1;
  }
  const auto received = [this, call](int place, const Status& status, Tensor tensor) {
    Status result;
    {
      MutexLock lock(call->mu);
      call->status.Update(status);
      if (place >= 0) call->fetched[static_cast<size_t>(place)] = std::move(tensor);
      if (--call->missing > 0) return;
      result = call->status;
    }
    Answer(call, std::move(result));
  };
  for (int i = 0; i < keys; ++i) {
    const std::string& key = call->request->recv_key(i);
    (*step)->rendezvous->RecvLocal(
        KeyFromText(key), [received, i, key](Status status, Tensor tensor, bool is_dead) {
          if (status.ok() && is_dead)
            status = errors::InvalidArgument("The tensor returned for ", key, " was not valid.");
          received(i, status, std::move(tensor));
        });
  }
  received(-1, Status(), Tensor());
}

void RunGraphParts::Ended(OneRun& run, const Status& status) {
  UniqueFunction<void(const Status&)> waiting;
  {
    MutexLock lock(run.mu);
    run.ended = true;
    run.status = status;
    waiting = std::move(run.when_ended);
    run.when_ended = nullptr;
  }
  if (waiting) waiting(status);
}

void RunGraphParts::Finish(Call& call, Status status) {
  if (call.request->is_last_partial_run()) {
    MutexLock lock(mu_);
    runs_.erase(call.request->step_id());
  }
  status = call.run->Explain(status);
  tensorflow::RunGraphResponse response;
  if (status.ok()) {
    MutexLock lock(call.mu);
    for (size_t i = 0; i < call.fetched.size(); ++i) {
      tensorflow::NamedTensorProto* const recv = response.add_recv();
      recv->set_name(call.request->recv_key(static_cast<int>(i)));
      TensorToProtoContent(call.fetched[i], recv->mutable_tensor());
    }
  }
  if (response.ByteSizeLong() > INT32_MAX) {
    response.Clear();
    status = errors::ResourceExhausted("The fetches of the step exceed the size of a message");
  }
  if (!status.ok() && call.request->store_errors_in_response_body()) {
    response.set_status_code(static_cast<tensorflow::error::Code>(status.code()));
    response.set_status_error_message(status.message());
    status = Status();
  }
  if (call.token != CancellationManager::kInvalidToken) call.caller->TryDeregister(call.token);
  Reply reply = std::move(call.reply);
  reply(status, status.ok() ? MessageBytes::Of(response) : MessageBytes());
}

void RunGraphParts::Answer(const std::shared_ptr<Call>& call, Status status) {
  if (!call->request->is_last_partial_run()) return Finish(*call, std::move(status));
  if (!status.ok()) call->run->cancellation.StartCancel();
  auto end = [this, call, first = std::move(status)](const Status& of_graph) {
    Finish(*call, first.ok() ? of_graph : first);
  };
  Status ended;
  {
    MutexLock lock(call->run->mu);
    if (!call->run->ended) {
      call->run->when_ended = std::move(end);
      return;
    }
    ended = call->run->status;
  }
  end(ended);
}

void RunGraphParts::CleanUp(int64_t step_id, const Status& why) {
  std::shared_ptr<OneRun> run;
  {
    MutexLock lock(mu_);
    const auto it = runs_.find(step_id);
    if (it == runs_.end()) return;
    run = std::move(it->second);
    runs_.erase(it);
  }
  if (!why.ok()) return run->End(why);
  run->Stop(errors::Aborted("Step ", step_id, " has ended"));
}

void RunGraphParts::CleanUpAll(const Status& why) {
  decltype(runs_) runs;
  {
    MutexLock lock(mu_);
    runs.swap(runs_);
  }
  for (auto& [id, run] : runs) run->End(why);
}

}  // namespace millrace
