// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/in_process_cluster.h"

#include <map>
#include <utility>

#include "base/strings.h"
#include "device/device.h"
#include "distributed/collective_messages.h"
#include "distributed/in_process_transport.h"
#include "session/session_factory.h"
#include "session/session_options.h"

namespace millrace {
namespace {

constexpr int64_t kConnectTimeoutMs = 60'000;
constexpr int kThreadsPerTask = 3;
constexpr const char* kAnyPort = "127.0.0.1:0";

}  // namespace

StatusOr<std::unique_ptr<OtherTasks>> InProcessCluster::Make(const Options& options,
                                                             const SessionOptions& session,
                                                             const CompileOptions& compiler,
                                                             LocalWorker& own) {
  std::unique_ptr<InProcessCluster> cluster(new InProcessCluster);
  cluster->AddTask(nullptr, &own);
  DeviceName name = own.devices().client_device()->parsed_name();
  for (int i = 1; i < options.num_tasks; ++i) {
    name.task = i;
    const DeviceName prefix{name.job, name.replica, name.task, {}, {}};
    MR_ASSIGN_OR_RETURN(DeviceOptions devices, DeviceOptionsOf(session));
    devices.name_prefix = prefix.ToString();
    MR_ASSIGN_OR_RETURN(auto made, DeviceFactoryRegistry::Global().CreateDevices(devices));
    auto worker = std::make_unique<LocalWorker>(std::make_shared<LocalDevices>(std::move(made)));
    LocalWorker* const borrowed = worker.get();
    cluster->AddTask(std::move(worker), borrowed);
  }
  MR_RETURN_IF_ERROR(cluster->OpenTransport(options));
  for (const auto& task : cluster->tasks_) MR_RETURN_IF_ERROR(cluster->Connect(*task, compiler));
  return std::unique_ptr<OtherTasks>(std::move(cluster));
}

MakeOtherTasks InProcessCluster::Maker(const Options& options) {
  return [options](const SessionOptions& session, const CompileOptions& compiler, LocalWorker& own) {
    return Make(options, session, compiler, own);
  };
}

void InProcessCluster::AddTask(std::unique_ptr<LocalWorker> owned, LocalWorker* worker) {
  auto task = std::make_unique<Task>();
  task->owned = std::move(owned);
  task->worker = worker;
  // As the pools of sessions with that number of threads.
  task->pool = GetThreadPool(kThreadsPerTask, false);
  task->service = std::make_unique<WorkerService>(*worker, *task->pool);
  tasks_.push_back(std::move(task));
}

Status InProcessCluster::OpenTransport(const Options& options) {
  if (options.protocol.empty()) {
    auto transport = std::make_shared<InProcessTransport>(
        InProcessTransportOptions{.seed = options.seed, .max_delay_us = options.max_delay_us});
    for (const auto& task : tasks_) transport->AddTask(task->worker->task(), *task->service);
    network_ = std::move(transport);
  } else {
    MR_ASSIGN_OR_RETURN(const Protocol protocol, FindProtocol(options.protocol));
    std::map<std::string, std::string> addresses;
    for (const auto& task : tasks_) {
      MR_ASSIGN_OR_RETURN(task->listener, protocol.listen(kAnyPort, {}));
      addresses[task->worker->task()] = StrCat("localhost:", task->listener->port());
      task->listener->Start([to = task.get()](Method method, MessageBytes request, int64_t timeout_in_ms,
                                              CancellationManager& cancellation, Reply reply) {
        const auto answer = std::make_shared<Reply>(std::move(reply));
        UniqueFunction<void()> handle = [to, method, bytes = std::move(request), timeout_in_ms, &cancellation,
                                         answer] {
          to->service->Handle(method, bytes, timeout_in_ms, cancellation, std::move(*answer));
        };
        if (!WorkerService::MayWait(method)) return handle();
        if (!to->threads.TrySchedule(handle)) (*answer)(NoThreadFor(method), {});
      });
    }
    // On a busy machine a task of this process must not be given up.
    MR_ASSIGN_OR_RETURN(network_,
                        protocol.connect(addresses, {.patience_in_ms = kConnectTimeoutMs, .security = {}}));
  }
  transport_ = std::make_unique<CountedTransport>(*network_);
  return Status();
}

Status InProcessCluster::Connect(Task& task, const CompileOptions& compiler) {
  task.worker->steps().collectives().SetPeers(std::make_shared<TransportCollectivePeers>(*transport_));
  std::vector<Worker*> workers{task.worker};
  std::vector<Worker*> peers;
  for (const auto& other : tasks_) {
    if (other.get() == &task) continue;
    MR_ASSIGN_OR_RETURN(std::unique_ptr<RemoteWorker> peer,
                        RemoteWorker::Connect(other->worker->task(), *transport_, kConnectTimeoutMs));
    peers.push_back(peer.get());
    workers.push_back(peer.get());
    task.peers.push_back(std::move(peer));
  }
  if (task.owned == nullptr) return Status();
  task.worker->SetPeers(std::move(peers));
  task.compiler = std::make_unique<StepCompiler>(std::move(workers), compiler);
  task.worker->functions().SetCompiler(task.compiler.get());
  return Status();
}

// Functions have partitions on other tasks.
InProcessCluster::~InProcessCluster() {
  // Iterators have separate threads, which call functions.
  for (const auto& task : tasks_) {
    task->worker->ClearContainers({},
                                  [](const Status& s) { s.IgnoreError("dropping resources cannot fail"); });
  }
  for (const auto& task : tasks_) task->worker->functions().DropInstances();
  if (transport_ != nullptr) transport_->Drain();
  for (const auto& task : tasks_) {
    if (task->listener != nullptr) task->listener->Stop(0);
  }
}

std::vector<Worker*> InProcessCluster::workers() const {
  std::vector<Worker*> all;
  for (const auto& peer : tasks_.front()->peers) all.push_back(peer.get());
  return all;
}

}  // namespace millrace
