// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// The part of a worker service that runs steps.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <utility>

#include "base/step_cancelled.h"
#include "distributed/graph_run.h"
#include "distributed/message_channel.h"
#include "distributed/tensor_channels.h"
#include "distributed/tensor_message.h"
#include "distributed/transfer_log.h"
#include "distributed/worker_service.h"
#include "kernel/function_caller.h"
#include "step/cost_graph.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/protobuf/config.pb.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace millrace {
namespace {

// The time limit of a step whose caller has died. A living caller stops its step earlier.
constexpr int64_t kGraceMs = 2000;

}  // namespace

void WorkerService::RunGraph(const MessageBytes& bytes, int64_t timeout_in_ms,
                             CancellationManager& cancellation, Reply reply) {
  auto run = std::make_shared<GraphRun>();
  run->request = std::make_unique<tensorflow::RunGraphRequest>();
  Status known = ParseRequest(Method::kRunGraph, bytes, run->request.get());
  if (known.ok())
    known = recent_requests_.CheckNew(run->request->request_id(), "RunGraph (Worker)", *run->request);
  if (!known.ok()) return reply(std::move(known), {});
  auto session =
      FindSession(run->request->session_handle(), run->request->create_worker_session_called(), false);
  if (!session.ok()) {
    const bool created = run->request->create_worker_session_called();
    return reply(created ? session.status() : NoGraph(run->request->graph_handle()), {});
  }
  run->session = *std::move(session);
  run->partition = run->session->FindGraph(run->request->graph_handle());
  if (run->partition == nullptr) return reply(NoGraph(run->request->graph_handle()), {});
  if (run->request->is_partial()) return RunPart(std::move(run), cancellation, std::move(reply));
  run->reply = std::move(reply);
  run->caller = &cancellation;
  bool stopped = false;
  {
    MutexLock lock(mu_);
    stopped = stopped_;
    if (!stopped) {
      runs_.emplace(run.get(), run);
      session_of_step_.emplace(run->request->step_id(), run->request->session_handle());
    }
  }
  if (stopped) return run->reply(TaskEnds(env_.devices->task()), {});
  run->token = cancellation.Register([run] { run->cancellation.StartCancel(); });
  if (run->token == CancellationManager::kInvalidToken) return EndRun(*run, StepCancelled(), {});
  if (timeout_in_ms > 0) run->deadline.emplace(run->cancellation, timeout_in_ms + kGraceMs);
  if (run->partition->is_brief()) return StartRun(std::move(run));
  env_.pool->Schedule([this, run] { StartRun(run); });
}

void WorkerService::StartRun(std::shared_ptr<GraphRun> run) {
  const int64_t step_id = run->request->step_id();
  const StatusOr<RefPtr<TaskSteps::Step>> step = env_.steps->Find(step_id);
  if (!step.ok()) return FinishRun(*run, step.status());
  if (Status sent = SendFeeds(run->request.get(), **step); !sent.ok()) return FinishRun(*run, sent);
  StepArgs args = ArgsOf(*run);
  args.cancellation = &run->cancellation;
  run->partition->Run(args, [this, run](const Status& status) { FinishRun(*run, status); });
}

StepArgs WorkerService::ArgsOf(GraphRun& run) const {
  StepArgs args;
  args.info.step_id = run.request->step_id();
  args.info.several_tasks = true;
  args.info.calls_elsewhere = std::clamp(run.request->calls_in_progress(), 0, FunctionCaller::kMaxDepth);
  args.info.collective_step = run.request->collective_step();
  args.info.collective_leader = run.request->collective_leader().empty()
                                    ? std::string_view(env_.steps->collectives().default_leader())
                                    : run.request->collective_leader();
  const tensorflow::ExecutorOpts& wanted = run.request->exec_opts();
  run.logged = log_->traces();
  args.info.trace = wanted.record_timeline() || wanted.record_costs() || run.logged;
  args.info.report_allocations = wanted.report_tensor_allocations_upon_oom();
  args.inter_op_pool = env_.pool;
  args.intra_op_pool = env_.pool;
  run.metadata.step_start_unix_us = UnixMicros();
  if (args.info.trace) args.metadata = &run.metadata;
  args.detached = true;
  return args;
}

// One part of another master's partial run.
void WorkerService::RunPart(std::shared_ptr<GraphRun> run, CancellationManager& cancellation, Reply reply) {
  bool stopped = false;
  {
    MutexLock lock(mu_);
    stopped = stopped_;
    if (!stopped) session_of_step_.emplace(run->request->step_id(), run->request->session_handle());
  }
  if (stopped) return reply(TaskEnds(env_.devices->task()), {});
  std::shared_ptr<tensorflow::RunGraphRequest> request(run, run->request.get());
  parts_.Run(
      std::move(request), cancellation,
      [this, run](CancellationManager& of_step, InstalledPartition::Done done) mutable {
        env_.pool->Schedule([this, run = std::move(run), &of_step, finish = std::move(done)]() mutable {
          StepArgs args = ArgsOf(*run);
          args.cancellation = &of_step;
          InstalledPartition& partition = *run->partition;
          partition.Run(args,
                        [run, ended = std::move(finish)](const Status& status) mutable { ended(status); });
        });
      },
      std::move(reply));
}

void WorkerService::FinishRun(GraphRun& run, const Status& status) {
  run.deadline.reset();
  if (!status.ok()) return EndRun(run, status, {});
  tensorflow::RunGraphResponse response;
  const StatusOr<RefPtr<TaskSteps::Step>> step = env_.steps->Find(run.request->step_id());
  if (!step.ok()) return EndRun(run, step.status(), {});
  for (const std::string& key : run.request->recv_key()) {
    // The tensors that the partition has sent are available.
    struct Fetched {
      bool came = false;
      bool is_dead = false;
      Status status;
      Tensor value;
    };
    const auto fetched = std::make_shared<Fetched>();
    (*step)->rendezvous->RecvLocal(KeyFromText(key), [fetched](Status s, Tensor value, bool is_dead) {
      *fetched = {true, is_dead, std::move(s), std::move(value)};
    });
    if (!fetched->came) return EndRun(run, errors::Internal("The graph does not send ", key), {});
    if (!fetched->status.ok()) return EndRun(run, fetched->status, {});
    if (fetched->is_dead) {
      return EndRun(run, errors::InvalidArgument("The tensor returned for ", key, " was not valid."), {});
    }
    tensorflow::NamedTensorProto* const recv = response.add_recv();
    recv->set_name(key);
    TensorToProtoContent(fetched->value, recv->mutable_tensor());
  }
  AddMeasurements(run, &response);
  if (run.request->clean_up_if_idle() && env_.steps->CleanUpIfIdle(run.request->step_id())) {
    response.set_cleaned_up(true);
    MutexLock lock(mu_);
    session_of_step_.erase(run.request->step_id());
  }
  if (response.ByteSizeLong() > INT32_MAX) {
    return EndRun(run,
                  errors::ResourceExhausted("The fetches of the step from ", env_.devices->task(),
                                            " exceed the size of a message"),
                  {});
  }
  EndRun(run, Status(), MessageBytes::Of(response));
}

// The measurements that the master requested.
void WorkerService::AddMeasurements(GraphRun& run, tensorflow::RunGraphResponse* response) {
  const tensorflow::ExecutorOpts& wanted = run.request->exec_opts();
  if (wanted.record_partition_graphs()) {
    for (const std::string& graph : run.partition->SerializedGraphs())
      response->add_partition_graph()->ParseFromString(graph);
  }
  if (!wanted.record_timeline() && !wanted.record_costs() && !run.logged) return;
  if (wanted.record_costs()) {
    CostModel model;
    model.Record(run.metadata.devices);
    run.partition->AppendCosts(model, &run.metadata.cost_graph);
  }
  tensorflow::RunMetadata measured;
  run.metadata.ToProto(&measured);
  if (wanted.record_costs()) response->mutable_cost_graph()->Swap(measured.mutable_cost_graph());
  if (run.logged) log_->AddStep(run.request->step_id(), measured.step_stats());
  if (!wanted.record_timeline()) return;
  response->mutable_step_stats()->Swap(measured.mutable_step_stats());
  // The master compares its clock with this one.
  response->set_received_micros(run.received_us);
  response->set_answered_micros(UnixMicros());
}

// The last action of a run.
void WorkerService::EndRun(GraphRun& run, Status status, MessageBytes response) {
  run.deadline.reset();
  std::shared_ptr<GraphRun> kept;
  {
    MutexLock lock(mu_);
    const auto it = runs_.find(&run);
    if (it != runs_.end()) {
      kept = std::move(it->second);
      runs_.erase(it);
    }
    // Aborted: the step was dropped before the run had begun.
    const bool ended = errors::IsCancelled(status) || errors::IsAborted(status);
    if (ended && !run.why_ended.ok()) status = run.why_ended;
  }
  if (!status.ok() && run.request->store_errors_in_response_body()) {
    // Trailers of a call are limited to a few kilobytes.
    tensorflow::RunGraphResponse failed;
    failed.set_status_code(static_cast<tensorflow::error::Code>(status.code()));
    failed.set_status_error_message(status.message());
    response = MessageBytes::Of(failed);
    status = Status();
  }
  Reply reply = std::move(run.reply);
  if (run.token != CancellationManager::kInvalidToken) run.caller->TryDeregister(run.token);
  // Before the reply: after it the service may be destroyed.
  if (kept != nullptr) {
    kept->partition.reset();
    kept->session.reset();
    kept.reset();
  }
  reply(std::move(status), std::move(response));
}

void WorkerService::CleanupGraph(const MessageBytes& bytes, Reply reply) {
  tensorflow::CleanupGraphRequest request;
  if (Status s = ParseRequest(Method::kCleanupGraph, bytes, &request); !s.ok())
    return reply(std::move(s), {});
  CleanUpStep(request.step_id(), Status());
  {
    MutexLock lock(mu_);
    session_of_step_.erase(request.step_id());
  }
  reply(Status(), MessageBytes::Of(tensorflow::CleanupGraphResponse()));
}

void WorkerService::CleanupAll(const MessageBytes& bytes, Reply reply) {
  tensorflow::CleanupAllRequest request;
  if (Status s = ParseRequest(Method::kCleanupAll, bytes, &request); !s.ok()) return reply(std::move(s), {});
  env_.devices->ClearContainers({request.container().begin(), request.container().end()});
  reply(Status(), MessageBytes::Of(tensorflow::CleanupAllResponse()));
}

// Refuses a key of a device of an earlier process, or of another task.
Status WorkerService::CheckIncarnation(const Rendezvous::Key::Parts& key) const {
  const Device* device = env_.devices->devices().Find(key.src_device);
  // In another cluster the task may have another name.
  if (const size_t local = key.src_device.find("/device:"); device == nullptr && local != key.src_device.npos)
    device = env_.devices->devices().Find(StrCat(env_.devices->task(), key.src_device.substr(local)));
  if (device == nullptr)
    return errors::InvalidArgument("No device '", key.src_device, "' in task ", env_.devices->task());
  const uint64_t incarnation = device->attributes().incarnation;
  if (incarnation == key.src_incarnation) return Status();
  return errors::Aborted("RecvTensor expects a different device incarnation: ", key.src_incarnation, " vs. ",
                         incarnation, ". Your worker job (\"", env_.devices->task(),
                         "\") was probably restarted. Check your worker job for the reason why it was "
                         "restarted.");
}

// A call of RecvTensor that waits for its tensor. It is answered once: with the tensor, or because the caller
// has cancelled it.
struct WorkerService::PendingRecv : RefCounted {
  int64_t step_id = 0;
  std::string key;
  std::string channels;                   // of the caller; empty: none
  CancellationManager* caller = nullptr;  // valid until the reply
  std::atomic<bool> given_up = false;     // by the caller
  Mutex mu;
  CancellationManager::Token token MR_GUARDED_BY(mu) = CancellationManager::kInvalidToken;
  bool answered MR_GUARDED_BY(mu) = false;
  Reply reply MR_GUARDED_BY(mu);

  // The callback of the reply answers.
  Reply Take() MR_EXCLUDES(mu) {
    MutexLock lock(mu);
    if (std::exchange(answered, true)) return nullptr;
    if (token != CancellationManager::kInvalidToken) caller->TryDeregister(token);
    return std::move(reply);
  }
};

void WorkerService::RecvTensor(const MessageBytes& bytes, CancellationManager& cancellation, Reply reply) {
  tensorflow::RecvTensorRequest request;
  if (Status s = ParseRequest(Method::kRecvTensor, bytes, &request); !s.ok()) return reply(std::move(s), {});
  const auto parts = Rendezvous::Key::Parse(request.rendezvous_key());
  if (!parts.ok()) return reply(parts.status(), {});
  if (Status s = CheckIncarnation(*parts); !s.ok()) return reply(std::move(s), {});
  if (Status s = recent_requests_.CheckNew(request.request_id(), "RecvTensor (GrpcWorker)", request); !s.ok())
    return reply(std::move(s), {});
  const RefPtr<PendingRecv> recv = MakeRef<PendingRecv>();
  recv->step_id = request.step_id();
  recv->key = request.rendezvous_key();
  recv->channels = TensorChannels::IntroductionsOf(&request);
  recv->caller = &cancellation;
  {
    MutexLock lock(recv->mu);
    recv->reply = std::move(reply);
    recv->token = cancellation.Register([recv, steps = env_.steps] {
      Reply gone = recv->Take();
      if (!gone) return;
      recv->given_up = true;
      steps->CleanUpUnlessRun(recv->step_id);
      gone(errors::Cancelled("RecvTensor was cancelled"), {});
    });
  }
  if (cancellation.IsCancelled()) {
    if (Reply gone = recv->Take()) gone(errors::Cancelled("RecvTensor was cancelled"), {});
    return;
  }
  env_.steps->RecvLocal(recv->step_id, KeyFromText(recv->key),
                        [this, recv](Status status, const Tensor& tensor, bool is_dead) {
                          if (Reply answer = recv->Take())
                            SendTensor(*recv, status, tensor, is_dead, std::move(answer));
                        });
  // The callback may have run before the step was created.
  if (recv->given_up) env_.steps->CleanUpUnlessRun(recv->step_id);
}

void WorkerService::SendTensor(const PendingRecv& recv, const Status& status, const Tensor& tensor,
                               bool is_dead, Reply reply) {
  if (!status.ok()) return reply(status, {});
  const int64_t start = UnixMicros();
  std::optional<MessageBytes> offered;
  if (env_.channels != nullptr && !is_dead) {
    auto offer = env_.channels->Offer(recv.channels, *env_.steps, recv.step_id, tensor, start);
    if (!offer.ok()) return reply(std::move(offer).status(), {});
    offered = *std::move(offer);
  }
  const bool is_offered = offered.has_value();
  StatusOr<MessageBytes> response =
      is_offered ? StatusOr<MessageBytes>(*std::move(offered)) : TensorToResponse(tensor, is_dead, start);
  if (!response.ok()) return reply(std::move(response).status(), {});
  if (log_->enabled()) {
    const auto size = static_cast<int64_t>(is_offered ? tensor.num_bytes() : response->size());
    log_->Add({recv.step_id, start, UnixMicros(), size, recv.key});
  }
  reply(Status(), *std::move(response));
}

void WorkerService::RecvChunk(const MessageBytes& bytes, Reply reply) {
  if (env_.channels == nullptr) return reply(errors::Unimplemented("RecvChunk"), {});
  StatusOr<MessageBytes> chunk = ChunkOf(env_.channels->held(), bytes);
  if (!chunk.ok()) return reply(std::move(chunk).status(), {});
  reply(Status(), *std::move(chunk));
}

void WorkerService::Logging(const MessageBytes& bytes, Reply reply) {
  tensorflow::LoggingRequest request;
  if (Status s = ParseRequest(Method::kLogging, bytes, &request); !s.ok()) return reply(std::move(s), {});
  tensorflow::LoggingResponse response;
  log_->Handle(request, &response);
  reply(Status(), MessageBytes::Of(response));
}

void WorkerService::Tracing(const MessageBytes& bytes, Reply reply) {
  tensorflow::TracingRequest request;
  Status status = ParseRequest(Method::kTracing, bytes, &request);
  if (status.ok()) status = log_->Trace(request.options());
  reply(std::move(status), MessageBytes::Of(tensorflow::TracingResponse()));
}

}  // namespace millrace
