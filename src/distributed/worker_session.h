// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "distributed/remote_worker.h"
#include "distributed/session_cluster.h"
#include "step/local_worker.h"
#include "step/step_compiler.h"

namespace millrace {

// The state of a task for one session of a master: a worker, which owns the kernels of the session's stateful
// ops, and the registered graphs. Runs hold references to it. Thread-safe.
class WorkerSession {
 public:
  // Uses a worker that outlives the session; that worker compiles functions itself.
  explicit WorkerSession(LocalWorker& worker) : worker_(worker) {}
  // Creates a worker. Functions that it calls may use the devices of `peers`. `cluster`: its own, if
  // different from that of the task.
  WorkerSession(std::unique_ptr<LocalWorker> worker, std::vector<std::unique_ptr<RemoteWorker>> peers,
                const CompileOptions& compiler, std::unique_ptr<SessionCluster> cluster = nullptr);
  ~WorkerSession();
  WorkerSession(const WorkerSession&) = delete;
  WorkerSession& operator=(const WorkerSession&) = delete;

  LocalWorker& worker() { return worker_; }
  bool has_own_cluster() const { return cluster_ != nullptr; }
  void AddGraph(std::string handle, std::shared_ptr<InstalledPartition> graph) MR_EXCLUDES(mu_);
  // Null when there is none.
  std::shared_ptr<InstalledPartition> FindGraph(const std::string& handle) const MR_EXCLUDES(mu_);
  std::shared_ptr<InstalledPartition> RemoveGraph(const std::string& handle) MR_EXCLUDES(mu_);
  size_t num_graphs() const MR_EXCLUDES(mu_);

 private:
  const std::unique_ptr<SessionCluster> cluster_;  // outlives the rest
  std::unique_ptr<LocalWorker> owned_;
  LocalWorker& worker_;
  const std::vector<std::unique_ptr<RemoteWorker>> peers_;
  std::unique_ptr<StepCompiler> compiler_;  // of functions
  mutable Mutex mu_;
  std::map<std::string, std::shared_ptr<InstalledPartition>> graphs_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace
