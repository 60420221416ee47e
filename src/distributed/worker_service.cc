// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/worker_service.h"

#include <algorithm>
#include <utility>

#include "distributed/collective_messages.h"
#include "distributed/device_message.h"
#include "distributed/graph_run.h"
#include "distributed/partition_message.h"
#include "distributed/renamed_devices.h"
#include "distributed/tensor_channels.h"
#include "distributed/transfer_log.h"
#include "kernel/function_caller.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace millrace {

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
      state.runs.push_back({run->request->step_id(), run->request->session_handle(), running.count()});
    }
  }
  state.sessions = sessions.size();
  if (only_ != nullptr) sessions.push_back(only_);
  for (const SessionPtr& session : sessions) state.graphs += session->num_graphs();
  state.steps = env_.steps->size();
  return state;
}

void WorkerService::Stop() {
  const Status why = TaskEnds(env_.devices->task());
  std::vector<std::shared_ptr<GraphRun>> runs;
  {
    MutexLock lock(mu_);
    stopped_ = true;
    for (const auto& [run, kept] : runs_) runs.push_back(kept);
    SetWhyEnded(runs, why);
  }
  EndRuns(runs, why);
  parts_.CleanUpAll(why);
}

void WorkerService::SetWhyEnded(const std::vector<std::shared_ptr<GraphRun>>& runs, const Status& why) {
  for (const auto& run : runs) {
    if (!run->cancellation.IsCancelled()) run->why_ended = why;
  }
}

void WorkerService::EndRuns(const std::vector<std::shared_ptr<GraphRun>>& runs, const Status& why) {
  for (const auto& run : runs) {
    if (!why.ok()) {
      // First, so that it is also the error of other tasks, which wait for tensors.
      const auto step = env_.steps->Find(run->request->step_id());
      if (step.ok()) (*step)->rendezvous->StartAbort(why);
    }
    run->cancellation.StartCancel();
  }
}

void WorkerService::CleanUpStep(int64_t step_id, const Status& why) {
  parts_.CleanUp(step_id, why);
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
  if (stopped_) return TaskEnds(env_.devices->task());
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
  // A session that is not isolated is on the task's own cluster.
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
  if (Status s = ParseRequest(Method::kCreateWorkerSession, bytes, &request); !s.ok())
    return reply(std::move(s), {});
  if (request.session_handle().empty())
    return reply(errors::InvalidArgument("CreateWorkerSession: no session_handle"), {});
  auto made = MakeSession(request.session_handle(), &request);
  if (!made.ok()) return reply(std::move(made).status(), {});
  // In another cluster this task can't reach the master by its name.
  MasterOf master;
  if (!(*made)->has_own_cluster()) master = {request.master_task(), request.master_incarnation()};
  Status status;
  {
    MutexLock lock(mu_);
    if (stopped_) {
      status = TaskEnds(env_.devices->task());
    } else {
      // The same request may arrive twice.
      sessions_.try_emplace(request.session_handle(), Entry{*std::move(made), false, std::move(master)});
    }
  }
  reply(std::move(status), MessageBytes::Of(tensorflow::CreateWorkerSessionResponse()));
}

void WorkerService::DeleteWorkerSession(const MessageBytes& bytes, Reply reply) {
  tensorflow::DeleteWorkerSessionRequest request;
  if (Status s = ParseRequest(Method::kDeleteWorkerSession, bytes, &request); !s.ok())
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
      if (run->request->session_handle() == request.session_handle()) stopped.push_back(kept);
    }
    // Those whose clean-up message was lost.
    std::erase_if(session_of_step_, [&](const auto& step) {
      const bool gone = step.second == request.session_handle();
      if (gone) steps.push_back(step.first);
      return gone;
    });
  }
  for (const auto& run : stopped) run->cancellation.StartCancel();
  for (const int64_t step : steps) CleanUpStep(step, Status());
  dropped.reset();
  // A missing session counts as deleted.
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

void WorkerService::DropSessionsOf(const MasterOf& master, std::string_view reason,
                                   const std::set<std::string>* only) {
  Status why;
  if (!reason.empty()) {
    why = errors::Aborted("Task ", env_.devices->task(), " has dropped the session of master ", master.task,
                          ": ", reason);
  }
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
      if (dropped.contains(run->request->session_handle())) stopped.push_back(kept);
    }
    SetWhyEnded(stopped, why);
    std::erase_if(session_of_step_, [&](const auto& step) {
      const bool gone = dropped.contains(step.second);
      if (gone) steps.push_back(step.first);
      return gone;
    });
  }
  EndRuns(stopped, why);
  for (const int64_t step : steps) CleanUpStep(step, why);
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
  if (Status s = ParseRequest(Method::kRegisterGraph, bytes, &request); !s.ok())
    return reply(std::move(s), {});
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
  if (Status s = ParseRequest(Method::kDeregisterGraph, bytes, &request); !s.ok())
    return reply(std::move(s), {});
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

}  // namespace millrace
