// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "distributed/worker_service.h"
#include "step/deadline.h"

namespace tensorflow {
class RunGraphRequest;
}  // namespace tensorflow

namespace millrace {

inline Status NoGraph(const std::string& handle) {
  return errors::Aborted("Graph handle is not found: ", handle, ". Possibly, this worker just restarted.");
}

inline int64_t UnixMicros() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::microseconds>(system_clock::now().time_since_epoch())
      .count();
}

// One call of RunGraph, until its reply. A callback of the caller's cancellation holds a reference to it.
struct WorkerService::GraphRun {
  std::unique_ptr<tensorflow::RunGraphRequest> request;
  SessionPtr session;                             // outlives the partition
  std::shared_ptr<InstalledPartition> partition;  // stays if it is deregistered during the run
  CancellationManager* caller = nullptr;          // lives until the reply
  CancellationManager::Token token = CancellationManager::kInvalidToken;
  CancellationManager cancellation;
  std::optional<ScopedDeadline> deadline;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  const int64_t received_us = UnixMicros();
  // Why the task ended the run, unless another cancellation came first; guarded by the service's mutex.
  Status why_ended;
  bool logged = false;  // its times are recorded for Tracing, regardless of the request
  RunMetadata metadata;
  Reply reply;
};

}  // namespace millrace
