// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/waiting_threads.h"
#include "distributed/counted_transport.h"
#include "distributed/protocol.h"
#include "distributed/remote_worker.h"
#include "distributed/worker_service.h"
#include "session/other_tasks.h"

namespace millrace {

struct InProcessClusterOptions {
  int num_tasks = 3;  // including the session's own, which is task 0
  // A registered protocol, such as "grpc", for messages over loopback. Empty: they stay in the process.
  std::string protocol = {};
  uint64_t seed = 1;  // of random delays within the process
  int64_t max_delay_us = 300;
};

// Tasks of one process for a session, for tests: each with devices, a worker and functions of its own, and
// connected to all others by an InProcessTransport or a protocol. Thread-safe.
class InProcessCluster : public OtherTasks {
 public:
  using Options = InProcessClusterOptions;
  static StatusOr<std::unique_ptr<OtherTasks>> Make(const Options& options, const SessionOptions& session,
                                                    const CompileOptions& compiler, LocalWorker& own);
  static MakeOtherTasks Maker(const Options& options);
  ~InProcessCluster() override;

  // Of tasks 1, 2, …, as the session sees them.
  std::vector<Worker*> workers() const override;
  // Of task `i`; 0 is the session's own.
  WorkerService& service(int i) { return *tasks_[static_cast<size_t>(i)]->service; }

 private:
  struct Task {
    std::unique_ptr<LocalWorker> owned;  // null: owned by the session
    LocalWorker* worker = nullptr;
    std::shared_ptr<ThreadPool> pool;
    std::unique_ptr<WorkerService> service;
    std::vector<std::unique_ptr<RemoteWorker>> peers;
    std::unique_ptr<StepCompiler> compiler;  // of functions; null: the session's
    WaitingThreads threads;                  // for calls that may wait
    std::unique_ptr<Listener> listener;      // null: messages stay in the process
  };

  InProcessCluster() = default;
  void AddTask(std::unique_ptr<LocalWorker> owned, LocalWorker* worker);
  // Creates the transport of messages between the tasks.
  Status OpenTransport(const Options& options);
  Status Connect(Task& task, const CompileOptions& compiler);

  std::shared_ptr<Transport> network_;
  std::unique_ptr<CountedTransport> transport_;  // to wait for the ends of all calls
  std::vector<std::unique_ptr<Task>> tasks_;
};

}  // namespace millrace
