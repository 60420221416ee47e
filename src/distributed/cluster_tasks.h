// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "distributed/counted_transport.h"
#include "distributed/remote_worker.h"
#include "distributed/session_cluster.h"
#include "millrace/cluster.h"
#include "session/other_tasks.h"

namespace millrace {

// The tasks of a cluster that match `filters`, partial names of devices: all, if there are none.
StatusOr<std::vector<std::string>> TasksOf(const ClusterSpec& cluster,
                                           const std::vector<std::string>& filters);

// Connection of a session to the other tasks of its cluster.
struct ClusterConnection {
  Transport* transport = nullptr;  // outlives the session
  ClusterSpec cluster;
  std::string session;  // the session's handle at all tasks
  // How long to wait for tasks that don't answer; a line of the log names them every 10 seconds.
  int64_t timeout_in_ms = 0;
  CancellationManager* cancellation = nullptr;  // of connecting; null: not cancelled
  bool renamed = false;                         // tasks have other names here than in their own cluster
};

// The other tasks of a session's cluster. Thread-safe.
class ClusterTasks : public OtherTasks {
 public:
  // Asks all tasks that the options do not filter out for their devices and makes a worker session at each.
  // DeadlineExceeded, naming them, when some do not answer.
  static StatusOr<std::unique_ptr<OtherTasks>> Connect(const ClusterConnection& connection,
                                                       const SessionOptions& options, LocalWorker& own);
  // Deletes the worker sessions, and waits for all calls; the transport ends calls to tasks that have died.
  ~ClusterTasks() override;
  std::vector<Worker*> workers() const override;

 private:
  ClusterTasks(Transport& transport, std::string session)
      : transport_(transport), session_(std::move(session)) {}
  Status CreateWorkerSessions(const ClusterConnection& connection,
                              std::chrono::steady_clock::time_point deadline, const SessionOptions& options,
                              const LocalWorker& own);

  CountedTransport transport_;
  const std::string session_;
  std::vector<std::unique_ptr<RemoteWorker>> workers_;
};

// The devices of tasks, in their order. DeadlineExceeded, naming them, when some do not answer.
StatusOr<std::vector<std::vector<DeviceAttributes>>> FindDevices(const ClusterConnection& connection,
                                                                 const std::vector<std::string>& tasks);

}  // namespace millrace
