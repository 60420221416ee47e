// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/task.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "base/logging.h"
#include "distributed/call_transport.h"
#include "distributed/cluster_tasks.h"
#include "distributed/collective_messages.h"
#include "distributed/local_session.h"
#include "distributed/message_channel.h"
#include "distributed/remote_worker.h"
#include "distributed/shared_memory_channel.h"
#include "distributed/socket_channel.h"
#include "millrace/json_writer.h"
#include "session/session_factory.h"
#include "session/session_options.h"

namespace millrace {
namespace {

// A session's own connection, whose traffic is counted for the task.
class MeteredConnection : public Transport {
 public:
  MeteredConnection(std::shared_ptr<Transport> inner, Traffic& traffic)
      : inner_(std::move(inner)), metered_(*inner_, traffic) {}
  void Start(RemoteCall call, Reply reply) override { metered_.Start(std::move(call), std::move(reply)); }

 private:
  const std::shared_ptr<Transport> inner_;
  MeteredTransport metered_;
};

// The patience with a silent task if no other is set.
constexpr int64_t kDefaultPatienceMs = 5000;
constexpr int64_t kLargestChunk = int64_t{1} << 30;  // a message has at most twice that
constexpr int64_t kMostSharedMemory = int64_t{1} << 46;
constexpr int kLargestPort = 65535;
constexpr size_t kMostRunsToShow = 20;  // of the runs in progress, the oldest ones

Status CheckTransfers(const TensorTransfers& transfers) {
  if (transfers.chunk_bytes < 1 || transfers.chunk_bytes > kLargestChunk || transfers.max_message_bytes < 0) {
    return errors::InvalidArgument("Invalid limits of transfers: messages of ", transfers.max_message_bytes,
                                   " bytes and chunks of ", transfers.chunk_bytes, " bytes");
  }
  if (transfers.shared_memory_bytes < 0 || transfers.shared_memory_bytes > kMostSharedMemory ||
      transfers.min_shared_memory_bytes < 0) {
    return errors::InvalidArgument("Invalid limits of transfers: ", transfers.shared_memory_bytes,
                                   " bytes of shared memory for tensors of ",
                                   transfers.min_shared_memory_bytes, " bytes");
  }
  if (transfers.min_socket_bytes < 0 || transfers.socket_port < 0 || transfers.socket_port > kLargestPort) {
    return errors::InvalidArgument("Invalid limits of transfers: port ", transfers.socket_port,
                                   " for tensors of ", transfers.min_socket_bytes, " bytes");
  }
  return Status();
}

// Whether tasks connect with sockets in addition to the transport.
bool UseSockets(const ServerOptions& options, const Task::Network& network) {
  return options.transfers.sockets && !network.encrypted && !network.addresses.empty();
}

std::chrono::milliseconds PatienceOf(const ServerOptions& options) {
  return std::chrono::milliseconds(options.peer_timeout_in_ms > 0 ? options.peer_timeout_in_ms
                                                                  : kDefaultPatienceMs);
}

// `calls` accepts connections for calls; `sockets` is set if sockets are used.
std::unique_ptr<TensorChannels> MakeChannels(const ServerOptions& options, Transport& transport,
                                             const Task::Network& network, Traffic& traffic,
                                             CallServer& calls, SocketChannel** sockets) {
  const TensorTransfers& transfers = options.transfers;
  std::shared_ptr<HeldTensors> held = HeldTensors::Make();
  auto messages = std::make_unique<MessageChannel>(
      transport, MessageChannel::Options{transfers.max_message_bytes + 1, transfers.chunk_bytes});
  std::vector<std::unique_ptr<TensorChannel>> channels;
  if (transfers.shared_memory_bytes > 0) {
    SharedMemoryChannel::Options memory;
    memory.min_bytes = transfers.min_shared_memory_bytes;
    memory.max_bytes = transfers.shared_memory_bytes;
    memory.patience_in_ms = PatienceOf(options).count();
    channels.push_back(std::make_unique<SharedMemoryChannel>(held, *messages, memory));
  }
  if (UseSockets(options, network)) {
    auto made = std::make_unique<SocketChannel>(
        held, *messages,
        SocketChannel::Options{.min_bytes = transfers.min_socket_bytes,
                               .listen = network.listen,
                               .port = transfers.socket_port,
                               .patience = PatienceOf(options),
                               .peers = network.addresses,
                               .take_calls = [&calls](FileDescriptor fd) { calls.Add(std::move(fd)); }});
    *sockets = made.get();
    channels.push_back(std::move(made));
  }
  channels.push_back(std::move(messages));
  return std::make_unique<TensorChannels>(std::move(held), std::move(channels), &traffic);
}

}  // namespace

StatusOr<std::shared_ptr<Task>> Task::Make(const ServerOptions& options, std::shared_ptr<Transport> transport,
                                           const Network& below) {
  MR_ASSIGN_OR_RETURN(const DeniedOps denied, DeniedOps::Parse(options.denied_ops));
  MR_RETURN_IF_ERROR(CheckTransfers(options.transfers));
  MR_RETURN_IF_ERROR(CheckThreads(options.session));
  std::shared_ptr<Task> task(new Task);
  task->name_ = TaskName(options.job, options.task);
  task->cluster_ = options.cluster;
  task->network_ = std::move(transport);
  if (UseSockets(options, below)) {
    task->network_ = std::make_shared<CallTransport>(
        std::move(task->network_),
        CallTransport::Options{.peers = below.addresses, .patience = PatienceOf(options)});
  }
  task->transport_ = std::make_unique<MeteredTransport>(*task->network_, task->traffic_);
  const int cores = std::max(2, static_cast<int>(std::thread::hardware_concurrency()));
  const int wanted = options.session.inter_op_parallelism_threads;
  task->pool_ = GetThreadPool(wanted > 1 ? wanted : cores, false);
  MR_ASSIGN_OR_RETURN(DeviceOptions devices, DeviceOptionsOf(options.session));
  devices.name_prefix = task->name_;
  devices.filters.clear();  // sessions have filters, tasks do not
  MR_ASSIGN_OR_RETURN(auto made, DeviceFactoryRegistry::Global().CreateDevices(devices));
  task->devices_ = std::make_shared<LocalDevices>(std::move(made));
  Transport& network = *task->transport_;
  task->calls_ = std::make_unique<CallServer>(
      [of = task.get()](Method method, MessageBytes request, int64_t timeout_in_ms,
                        CancellationManager& cancellation, Reply reply) {
        of->Handle(method, std::move(request), timeout_in_ms, cancellation, std::move(reply));
      },
      PatienceOf(options));
  task->channels_ = MakeChannels(options, network, below, task->traffic_, *task->calls_, &task->sockets_);
  task->steps_ = std::make_shared<TaskSteps>(
      task->name_, [&network, channels = task->channels_.get()](
                       std::string_view from, int64_t step_id, const Rendezvous::Key& key,
                       CancellationManager& cancellation, Rendezvous::RecvDone done) {
        RecvTensorFrom(network, channels, from, step_id, key, &cancellation, std::move(done));
      });
  task->steps_->collectives().SetPeers(std::make_shared<TransportCollectivePeers>(network));
  MR_ASSIGN_OR_RETURN(std::string leader, CollectiveLeaderOf(options.session));
  task->steps_->collectives().set_default_leader(std::move(leader));
  ConnectToTasks connect;
  if (below.connect) {
    connect =
        [of = below.connect, &traffic = task->traffic_, &ends = task->ends_](
            const std::map<std::string, std::string>& addresses) -> StatusOr<std::shared_ptr<Transport>> {
      MR_ASSIGN_OR_RETURN(std::shared_ptr<Transport> inner, of(addresses));
      // The reply to a call may be the last user, and the connection would wait for that call's end.
      return std::shared_ptr<Transport>(
          new MeteredConnection(std::move(inner), traffic), [&ends](Transport* gone) {
            UniqueFunction<void()> end = [gone] { delete gone; };
            if (!ends.TrySchedule(end))
              MR_LOG(Error) << "Could not start a thread to close a connection, which stays open";
          });
    };
  }
  WorkerService::Environment worker;
  worker.devices = task->devices_;
  worker.steps = task->steps_;
  worker.pool = task->pool_.get();
  worker.transport = &network;
  worker.cluster = options.cluster;
  worker.connect = connect;
  worker.channels = task->channels_.get();
  worker.denied = denied;
  task->worker_ = std::make_unique<WorkerService>(std::move(worker));
  Master::Environment master;
  master.denied = denied;
  master.cluster = options.cluster;
  master.task = task->name_;
  master.devices = task->devices_;
  master.steps = task->steps_;
  master.transport = &network;
  master.connect = std::move(connect);
  master.session = options.session;
  master.session_creation_timeout_in_ms = options.session_creation_timeout_in_ms;
  master.session_close_timeout_in_ms = options.session_close_timeout_in_ms;
  master.session_gc_in_ms = options.session_gc_in_ms;
  task->master_ = std::make_unique<Master>(std::move(master));
  task->watch_ = std::make_unique<MasterWatch>(*task->worker_, network, options.peer_timeout_in_ms);
  return task;
}

Task::~Task() {
  if (watch_ == nullptr) return;  // it could not be created
  Stop();
  StopCalls(0);
  channels_->Stop();
  watch_.reset();
  worker_->DropSessions();
}

void Task::Handle(Method method, MessageBytes request, int64_t timeout_in_ms,
                  CancellationManager& cancellation, Reply answer) {
  traffic_.AddReceived(static_cast<int64_t>(request.size()));
  Reply reply = [this, finish = std::move(answer)](Status status, MessageBytes response) mutable {
    traffic_.AddSent(static_cast<int64_t>(response.size()));
    finish(std::move(status), std::move(response));
  };
  const ServiceKind kind = method == Method::kRecvChunk ? ServiceKind::kWorker : ServiceOf(method);
  if (kind == ServiceKind::kWorker && !WorkerService::MayWait(method))
    return worker_->Handle(method, request, timeout_in_ms, cancellation, std::move(reply));
  const auto kept = std::make_shared<Reply>(std::move(reply));
  UniqueFunction<void()> work = [this, kind, method, bytes = std::move(request), timeout_in_ms, &cancellation,
                                 kept] {
    Reply finish = std::move(*kept);
    switch (kind) {
      case ServiceKind::kWorker:
        return worker_->Handle(method, bytes, timeout_in_ms, cancellation, std::move(finish));
      case ServiceKind::kMaster:
        return master_->Handle(method, bytes, timeout_in_ms, cancellation, std::move(finish));
      case ServiceKind::kTask:
        if (method == Method::kOpenCalls) return OpenCalls(std::move(finish));
        if (method != Method::kDescribe) return finish(errors::Unimplemented(MethodName(method)), {});
        if (bytes.ToString() == kSessionsQuestion) return finish(Status(), MessageBytes(master_->Handles()));
        // The request is for the whole cluster, or for this task.
        finish(Status(), MessageBytes(bytes.ToString() == "cluster"
                                          ? DescribeAll(timeout_in_ms > 0 ? timeout_in_ms / 2 : 2000)
                                          : Describe()));
    }
  };
  if (!threads_.TrySchedule(work)) (*kept)(NoThreadFor(method), {});
}

void Task::OpenCalls(Reply reply) {
  if (sockets_ == nullptr)
    return reply(errors::Unimplemented("Task ", name_, " has no sockets for calls"), {});
  const StatusOr<SocketAddress> address = sockets_->AddressForCalls();
  if (!address.ok()) return reply(errors::Unimplemented(address.status().message()), {});
  reply(Status(), MessageBytes(address->ToString()));
}

StatusOr<std::unique_ptr<Session>> Task::NewSession(const SessionOptions& options) {
  MR_ASSIGN_OR_RETURN(Master::SessionPtr session, master_->Open(options, nullptr));
  return MakeLocalSession(shared_from_this(), std::move(session));
}

void Task::Stop() {
  worker_->Stop();
  master_->Stop();
}

void Task::StopCalls(int64_t grace_in_ms) { calls_->Stop(grace_in_ms); }

int64_t Task::num_running() const {
  return master_->num_running() + static_cast<int64_t>(worker_->GetState().runs.size());
}

std::string Task::Describe() const {
  using std::chrono::milliseconds;
  const auto up = std::chrono::steady_clock::now() - start_;
  const WorkerService::State state = worker_->GetState();
  std::vector<WorkerService::State::Run> oldest_runs = state.runs;
  std::sort(oldest_runs.begin(), oldest_runs.end(),
            [](const auto& a, const auto& b) { return a.running_ms > b.running_ms; });
  const int64_t oldest = oldest_runs.empty() ? 0 : oldest_runs.front().running_ms;
  oldest_runs.resize(std::min(oldest_runs.size(), kMostRunsToShow));
  JsonWriter json;
  json.BeginObject().Field("task", name_).Key("devices").BeginArray();
  for (const auto& device : devices_->devices().devices()) {
    const DeviceAttributes& a = device->attributes();
    json.BeginObject().Field("name", a.name).Field("type", a.type).Field("memory_limit", a.memory_limit);
    // As text: JavaScript's numbers have 53 bits.
    json.Field("incarnation", StrCat(a.incarnation)).EndObject();
  }
  json.EndArray();
  json.Field("uptime_ms", std::chrono::duration_cast<milliseconds>(up).count());
  json.Field("sessions", master_->num_sessions()).Field("session_steps", master_->num_running());
  json.Field("oldest_session_step_ms", master_->oldest_step_ms());
  json.Field("worker_sessions", state.sessions).Field("graphs", state.graphs);
  json.Field("steps", state.steps).Field("graph_runs", state.runs.size());
  json.Field("oldest_run_ms", oldest).Key("runs").BeginArray();
  for (const auto& run : oldest_runs) {
    json.BeginObject().Field("step", StrCat(run.step_id)).Field("session", run.session);
    json.Field("running_ms", run.running_ms).EndObject();
  }
  json.EndArray().Field("tensor_bytes", CpuAllocator().Stats().bytes_in_use);
  json.Field("failed_cleanups", traffic_.failed_cleanups()).Field("bytes_sent", traffic_.sent());
  json.Field("bytes_received", traffic_.received()).EndObject();
  return std::move(json).text();
}

std::string Task::DescribeAll(int64_t timeout_in_ms) {
  const StatusOr<std::vector<std::string>> tasks = TasksOf(cluster_, {});
  if (!tasks.ok()) return Describe();
  std::vector<std::string> texts(tasks->size());
  {
    CountedTransport transport(*transport_);  // waits for all calls
    for (size_t i = 0; i < tasks->size(); ++i) {
      const std::string& other = (*tasks)[i];
      if (other == name_) {
        texts[i] = Describe();
        continue;
      }
      RemoteCall call{other, Method::kDescribe};
      call.timeout_in_ms = timeout_in_ms;
      transport.Start(std::move(call), [&, i](const Status& status, const MessageBytes& bytes) {
        if (status.ok()) {
          texts[i] = bytes.ToString();
          return;
        }
        JsonWriter json;
        json.BeginObject().Field("task", (*tasks)[i]).Field("error", status.ToString()).EndObject();
        texts[i] = std::move(json).text();
      });
    }
  }
  std::string all = "{\"tasks\":[";
  for (size_t i = 0; i < texts.size(); ++i) all += (i == 0 ? "" : ",") + texts[i];
  return all + "]}";
}

LocalTasks& LocalTasks::Get() {
  static auto* const tasks = new LocalTasks;
  return *tasks;
}

void LocalTasks::Add(const std::string& target, const std::shared_ptr<Task>& task) {
  MutexLock lock(mu_);
  tasks_[target] = task;
}

void LocalTasks::Remove(const std::string& target) {
  MutexLock lock(mu_);
  tasks_.erase(target);
}

std::shared_ptr<Task> LocalTasks::Find(const std::string& target) {
  MutexLock lock(mu_);
  const auto it = tasks_.find(target);
  return it == tasks_.end() ? nullptr : it->second.lock();
}

}  // namespace millrace
