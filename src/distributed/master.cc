// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/master.h"

#include <algorithm>
#include <cstdio>
#include <random>
#include <utility>

#include "base/logging.h"
#include "base/notification.h"
#include "base/strings.h"
#include "distributed/cluster_tasks.h"
#include "distributed/device_message.h"
#include "distributed/renamed_devices.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/protobuf/config.pb.h"
#include "tensorflow/core/protobuf/master.pb.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace millrace {
namespace {

template <typename Response>
StatusOr<MessageBytes> Answer(const Response& response) {
  if (response.ByteSizeLong() > INT32_MAX)
    return errors::ResourceExhausted("The fetches of the step exceed the size of a message");
  return MessageBytes::Of(response);
}

std::string NewHandle() {
  std::random_device random;
  char text[17];
  std::snprintf(text, sizeof(text), "%08x%08x", random(), random());
  return text;
}

// Counts a step of a session.
class ScopedStep {
 public:
  explicit ScopedStep(MasterSession& session) : session_(session), status_(session.BeginStep(start_)) {}
  ~ScopedStep() {
    if (status_.ok()) session_.EndStep(start_);
  }
  ScopedStep(const ScopedStep&) = delete;
  ScopedStep& operator=(const ScopedStep&) = delete;
  const Status& status() const { return status_; }

 private:
  const MasterSession::Clock::time_point start_ = MasterSession::Clock::now();
  MasterSession& session_;
  const Status status_;
};

}  // namespace

// ---- One session

Status MasterSession::CheckOpen() const {
  if (!closed_) return Status();
  return end_.ok() ? errors::FailedPrecondition("Session is closed.") : end_;
}

void MasterSession::SetEnd(const Status& why) {
  MutexLock lock(mu_);
  if (ended_.load(std::memory_order_relaxed)) return;
  end_ = why;
  ended_.store(true, std::memory_order_release);
}

Status MasterSession::end() const {
  MutexLock lock(mu_);
  return end_;
}

Status MasterSession::Explain(Status status) const {
  if (!errors::IsCancelled(status) || !ended()) return status;
  const Status why = end();
  return errors::IsUnavailable(why) ? why : status;
}

StatusOr<int64_t> MasterSession::Extend(tensorflow::GraphDef&& graph, int64_t known_version) {
  MutexLock lock(mu_);
  MR_RETURN_IF_ERROR(CheckOpen());
  if (known_version != version_) {
    return errors::Aborted("Current version is ", version_, " but caller expected version ", known_version,
                           ".");
  }
  MR_RETURN_IF_ERROR(session_->Extend(std::move(graph)));
  return ++version_;
}

Status MasterSession::BeginStep(Clock::time_point start) {
  MutexLock lock(mu_);
  MR_RETURN_IF_ERROR(CheckOpen());
  running_.insert(start);
  return Status();
}

void MasterSession::EndStep(Clock::time_point start) {
  MutexLock lock(mu_);
  running_.erase(running_.find(start));
  if (running_.empty()) idle_.NotifyAll();
}

int64_t MasterSession::num_running() const {
  MutexLock lock(mu_);
  return static_cast<int64_t>(running_.size());
}

std::optional<MasterSession::Clock::time_point> MasterSession::oldest_step() const {
  MutexLock lock(mu_);
  return running_.empty() ? std::nullopt : std::optional(*running_.begin());
}

bool MasterSession::Close(std::chrono::milliseconds wait) {
  session_->Close().IgnoreError("closing a direct session cannot fail");
  const auto deadline = Clock::now() + wait;
  MutexLock lock(mu_);
  closed_ = true;
  while (!running_.empty()) {
    if (!idle_.WaitUntil(mu_, deadline)) return running_.empty();
  }
  return true;
}

// ---- All sessions

Master::Master(Environment environment) : env_(std::move(environment)) {
  if (env_.session_gc_in_ms > 0) collector_ = std::thread([this] { CollectSessions(); });
}

Master::~Master() {
  Stop();
  if (collector_.joinable()) collector_.join();
}

// Closes sessions that have not been used for long. A call, or a session of this process, holds a reference,
// so that the entry does not have the only one.
void Master::CollectSessions() {
  using std::chrono::milliseconds;
  const milliseconds limit(env_.session_gc_in_ms);
  const auto every = std::clamp<milliseconds>(limit / 4, milliseconds(10), milliseconds(10'000));
  while (true) {
    std::vector<SessionPtr> unused;
    {
      MutexLock lock(mu_);
      const auto next = std::chrono::steady_clock::now() + every;
      while (!stopped_ && stopping_.WaitUntil(mu_, next)) {
      }
      if (stopped_) return;
      const auto now = std::chrono::steady_clock::now();
      for (auto it = sessions_.begin(); it != sessions_.end();) {
        if (it->second.session.use_count() > 1) it->second.used = now;
        // A call may have ended since the last check.
        if (now - it->second.used <= limit + every) {
          ++it;
          continue;
        }
        unused.push_back(std::move(it->second.session));
        it = sessions_.erase(it);
      }
    }
    for (const SessionPtr& session : unused) {
      MR_LOG(Warning) << "Session " << session->handle() << " is closed: its client has made no call for "
                      << env_.session_gc_in_ms << " ms";
      session->SetEnd(NotFound(session->handle()));
      CloseAndLog(*session);
    }
  }
}

StatusOr<std::unique_ptr<DirectSession>> Master::Connect(SessionOptions options, const std::string& handle,
                                                         const SessionCluster* cluster,
                                                         CancellationManager* cancellation) {
  if (options.operation_timeout_in_ms == 0)
    options.operation_timeout_in_ms = env_.session.operation_timeout_in_ms;
  options.target.clear();
  ClusterConnection connection;
  connection.transport = cluster == nullptr ? env_.transport : cluster->transport.get();
  connection.cluster = cluster == nullptr ? env_.cluster : cluster->cluster;
  connection.session = handle;
  connection.renamed = cluster != nullptr;
  connection.timeout_in_ms = env_.session_creation_timeout_in_ms;
  connection.cancellation = cancellation;
  const auto connect = [&connection](const SessionOptions& session, const CompileOptions&, LocalWorker& own) {
    return ClusterTasks::Connect(connection, session, own);
  };
  std::shared_ptr<LocalDevices> devices = env_.devices;
  // As in TensorFlow, a session on a separate cluster is isolated, whatever its options.
  options.isolate_session_state = options.isolate_session_state || cluster != nullptr;
  if (cluster != nullptr) {
    devices = std::make_shared<LocalDevices>(RenameDevices(devices->shared_devices(), cluster->peers->task));
  } else if (options.isolate_session_state) {
    devices = std::make_shared<LocalDevices>(devices->shared_devices());
  }
  auto own = std::make_unique<LocalWorker>(std::move(devices), env_.steps,
                                           cluster == nullptr ? nullptr : cluster->peers);
  return DirectSession::MakeForCluster(options, std::move(own), connect);
}

StatusOr<std::unique_ptr<SessionCluster>> Master::ClusterOf(const SessionOptions& options) const {
  tensorflow::ConfigProto config;
  if (!config.ParseFromString(options.config) || !config.has_cluster_def())
    return std::unique_ptr<SessionCluster>();
  if (!env_.connect) return errors::Unimplemented("ConfigProto.cluster_def is not supported by ", env_.task);
  MR_ASSIGN_OR_RETURN(const ClusterSpec cluster, ClusterSpec::FromProto(config.cluster_def()));
  MR_ASSIGN_OR_RETURN(const std::string name, FindMaster(config.cluster_def(), options.target, env_.task));
  return SessionCluster::Make(cluster, name, env_.connect);
}

StatusOr<Master::SessionPtr> Master::Open(const SessionOptions& options, CancellationManager* cancellation) {
  const std::string handle = NewHandle();
  {
    MutexLock lock(mu_);
    opening_.insert(handle);
  }
  SessionPtr made;
  const Status status = [&]() -> Status {
    MR_ASSIGN_OR_RETURN(std::unique_ptr<SessionCluster> cluster, ClusterOf(options));
    MR_ASSIGN_OR_RETURN(auto session, Connect(options, handle, cluster.get(), cancellation));
    made = std::make_shared<MasterSession>(handle, std::move(cluster), std::move(session));
    return Status();
  }();
  MutexLock lock(mu_);
  opening_.erase(handle);
  MR_RETURN_IF_ERROR(status);
  if (stopped_) return TaskEnds(env_.task);
  sessions_.emplace(handle, Entry{made});
  return made;
}

std::string Master::Handles() const {
  std::string handles;
  MutexLock lock(mu_);
  for (const auto& [handle, entry] : sessions_) handles += handle + "\n";
  for (const std::string& handle : opening_) handles += handle + "\n";
  return handles;
}

StatusOr<Master::SessionPtr> Master::Find(const std::string& handle) {
  MutexLock lock(mu_);
  const auto it = sessions_.find(handle);
  if (it != sessions_.end()) {
    it->second.used = std::chrono::steady_clock::now();
    return it->second.session;
  }
  return NotFound(handle);
}

Status Master::NotFound(const std::string& handle) {
  return errors::Aborted("Session ", handle, " is not found. Possibly, this master has restarted.");
}

Status Master::CloseSession(const std::string& handle) {
  MR_ASSIGN_OR_RETURN(const SessionPtr session, Find(handle));
  {
    MutexLock lock(mu_);
    sessions_.erase(handle);
  }
  CloseAndLog(*session);
  return Status();
}

void Master::CloseAndLog(MasterSession& session) const {
  if (session.Close(std::chrono::milliseconds(env_.session_close_timeout_in_ms))) return;
  MR_LOG(Warning) << "Session " << session.handle() << " is closed while " << session.num_running()
                  << " of its steps, which were cancelled " << env_.session_close_timeout_in_ms
                  << " ms ago, are still running";
}

std::map<std::string, Master::SessionPtr> Master::TakeAll(bool stop) {
  std::map<std::string, SessionPtr> sessions;
  MutexLock lock(mu_);
  stopped_ = stopped_ || stop;
  stopping_.NotifyAll();
  for (auto& [handle, entry] : sessions_) sessions.emplace(handle, std::move(entry.session));
  sessions_.clear();
  return sessions;
}

void Master::Stop() {
  const auto sessions = TakeAll(true);
  // All are cancelled before the first is waited for.
  for (const auto& [handle, session] : sessions) {
    session->SetEnd(TaskEnds(env_.task));
    session->session().Close().IgnoreError("closing a direct session cannot fail");
  }
  for (const auto& [handle, session] : sessions) CloseAndLog(*session);
}

Status Master::Reset(const std::vector<std::string>& containers, const std::vector<std::string>& filters) {
  MR_ASSIGN_OR_RETURN(const std::vector<std::string> tasks, TasksOf(env_.cluster, filters));
  for (const auto& [handle, session] : TakeAll(false)) {
    session->SetEnd(NotFound(handle));
    CloseAndLog(*session);
  }
  tensorflow::CleanupAllRequest request;
  for (const std::string& container : containers) request.add_container(container);
  struct Gathered {
    Mutex mu;
    Status status MR_GUARDED_BY(mu);
  };
  Gathered gathered;
  {
    CountedTransport transport(*env_.transport);
    for (const std::string& task : tasks) {
      if (task == env_.task) {
        env_.devices->ClearContainers(containers);
        continue;
      }
      transport.Start({task, Method::kCleanupAll, MessageBytes::Of(request)},
                      [&gathered](const Status& status, const MessageBytes&) {
                        MutexLock lock(gathered.mu);
                        gathered.status.Update(status);
                      });
    }
  }
  MutexLock lock(gathered.mu);
  return gathered.status;
}

size_t Master::num_sessions() const {
  MutexLock lock(mu_);
  return sessions_.size();
}

int64_t Master::num_running() const {
  MutexLock lock(mu_);
  int64_t running = 0;
  for (const auto& [handle, entry] : sessions_) running += entry.session->num_running();
  return running;
}

int64_t Master::oldest_step_ms() const {
  MutexLock lock(mu_);
  const auto now = MasterSession::Clock::now();
  auto oldest = now;
  for (const auto& [handle, entry] : sessions_)
    oldest = std::min(oldest, entry.session->oldest_step().value_or(now));
  return std::chrono::duration_cast<std::chrono::milliseconds>(now - oldest).count();
}

// ---- The service

void Master::Handle(Method method, const MessageBytes& request, int64_t timeout_in_ms,
                    CancellationManager& cancellation, Reply reply) {
  Response response = errors::Unimplemented("The master service has no method ", static_cast<int>(method));
  switch (method) {
    case Method::kCreateSession:
      response = CreateSession(request, timeout_in_ms, cancellation);
      break;
    case Method::kExtendSession:
      response = ExtendSession(request);
      break;
    case Method::kPartialRunSetup:
      response = PartialRunSetup(request);
      break;
    case Method::kRunStep:
      response = RunStep(request, cancellation);
      break;
    case Method::kCloseSession:
      response = CloseSessionCall(request);
      break;
    case Method::kListDevices:
      response = ListDevices(request, cancellation);
      break;
    case Method::kReset:
      response = ResetCall(request);
      break;
    case Method::kMakeCallable:
      response = MakeCallable(request);
      break;
    case Method::kRunCallable:
      response = RunCallable(request, cancellation);
      break;
    case Method::kReleaseCallable:
      response = ReleaseCallable(request);
      break;
    default:
      break;
  }
  if (!response.ok()) return reply(std::move(response).status(), {});
  reply(Status(), *std::move(response));
}

Master::Response Master::CreateSession(const MessageBytes& bytes, int64_t /*timeout_in_ms*/,
                                       CancellationManager& cancellation) {
  tensorflow::CreateSessionRequest request;
  MR_RETURN_IF_ERROR(ParseRequest(Method::kCreateSession, bytes, &request));
  MR_RETURN_IF_ERROR(env_.denied.Check(request.graph_def()));
  MR_ASSIGN_OR_RETURN(SessionOptions options, SessionOptions::FromProto(request.config()));
  options.target = request.target();
  MR_ASSIGN_OR_RETURN(const SessionPtr session, Open(options, &cancellation));
  if (Status s = session->session().Create(std::move(*request.mutable_graph_def())); !s.ok()) {
    CloseSession(session->handle()).IgnoreError("the error of Create is reported");
    return s;
  }
  tensorflow::CreateSessionResponse response;
  response.set_session_handle(session->handle());
  return Answer(response);
}

Master::Response Master::ExtendSession(const MessageBytes& bytes) {
  tensorflow::ExtendSessionRequest request;
  MR_RETURN_IF_ERROR(ParseRequest(Method::kExtendSession, bytes, &request));
  MR_RETURN_IF_ERROR(env_.denied.Check(request.graph_def()));
  MR_ASSIGN_OR_RETURN(const SessionPtr session, Find(request.session_handle()));
  tensorflow::ExtendSessionResponse response;
  MR_ASSIGN_OR_RETURN(const int64_t version, session->Extend(std::move(*request.mutable_graph_def()),
                                                             request.current_graph_version()));
  response.set_new_graph_version(version);
  return Answer(response);
}

Master::Response Master::PartialRunSetup(const MessageBytes& bytes) {
  tensorflow::PartialRunSetupRequest request;
  MR_RETURN_IF_ERROR(ParseRequest(Method::kPartialRunSetup, bytes, &request));
  MR_RETURN_IF_ERROR(recent_requests_.CheckNew(request.request_id(), "PartialRunSetup (Master)", request));
  MR_ASSIGN_OR_RETURN(const SessionPtr session, Find(request.session_handle()));
  const ScopedStep step(*session);
  MR_RETURN_IF_ERROR(step.status());
  tensorflow::PartialRunSetupResponse response;
  MR_ASSIGN_OR_RETURN(const std::string handle,
                      session->session().PRunSetup({request.feed().begin(), request.feed().end()},
                                                   {request.fetch().begin(), request.fetch().end()},
                                                   {request.target().begin(), request.target().end()}));
  response.set_partial_run_handle(handle);
  return Answer(response);
}

Master::Response Master::RunStep(const MessageBytes& bytes, CancellationManager& cancellation) {
  tensorflow::RunStepRequest request;
  MR_RETURN_IF_ERROR(ParseRequest(Method::kRunStep, bytes, &request));
  const auto run = [&]() -> Response {
    MR_RETURN_IF_ERROR(recent_requests_.CheckNew(request.request_id(), "RunStep (Master)", request));
    MR_ASSIGN_OR_RETURN(const SessionPtr session, Find(request.session_handle()));
    const ScopedStep step(*session);
    MR_RETURN_IF_ERROR(step.status());
    MR_ASSIGN_OR_RETURN(const RunOptions options, RunOptions::FromProto(request.options()));
    // A client must not choose the files that a server writes.
    if (!options.debug_watches.empty())
      return errors::Unimplemented("RunOptions.debug_options is not supported in a session on a cluster");
    Session::Feeds feeds;
    for (tensorflow::NamedTensorProto& feed : *request.mutable_feed()) {
      MR_ASSIGN_OR_RETURN(Tensor value, TakeTensorFromProto(feed.mutable_tensor()));
      feeds.emplace_back(std::move(*feed.mutable_name()), std::move(value));
    }
    const std::vector<std::string> fetches(request.fetch().begin(), request.fetch().end());
    const std::vector<std::string> targets(request.target().begin(), request.target().end());
    std::vector<Tensor> outputs;
    tensorflow::RunStepResponse response;
    if (!request.partial_run_handle().empty()) {
      MR_RETURN_IF_ERROR(
          session->Explain(session->session().PRun(request.partial_run_handle(), feeds, fetches, &outputs)));
    } else {
      RunMetadata metadata;
      MR_RETURN_IF_ERROR(session->Explain(
          session->session().Run(options, feeds, fetches, targets, &outputs, &metadata, &cancellation)));
      metadata.ToProto(response.mutable_metadata());
    }
    for (size_t i = 0; i < fetches.size() && i < outputs.size(); ++i) {
      tensorflow::NamedTensorProto* const tensor = response.add_tensor();
      tensor->set_name(fetches[i]);
      TensorToProtoContent(outputs[i], tensor->mutable_tensor());
    }
    return Answer(response);
  };
  Response response = run();
  if (response.ok() || !request.store_errors_in_response_body()) return response;
  // Trailers of a call are limited to a few kilobytes.
  tensorflow::RunStepResponse failed;
  failed.set_status_code(static_cast<tensorflow::error::Code>(response.status().code()));
  failed.set_status_error_message(response.status().message());
  return Answer(failed);
}

Master::Response Master::CloseSessionCall(const MessageBytes& bytes) {
  tensorflow::CloseSessionRequest request;
  MR_RETURN_IF_ERROR(ParseRequest(Method::kCloseSession, bytes, &request));
  MR_RETURN_IF_ERROR(CloseSession(request.session_handle()));
  return Answer(tensorflow::CloseSessionResponse());
}

Master::Response Master::ListDevices(const MessageBytes& bytes, CancellationManager& cancellation) {
  tensorflow::ListDevicesRequest request;
  MR_RETURN_IF_ERROR(ParseRequest(Method::kListDevices, bytes, &request));
  tensorflow::ListDevicesResponse response;
  const auto add = [&](const DeviceAttributes& attributes) {
    const bool here = env_.devices->devices().Find(attributes.name) != nullptr;
    AttributesToProto(attributes, here ? response.add_local_device() : response.add_remote_device());
  };
  if (!request.session_handle().empty()) {
    MR_ASSIGN_OR_RETURN(const SessionPtr session, Find(request.session_handle()));
    MR_ASSIGN_OR_RETURN(const auto devices, session->session().ListDevices());
    for (const DeviceInfo& d : devices) add({d.name, d.type, d.memory_limit, d.incarnation, ""});
    return Answer(response);
  }
  for (const auto& device : env_.devices->devices().devices()) add(device->attributes());
  MR_ASSIGN_OR_RETURN(std::vector<std::string> tasks, TasksOf(env_.cluster, {}));
  std::erase(tasks, env_.task);
  ClusterConnection connection;
  connection.transport = env_.transport;
  connection.timeout_in_ms = env_.session_creation_timeout_in_ms;
  connection.cancellation = &cancellation;
  MR_ASSIGN_OR_RETURN(const auto devices, FindDevices(connection, tasks));
  for (const auto& of_task : devices) {
    for (const DeviceAttributes& attributes : of_task) add(attributes);
  }
  return Answer(response);
}

Master::Response Master::ResetCall(const MessageBytes& bytes) {
  tensorflow::ResetRequest request;
  MR_RETURN_IF_ERROR(ParseRequest(Method::kReset, bytes, &request));
  MR_RETURN_IF_ERROR(Reset({request.container().begin(), request.container().end()},
                           {request.device_filters().begin(), request.device_filters().end()}));
  return Answer(tensorflow::ResetResponse());
}

Master::Response Master::MakeCallable(const MessageBytes& bytes) {
  tensorflow::MakeCallableRequest request;
  MR_RETURN_IF_ERROR(ParseRequest(Method::kMakeCallable, bytes, &request));
  MR_RETURN_IF_ERROR(recent_requests_.CheckNew(request.request_id(), "MakeCallable (Master)", request));
  MR_ASSIGN_OR_RETURN(const SessionPtr session, Find(request.session_handle()));
  const ScopedStep step(*session);
  MR_RETURN_IF_ERROR(step.status());
  MR_ASSIGN_OR_RETURN(const CallableOptions options, CallableOptions::FromProto(request.options()));
  tensorflow::MakeCallableResponse response;
  MR_ASSIGN_OR_RETURN(const Session::CallableHandle handle, session->session().MakeCallable(options));
  response.set_handle(handle);
  return Answer(response);
}

Master::Response Master::RunCallable(const MessageBytes& bytes, CancellationManager& cancellation) {
  tensorflow::RunCallableRequest request;
  MR_RETURN_IF_ERROR(ParseRequest(Method::kRunCallable, bytes, &request));
  MR_RETURN_IF_ERROR(recent_requests_.CheckNew(request.request_id(), "RunCallable (Master)", request));
  MR_ASSIGN_OR_RETURN(const SessionPtr session, Find(request.session_handle()));
  const ScopedStep step(*session);
  MR_RETURN_IF_ERROR(step.status());
  std::vector<Tensor> feeds;
  for (tensorflow::TensorProto& feed : *request.mutable_feed()) {
    MR_ASSIGN_OR_RETURN(Tensor value, TakeTensorFromProto(&feed));
    feeds.push_back(std::move(value));
  }
  std::vector<Tensor> outputs;
  RunMetadata metadata;
  MR_RETURN_IF_ERROR(session->Explain(
      session->session().RunCallable(request.handle(), feeds, &outputs, &metadata, &cancellation)));
  tensorflow::RunCallableResponse response;
  for (const Tensor& output : outputs) TensorToProtoContent(output, response.add_fetch());
  metadata.ToProto(response.mutable_metadata());
  return Answer(response);
}

Master::Response Master::ReleaseCallable(const MessageBytes& bytes) {
  tensorflow::ReleaseCallableRequest request;
  MR_RETURN_IF_ERROR(ParseRequest(Method::kReleaseCallable, bytes, &request));
  MR_ASSIGN_OR_RETURN(const SessionPtr session, Find(request.session_handle()));
  MR_RETURN_IF_ERROR(session->session().ReleaseCallable(request.handle()));
  return Answer(tensorflow::ReleaseCallableResponse());
}

}  // namespace millrace
