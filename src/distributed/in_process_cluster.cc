// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/in_process_cluster.h"

#include <utility>

#include "device/device.h"
#include "distributed/collective_messages.h"
#include "session/session_factory.h"
#include "session/session_options.h"

namespace millrace {
namespace {

constexpr int64_t kConnectTimeoutMs = 60'000;
constexpr int kThreadsPerTask = 3;

}  // namespace

StatusOr<std::unique_ptr<OtherTasks>> InProcessCluster::Make(const Options& options,
                                                             const SessionOptions& session,
                                                             const CompileOptions& compiler,
                                                             LocalWorker& own) {
  std::unique_ptr<InProcessCluster> cluster(new InProcessCluster(options));
  MR_RETURN_IF_ERROR(cluster->AddTask(nullptr, &own));
  DeviceName name = own.devices().client_device()->parsed_name();
  for (int i = 1; i < options.num_tasks; ++i) {
    name.task = i;
    const DeviceName prefix{name.job, name.replica, name.task, {}, {}};
    MR_ASSIGN_OR_RETURN(DeviceOptions devices, DeviceOptionsOf(session));
    devices.name_prefix = prefix.ToString();
    MR_ASSIGN_OR_RETURN(auto made, DeviceFactoryRegistry::Global().CreateDevices(devices));
    auto worker = std::make_unique<LocalWorker>(std::make_shared<LocalDevices>(std::move(made)));
    LocalWorker* const borrowed = worker.get();
    MR_RETURN_IF_ERROR(cluster->AddTask(std::move(worker), borrowed));
  }
  for (const auto& task : cluster->tasks_) MR_RETURN_IF_ERROR(cluster->Connect(*task, compiler));
  return std::unique_ptr<OtherTasks>(std::move(cluster));
}

MakeOtherTasks InProcessCluster::Maker(const Options& options) {
  return [options](const SessionOptions& session, const CompileOptions& compiler, LocalWorker& own) {
    return Make(options, session, compiler, own);
  };
}

Status InProcessCluster::AddTask(std::unique_ptr<LocalWorker> owned, LocalWorker* worker) {
  auto task = std::make_unique<Task>();
  task->owned = std::move(owned);
  task->worker = worker;
  // As the pools of sessions with that many threads.
  task->pool = GetThreadPool(kThreadsPerTask, false);
  worker->steps().collectives().SetPeers(std::make_shared<TransportCollectivePeers>(transport_));
  task->service = std::make_unique<WorkerService>(*worker, *task->pool);
  transport_.AddTask(worker->task(), *task->service);
  tasks_.push_back(std::move(task));
  return Status();
}

Status InProcessCluster::Connect(Task& task, const CompileOptions& compiler) {
  std::vector<Worker*> workers{task.worker};
  std::vector<Worker*> peers;
  for (const auto& other : tasks_) {
    if (other.get() == &task) continue;
    MR_ASSIGN_OR_RETURN(std::unique_ptr<RemoteWorker> peer,
                        RemoteWorker::Connect(other->worker->task(), transport_, kConnectTimeoutMs));
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

// Functions have partitions at other tasks.
InProcessCluster::~InProcessCluster() {
  // Iterators have threads of their own, which call functions.
  for (const auto& task : tasks_) {
    task->worker->ClearContainers({},
                                  [](const Status& s) { s.IgnoreError("dropping resources cannot fail"); });
  }
  for (const auto& task : tasks_) task->worker->functions().DropInstances();
  transport_.Drain();
}

std::vector<Worker*> InProcessCluster::workers() const {
  std::vector<Worker*> all;
  for (const auto& peer : tasks_.front()->peers) all.push_back(peer.get());
  return all;
}

}  // namespace millrace
