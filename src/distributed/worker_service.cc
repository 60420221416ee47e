// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/worker_service.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <optional>
#include <utility>

#include "distributed/collective_messages.h"
#include "distributed/device_message.h"
#include "distributed/message_channel.h"
#include "distributed/partition_message.h"
#include "distributed/renamed_devices.h"
#include "distributed/tensor_channels.h"
#include "distributed/tensor_message.h"
#include "distributed/transfer_log.h"
#include "kernel/function_caller.h"
#include "step/cost_graph.h"
#include "step/deadline.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/protobuf/config.pb.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace millrace {
namespace {

// The time limit of a step whose caller has died. A living caller stops its step earlier.
constexpr int64_t kGraceMs = 2000;

template <typename Request>
Status Parse(Method method, const MessageBytes& bytes, Request* request) {
  if (bytes.ParseInto(request)) return Status();
  return errors::InvalidArgument("The request of ", MethodName(method), " is not a message");
}

Status NoGraph(const std::string& handle) {
  return errors::Aborted("Graph handle is not found: ", handle, ". Possibly, this worker just restarted.");
}

int64_t UnixMicros() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::microseconds>(system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

// One call of RunGraph, until its reply. The caller's cancellation has a callback that holds it.
struct WorkerService::GraphRun {
  tensorflow::RunGraphRequest request;
  SessionPtr session;                             // outlives the partition
  std::shared_ptr<InstalledPartition> partition;  // stays when it is deregistered meanwhile
  CancellationManager* caller = nullptr;          // lives until the reply
  CancellationManager::Token token = CancellationManager::kInvalidToken;
  CancellationManager cancellation;
  std::optional<ScopedDeadline> deadline;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  const int64_t received_us = UnixMicros();
  bool logged = false;  // Tracing has asked for its times, whatever the request says
  RunMetadata metadata;
  Reply reply;
};

WorkerService::WorkerService(Environment environment)
    : env_(std::move(environment)), log_(std::make_unique<TransferLog>()) {}

WorkerService::WorkerService(LocalWorker& worker, ThreadPool& pool)
    : WorkerService(
          Environment{.devices = worker.shared_devices(), .steps = worker.shared_steps(), .pool = &pool}) {
  only_ = std::make_shared<WorkerSession>(worker);
}

WorkerService::~WorkerService() = default;

bool WorkerService::MayWait(Method method) {
  switch (method) {
    case Method::kGetStatus:
    case Method::kRunGraph:
    case Method::kRecvTensor:
    case Method::kRecvBuf:
    case Method::kRecvChunk:
      return false;
    default:
      return true;
  }
}

void WorkerService::Handle(Method method, const MessageBytes& request, int64_t timeout_in_ms,
                           CancellationManager& cancellation, Reply reply) {
  switch (method) {
    case Method::kGetStatus:
      return GetStatus(std::move(reply));
    case Method::kCreateWorkerSession:
      return CreateWorkerSession(request, std::move(reply));
    case Method::kDeleteWorkerSession:
      return DeleteWorkerSession(request, std::move(reply));
    case Method::kRegisterGraph:
      return RegisterGraph(request, std::move(reply));
    case Method::kDeregisterGraph:
      return DeregisterGraph(request, std::move(reply));
    case Method::kRunGraph:
      return RunGraph(request, timeout_in_ms, cancellation, std::move(reply));
    case Method::kCleanupGraph:
      return CleanupGraph(request, std::move(reply));
    case Method::kCleanupAll:
      return CleanupAll(request, std::move(reply));
    case Method::kRecvTensor:
      return RecvTensor(request, cancellation, std::move(reply));
    case Method::kRecvChunk:
      return RecvChunk(request, std::move(reply));
    case Method::kLogging:
      return Logging(request, std::move(reply));
    case Method::kRecvBuf:
    case Method::kGetStepSequence:
    case Method::kCompleteGroup:
    case Method::kCompleteInstance:
      return HandleCollective(env_.steps->collectives(), env_.devices->devices(), recent_requests_, method,
                              request, cancellation, std::move(reply));
    case Method::kTracing:
      return Tracing(request, std::move(reply));
    default:
      break;
  }
  reply(errors::Unimplemented("The worker service has no method ", static_cast<int>(method)), {});
}

WorkerService::State WorkerService::GetState() const {
  State state;
  const auto now = std::chrono::steady_clock::now();
  std::vector<SessionPtr> sessions;
  {
    MutexLock lock(mu_);
    for (const auto& [handle, entry] : sessions_) sessions.push_back(entry.session);
    for (const auto& [run, kept] : runs_) {
      const auto running = std::chrono::duration_cast<std::chrono::milliseconds>(now - run->start);
      state.runs.push_back({run->request.step_id(), run->request.session_handle(), running.count()});
    }
  }
  state.sessions = sessions.size();
  if (only_ != nullptr) sessions.push_back(only_);
  for (const SessionPtr& session : sessions) state.graphs += session->num_graphs();
  state.steps = env_.steps->size();
  return state;
}

void WorkerService::Stop() {
  decltype(runs_) runs;
  {
    MutexLock lock(mu_);
    stopped_ = true;
    runs = runs_;
  }
  for (auto& [run, kept] : runs) kept->cancellation.StartCancel();
  parts_.CleanUpAll();
}

void WorkerService::CleanUpStep(int64_t step_id) {
  parts_.CleanUp(step_id);
  env_.steps->CleanUp(step_id);
}

void WorkerService::DropSessions() {
  decltype(sessions_) sessions;  // destroyed after the lock is released
  MutexLock lock(mu_);
  sessions.swap(sessions_);
}

// ---- Sessions

Status WorkerService::NoSession(const std::string& handle) const {
  return errors::Unavailable("Session handle is not found: ", handle, ". Possibly this worker (\"",
                             env_.devices->task(), "\") just restarted.");
}

StatusOr<WorkerService::SessionPtr> WorkerService::FindSession(const std::string& handle, bool created,
                                                               bool may_make) {
  if (only_ != nullptr) return only_;
  {
    MutexLock lock(mu_);
    const auto it = sessions_.find(handle);
    if (it != sessions_.end()) return it->second.session;
  }
  if (created || !may_make) return NoSession(handle);
  MR_ASSIGN_OR_RETURN(SessionPtr made, MakeSession(handle, nullptr));
  MutexLock lock(mu_);
  if (stopped_) return errors::Unavailable("Task ", env_.devices->task(), " ends");
  // Another call may have been faster.
  return sessions_.try_emplace(handle, Entry{std::move(made), true, {}}).first->second.session;
}

StatusOr<WorkerService::SessionPtr> WorkerService::MakeSession(
    const std::string& handle, const tensorflow::CreateWorkerSessionRequest* request) {
  std::shared_ptr<LocalDevices> devices = env_.devices;
  std::vector<std::unique_ptr<RemoteWorker>> peers;
  std::unique_ptr<SessionCluster> cluster;
  if (request != nullptr) {
    MR_ASSIGN_OR_RETURN(cluster, ClusterOf(*request));
  }
  Transport* const transport = cluster == nullptr ? env_.transport : cluster->transport.get();
  if (cluster != nullptr) {
    devices = std::make_shared<LocalDevices>(RenameDevices(devices->shared_devices(), cluster->peers->task));
  } else if (request != nullptr && request->isolate_session_state()) {
    devices = std::make_shared<LocalDevices>(devices->shared_devices());
  }
  if (request != nullptr && transport != nullptr) {
    std::map<std::string, std::vector<DeviceAttributes>> by_task;
    for (const tensorflow::DeviceAttributes& d : request->cluster_device_attributes()) {
      std::string task, device;
      if (!SplitDeviceName(d.name(), &task, &device))
        return errors::InvalidArgument("A device of the cluster has no full name: '", d.name(), "'");
      if (task != devices->task()) by_task[task].push_back(AttributesFromProto(d));
    }
    for (const auto& [task, attributes] : by_task)
      peers.push_back(std::make_unique<RemoteWorker>(task, attributes, *transport, handle));
  }
  auto worker = std::make_unique<LocalWorker>(std::move(devices), env_.steps,
                                              cluster == nullptr ? nullptr : cluster->peers);
  return std::make_shared<WorkerSession>(std::move(worker), std::move(peers), env_.compiler,
                                         std::move(cluster));
}

StatusOr<std::unique_ptr<SessionCluster>> WorkerService::ClusterOf(
    const tensorflow::CreateWorkerSessionRequest& request) {
  const tensorflow::ServerDef& def = request.server_def();
  if (def.job_name().empty()) return std::unique_ptr<SessionCluster>();
  const std::string named = TaskName(def.job_name(), def.task_index());
  const bool own_name = named == env_.devices->task();
  // A session that is not isolated is one of the task's own cluster.
  if (!request.isolate_session_state() || !env_.connect) {
    if (own_name) return std::unique_ptr<SessionCluster>();
    return errors::InvalidArgument("CreateWorkerSession is for ", named, ", but this task is ",
                                   env_.devices->task());
  }
  MR_ASSIGN_OR_RETURN(const ClusterSpec cluster, ClusterSpec::FromProto(def.cluster()));
  if (own_name && IsPartOf(cluster, env_.cluster, named)) return std::unique_ptr<SessionCluster>();
  return SessionCluster::Make(cluster, named, env_.connect);
}

void WorkerService::CreateWorkerSession(const MessageBytes& bytes, Reply reply) {
  tensorflow::CreateWorkerSessionRequest request;
  if (Status s = Parse(Method::kCreateWorkerSession, bytes, &request); !s.ok())
    return reply(std::move(s), {});
  if (request.session_handle().empty())
    return reply(errors::InvalidArgument("CreateWorkerSession: no session_handle"), {});
  auto made = MakeSession(request.session_handle(), &request);
  if (!made.ok()) return reply(std::move(made).status(), {});
  // The master of a session on another cluster has a name that this task can't reach it by.
  MasterOf master;
  if (!(*made)->has_own_cluster()) master = {request.master_task(), request.master_incarnation()};
  Status status;
  {
    MutexLock lock(mu_);
    if (stopped_) {
      status = errors::Unavailable("Task ", env_.devices->task(), " ends");
    } else {
      // The same request may come twice.
      sessions_.try_emplace(request.session_handle(), Entry{*std::move(made), false, std::move(master)});
    }
  }
  reply(std::move(status), MessageBytes::Of(tensorflow::CreateWorkerSessionResponse()));
}

void WorkerService::DeleteWorkerSession(const MessageBytes& bytes, Reply reply) {
  tensorflow::DeleteWorkerSessionRequest request;
  if (Status s = Parse(Method::kDeleteWorkerSession, bytes, &request); !s.ok())
    return reply(std::move(s), {});
  SessionPtr dropped;  // destroyed after the lock is released
  std::vector<std::shared_ptr<GraphRun>> stopped;
  std::vector<int64_t> steps;
  {
    MutexLock lock(mu_);
    const auto it = sessions_.find(request.session_handle());
    if (it != sessions_.end()) {
      dropped = std::move(it->second.session);
      sessions_.erase(it);
    }
    for (const auto& [run, kept] : runs_) {
      if (run->request.session_handle() == request.session_handle()) stopped.push_back(kept);
    }
    // Those whose clean-up was lost on its way.
    std::erase_if(session_of_step_, [&](const auto& step) {
      const bool gone = step.second == request.session_handle();
      if (gone) steps.push_back(step.first);
      return gone;
    });
  }
  for (const auto& run : stopped) run->cancellation.StartCancel();
  for (const int64_t step : steps) CleanUpStep(step);
  dropped.reset();
  // One that is not there is as good as deleted.
  reply(Status(), MessageBytes::Of(tensorflow::DeleteWorkerSessionResponse()));
}

std::set<WorkerService::MasterOf> WorkerService::Masters() const {
  std::set<MasterOf> masters;
  MutexLock lock(mu_);
  for (const auto& [handle, entry] : sessions_) {
    if (!entry.master.task.empty()) masters.insert(entry.master);
  }
  return masters;
}

std::set<std::string> WorkerService::SessionsOf(const MasterOf& master) const {
  std::set<std::string> handles;
  MutexLock lock(mu_);
  for (const auto& [handle, entry] : sessions_) {
    if (entry.master == master) handles.insert(handle);
  }
  return handles;
}

void WorkerService::DropSessionsOf(const MasterOf& master, const std::set<std::string>* only) {
  std::map<std::string, SessionPtr> dropped;  // destroyed after the lock is released
  std::vector<std::shared_ptr<GraphRun>> stopped;
  std::vector<int64_t> steps;
  {
    MutexLock lock(mu_);
    for (auto it = sessions_.begin(); it != sessions_.end();) {
      if (it->second.master != master || (only != nullptr && !only->contains(it->first))) {
        ++it;
        continue;
      }
      dropped.emplace(it->first, std::move(it->second.session));
      it = sessions_.erase(it);
    }
    for (const auto& [run, kept] : runs_) {
      if (dropped.contains(run->request.session_handle())) stopped.push_back(kept);
    }
    std::erase_if(session_of_step_, [&](const auto& step) {
      const bool gone = dropped.contains(step.second);
      if (gone) steps.push_back(step.first);
      return gone;
    });
  }
  for (const auto& run : stopped) run->cancellation.StartCancel();
  for (const int64_t step : steps) CleanUpStep(step);
}

void WorkerService::GetStatus(Reply reply) {
  tensorflow::GetStatusResponse response;
  for (const auto& device : env_.devices->devices().devices())
    AttributesToProto(device->attributes(), response.add_device_attributes());
  reply(Status(), MessageBytes::Of(response));
}

// ---- Graphs

void WorkerService::RegisterGraph(const MessageBytes& bytes, Reply reply) {
  tensorflow::RegisterGraphRequest request;
  if (Status s = Parse(Method::kRegisterGraph, bytes, &request); !s.ok()) return reply(std::move(s), {});
  if (Status s = env_.denied.Check(request.graph_def()); !s.ok()) return reply(std::move(s), {});
  const std::string session_handle = request.session_handle();
  auto session = FindSession(session_handle, request.create_worker_session_called(), true);
  if (!session.ok()) return reply(std::move(session).status(), {});
  StatusOr<PartitionSpec> spec = PartitionFromRequest(std::move(request));
  if (!spec.ok()) return reply(std::move(spec).status(), {});
  LocalWorker& worker = (*session)->worker();
  worker.InstallAsync(*std::move(spec), [this, session = *std::move(session), answer = std::move(reply)](
                                            StatusOr<std::unique_ptr<InstalledPartition>> installed) mutable {
    if (!installed.ok()) return answer(std::move(installed).status(), {});
    char handle[17];
    {
      MutexLock lock(mu_);
      std::snprintf(handle, sizeof(handle), "%016llx", static_cast<unsigned long long>(next_handle_++));
    }
    session->AddGraph(handle, *std::move(installed));
    tensorflow::RegisterGraphResponse response;
    response.set_graph_handle(handle);
    answer(Status(), MessageBytes::Of(response));
  });
}

void WorkerService::DeregisterGraph(const MessageBytes& bytes, Reply reply) {
  tensorflow::DeregisterGraphRequest request;
  if (Status s = Parse(Method::kDeregisterGraph, bytes, &request); !s.ok()) return reply(std::move(s), {});
  auto session = FindSession(request.session_handle(), request.create_worker_session_called(), false);
  if (!session.ok()) {
    const bool created = request.create_worker_session_called();
    return reply(created ? session.status() : NoGraph(request.graph_handle()), {});
  }
  std::shared_ptr<InstalledPartition> dropped = (*session)->RemoveGraph(request.graph_handle());
  const bool found = dropped != nullptr;
  dropped.reset();
  SessionPtr last;  // destroyed after the lock is released
  {
    MutexLock lock(mu_);
    const auto it = sessions_.find(request.session_handle());
    if (it != sessions_.end() && it->second.made_up && (*session)->num_graphs() == 0) {
      last = std::move(it->second.session);
      sessions_.erase(it);
    }
  }
  if (!found) return reply(NoGraph(request.graph_handle()), {});
  reply(Status(), MessageBytes::Of(tensorflow::DeregisterGraphResponse()));
}

// ---- Steps

void WorkerService::RunGraph(const MessageBytes& bytes, int64_t timeout_in_ms,
                             CancellationManager& cancellation, Reply reply) {
  auto run = std::make_shared<GraphRun>();
  Status known = Parse(Method::kRunGraph, bytes, &run->request);
  if (known.ok())
    known = recent_requests_.CheckNew(run->request.request_id(), "RunGraph (Worker)", run->request);
  if (!known.ok()) return reply(std::move(known), {});
  auto session =
      FindSession(run->request.session_handle(), run->request.create_worker_session_called(), false);
  if (!session.ok()) {
    const bool created = run->request.create_worker_session_called();
    return reply(created ? session.status() : NoGraph(run->request.graph_handle()), {});
  }
  run->session = *std::move(session);
  run->partition = run->session->FindGraph(run->request.graph_handle());
  if (run->partition == nullptr) return reply(NoGraph(run->request.graph_handle()), {});
  if (run->request.is_partial()) return RunPart(std::move(run), cancellation, std::move(reply));
  run->reply = std::move(reply);
  run->caller = &cancellation;
  bool stopped = false;
  {
    MutexLock lock(mu_);
    stopped = stopped_;
    if (!stopped) {
      runs_.emplace(run.get(), run);
      session_of_step_.emplace(run->request.step_id(), run->request.session_handle());
    }
  }
  if (stopped) return run->reply(errors::Unavailable("Task ", env_.devices->task(), " ends"), {});
  run->token = cancellation.Register([run] { run->cancellation.StartCancel(); });
  if (run->token == CancellationManager::kInvalidToken)
    return EndRun(*run, errors::Cancelled("Step was cancelled"), {});
  if (timeout_in_ms > 0) run->deadline.emplace(run->cancellation, timeout_in_ms + kGraceMs);
  if (run->partition->is_brief()) return StartRun(std::move(run));
  env_.pool->Schedule([this, run] { StartRun(run); });
}

void WorkerService::StartRun(std::shared_ptr<GraphRun> run) {
  const int64_t step_id = run->request.step_id();
  const StatusOr<RefPtr<TaskSteps::Step>> step = env_.steps->Find(step_id);
  if (!step.ok()) return FinishRun(*run, step.status());
  if (Status sent = SendFeeds(&run->request, **step); !sent.ok()) return FinishRun(*run, sent);
  StepArgs args = ArgsOf(*run);
  args.cancellation = &run->cancellation;
  run->partition->Run(args, [this, run](const Status& status) { FinishRun(*run, status); });
}

StepArgs WorkerService::ArgsOf(GraphRun& run) const {
  StepArgs args;
  args.info.step_id = run.request.step_id();
  args.info.several_tasks = true;
  args.info.calls_elsewhere = std::clamp(run.request.calls_in_progress(), 0, FunctionCaller::kMaxDepth);
  args.info.collective_step = run.request.collective_step();
  args.info.collective_leader = run.request.collective_leader().empty()
                                    ? std::string_view(env_.steps->collectives().default_leader())
                                    : run.request.collective_leader();
  const tensorflow::ExecutorOpts& wanted = run.request.exec_opts();
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

// A part of a step of another master's partial run.
void WorkerService::RunPart(std::shared_ptr<GraphRun> run, CancellationManager& cancellation, Reply reply) {
  bool stopped = false;
  {
    MutexLock lock(mu_);
    stopped = stopped_;
    if (!stopped) session_of_step_.emplace(run->request.step_id(), run->request.session_handle());
  }
  if (stopped) return reply(errors::Unavailable("Task ", env_.devices->task(), " ends"), {});
  std::shared_ptr<tensorflow::RunGraphRequest> request(run, &run->request);
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
  const StatusOr<RefPtr<TaskSteps::Step>> step = env_.steps->Find(run.request.step_id());
  if (!step.ok()) return EndRun(run, step.status(), {});
  for (const std::string& key : run.request.recv_key()) {
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
  if (run.request.clean_up_if_idle() && env_.steps->CleanUpIfIdle(run.request.step_id())) {
    response.set_cleaned_up(true);
    MutexLock lock(mu_);
    session_of_step_.erase(run.request.step_id());
  }
  if (response.ByteSizeLong() > INT32_MAX) {
    return EndRun(run,
                  errors::ResourceExhausted("What the step fetches from ", env_.devices->task(),
                                            " is more than a message can hold"),
                  {});
  }
  EndRun(run, Status(), MessageBytes::Of(response));
}

// What the master has asked for beside tensors.
void WorkerService::AddMeasurements(GraphRun& run, tensorflow::RunGraphResponse* response) {
  const tensorflow::ExecutorOpts& wanted = run.request.exec_opts();
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
  if (run.logged) log_->AddStep(run.request.step_id(), measured.step_stats());
  if (!wanted.record_timeline()) return;
  response->mutable_step_stats()->Swap(measured.mutable_step_stats());
  // The master compares its clock with this one.
  response->set_received_micros(run.received_us);
  response->set_answered_micros(UnixMicros());
}

// The last thing that happens to a run.
void WorkerService::EndRun(GraphRun& run, Status status, MessageBytes response) {
  run.deadline.reset();
  if (!status.ok() && run.request.store_errors_in_response_body()) {
    // Trailers of a call hold a few kilobytes only.
    tensorflow::RunGraphResponse failed;
    failed.set_status_code(static_cast<tensorflow::error::Code>(status.code()));
    failed.set_status_error_message(status.message());
    response = MessageBytes::Of(failed);
    status = Status();
  }
  Reply reply = std::move(run.reply);
  if (run.token != CancellationManager::kInvalidToken) run.caller->TryDeregister(run.token);
  std::shared_ptr<GraphRun> kept;
  {
    MutexLock lock(mu_);
    const auto it = runs_.find(&run);
    if (it != runs_.end()) {
      kept = std::move(it->second);
      runs_.erase(it);
    }
  }
  // Before the reply: after it the service may end.
  if (kept != nullptr) {
    kept->partition.reset();
    kept->session.reset();
    kept.reset();
  }
  reply(std::move(status), std::move(response));
}

void WorkerService::CleanupGraph(const MessageBytes& bytes, Reply reply) {
  tensorflow::CleanupGraphRequest request;
  if (Status s = Parse(Method::kCleanupGraph, bytes, &request); !s.ok()) return reply(std::move(s), {});
  CleanUpStep(request.step_id());
  {
    MutexLock lock(mu_);
    session_of_step_.erase(request.step_id());
  }
  reply(Status(), MessageBytes::Of(tensorflow::CleanupGraphResponse()));
}

void WorkerService::CleanupAll(const MessageBytes& bytes, Reply reply) {
  tensorflow::CleanupAllRequest request;
  if (Status s = Parse(Method::kCleanupAll, bytes, &request); !s.ok()) return reply(std::move(s), {});
  env_.devices->ClearContainers({request.container().begin(), request.container().end()});
  reply(Status(), MessageBytes::Of(tensorflow::CleanupAllResponse()));
}

// A key of a device that was there before this process, or of another task, is refused.
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
// has cancelled.
struct WorkerService::PendingRecv : RefCounted {
  int64_t step_id = 0;
  std::string key;
  std::string channels;                   // of the caller; empty: none
  CancellationManager* caller = nullptr;  // lives until the reply
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
  if (Status s = Parse(Method::kRecvTensor, bytes, &request); !s.ok()) return reply(std::move(s), {});
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
  // The callback may have come before the step was made.
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
  if (Status s = Parse(Method::kLogging, bytes, &request); !s.ok()) return reply(std::move(s), {});
  tensorflow::LoggingResponse response;
  log_->Handle(request, &response);
  reply(Status(), MessageBytes::Of(response));
}

void WorkerService::Tracing(const MessageBytes& bytes, Reply reply) {
  tensorflow::TracingRequest request;
  Status status = Parse(Method::kTracing, bytes, &request);
  if (status.ok()) status = log_->Trace(request.options());
  reply(std::move(status), MessageBytes::Of(tensorflow::TracingResponse()));
}

}  // namespace millrace
