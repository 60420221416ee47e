// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <thread>

#include "base/mutex.h"
#include "distributed/counted_transport.h"
#include "distributed/worker_service.h"

namespace millrace {

// The request of Describe for the handles of a master's sessions.
inline constexpr std::string_view kSessionsQuestion = "sessions";

// Watches the masters of the sessions at a task, and drops the sessions of masters that have died or
// restarted, and those that their master no longer has, because the call to delete them was lost. Also makes
// collective operations check the tasks that should take their buffers. Owns a thread.
class MasterWatch {
 public:
  // `patience`: how long a master may be silent. REQUIRES: both outlive this.
  MasterWatch(WorkerService& worker, Transport& transport, int64_t patience_in_ms);
  ~MasterWatch();
  MasterWatch(const MasterWatch&) = delete;
  MasterWatch& operator=(const MasterWatch&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  struct Seen {
    Clock::time_point when;
    bool asked = false;                 // a request is in progress
    Clock::time_point compared = when;  // when the sessions were compared
  };
  void Loop() MR_EXCLUDES(mu_);
  void Ask(const WorkerService::MasterOf& master) MR_EXCLUDES(mu_);
  void CompareSessions(const WorkerService::MasterOf& master);
  void Answered(const WorkerService::MasterOf& master, const Status& status, const MessageBytes& bytes)
      MR_EXCLUDES(mu_);

  WorkerService& worker_;
  CountedTransport transport_;
  const std::chrono::milliseconds patience_;
  Mutex mu_;
  CondVar changed_;
  bool ending_ MR_GUARDED_BY(mu_) = false;
  std::map<WorkerService::MasterOf, Seen> seen_ MR_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace millrace
