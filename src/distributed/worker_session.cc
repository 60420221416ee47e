// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/worker_session.h"

#include <utility>

namespace millrace {

WorkerSession::WorkerSession(std::unique_ptr<LocalWorker> worker,
                             std::vector<std::unique_ptr<RemoteWorker>> peers, const CompileOptions& compiler,
                             std::unique_ptr<SessionCluster> cluster)
    : cluster_(std::move(cluster)), owned_(std::move(worker)), worker_(*owned_), peers_(std::move(peers)) {
  std::vector<Worker*> workers{&worker_};
  for (const auto& peer : peers_) workers.push_back(peer.get());
  compiler_ = std::make_unique<StepCompiler>(std::move(workers), compiler);
  worker_.functions().SetCompiler(compiler_.get());
}

WorkerSession::~WorkerSession() {
  decltype(graphs_) graphs;
  {
    MutexLock lock(mu_);
    graphs.swap(graphs_);
  }
  graphs.clear();
  // Functions have partitions at the peers, and iterators separate threads.
  if (owned_ != nullptr) worker_.DropFunctions();
}

void WorkerSession::AddGraph(std::string handle, std::shared_ptr<InstalledPartition> graph) {
  MutexLock lock(mu_);
  graphs_[std::move(handle)] = std::move(graph);
}

std::shared_ptr<InstalledPartition> WorkerSession::FindGraph(const std::string& handle) const {
  MutexLock lock(mu_);
  const auto it = graphs_.find(handle);
  return it == graphs_.end() ? nullptr : it->second;
}

std::shared_ptr<InstalledPartition> WorkerSession::RemoveGraph(const std::string& handle) {
  MutexLock lock(mu_);
  const auto it = graphs_.find(handle);
  if (it == graphs_.end()) return nullptr;
  std::shared_ptr<InstalledPartition> graph = std::move(it->second);
  graphs_.erase(it);
  return graph;
}

size_t WorkerSession::num_graphs() const {
  MutexLock lock(mu_);
  return graphs_.size();
}

}  // namespace millrace
