// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/cancellation.h"
#include "base/mutex.h"
#include "base/thread_pool.h"
#include "distributed/transport.h"
#include "step/local_worker.h"

namespace millrace {

// What other tasks may ask of a task of this process: TensorFlow's WorkerService, whatever carries the
// messages. Any bytes are answered, with an error when they make no sense. Thread-safe.
class WorkerService {
 public:
  // Nodes run on `pool`, which has a thread of its own at least. REQUIRES: both outlive the service.
  WorkerService(LocalWorker& worker, ThreadPool& pool) : worker_(worker), pool_(pool) {}

  // Answers one call; does not wait. `cancellation` belongs to the call and lives until the reply.
  void Handle(WorkerMethod method, const std::string& request, int64_t timeout_in_ms,
              CancellationManager& cancellation, WorkerReply reply);
  // Graphs that are registered.
  size_t num_graphs() const MR_EXCLUDES(mu_);
  LocalWorker& worker() { return worker_; }

 private:
  struct GraphRun;
  void GetStatus(WorkerReply reply);
  void RegisterGraph(const std::string& bytes, WorkerReply reply);
  void DeregisterGraph(const std::string& bytes, WorkerReply reply);
  void RunGraph(const std::string& bytes, int64_t timeout_in_ms, CancellationManager& cancellation,
                WorkerReply reply);
  void StartRun(std::shared_ptr<GraphRun> run);
  void FinishRun(GraphRun& run, const Status& status);
  void CleanupGraph(const std::string& bytes, WorkerReply reply);
  void CleanupAll(const std::string& bytes, WorkerReply reply);
  void RecvTensor(const std::string& bytes, WorkerReply reply);
  Status CheckIncarnation(const Rendezvous::Key::Parts& key) const;

  LocalWorker& worker_;
  ThreadPool& pool_;
  mutable Mutex mu_;
  uint64_t next_handle_ MR_GUARDED_BY(mu_) = 1;
  std::map<std::string, std::shared_ptr<InstalledPartition>> graphs_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace
