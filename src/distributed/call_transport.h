// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/cancellation.h"
#include "base/mutex.h"
#include "base/waiting_threads.h"
#include "distributed/call_loop.h"
#include "distributed/transport.h"
#include "millrace/ref.h"

namespace millrace {

// Makes the calls of a step (RunGraph, RecvTensor, CleanupGraph) through TCP connections of its own if the
// other task has a CallServer: such a call takes a third of the time of one of gRPC. All other calls, calls
// to other tasks, large requests, and calls without a connection use the transport below. The first call to a
// task also asks for its port and a token, through the transport below. Thread-safe.
class CallTransport : public Transport {
 public:
  struct Options {
    std::map<std::string, std::string> peers = {};  // "host:port", by task; the port itself is not used
    std::chrono::milliseconds patience{5000};       // how long a peer may be silent
    // The time until a task without a CallServer, or with an unreachable one, is asked again.
    std::chrono::milliseconds retry_after{30'000};
  };
  CallTransport(std::shared_ptr<Transport> below, const Options& options);
  // Ends all calls, and waits for their ends.
  ~CallTransport() override;
  void Start(RemoteCall call, Reply reply) override MR_EXCLUDES(mu_);
  size_t num_connections() const MR_EXCLUDES(mu_);

 private:
  class Connection;
  using Clock = std::chrono::steady_clock;
  struct Peer {
    RefPtr<Connection> connection;
    bool opening = false;
    Clock::time_point retry_at = {};
  };
  // A connection for calls. Null: there is none; one may be under way.
  RefPtr<Connection> Find(const std::string& task) MR_EXCLUDES(mu_);
  void Ask(const std::string& task) MR_EXCLUDES(mu_);
  void Connect(const std::string& task, const std::string& address) MR_EXCLUDES(mu_);
  StatusOr<RefPtr<Connection>> TryConnect(const std::string& task, const std::string& address);
  void Opened(const std::string& task, StatusOr<RefPtr<Connection>> made) MR_EXCLUDES(mu_);

  const std::shared_ptr<Transport> below_;
  const Options options_;
  CancellationManager cancellation_;  // of requests for ports
  mutable Mutex mu_;
  CondVar opened_;
  std::shared_ptr<CallLoop> loop_ MR_GUARDED_BY(mu_);
  bool stopped_ MR_GUARDED_BY(mu_) = false;
  int opening_ MR_GUARDED_BY(mu_) = 0;
  std::map<std::string, Peer> peers_ MR_GUARDED_BY(mu_);
  std::vector<RefPtr<Connection>> old_ MR_GUARDED_BY(mu_);  // that have ended, maybe with pending replies
  std::unique_ptr<WaitingThreads> threads_ = std::make_unique<WaitingThreads>();
};

}  // namespace millrace
