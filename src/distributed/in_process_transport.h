// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "distributed/transport.h"
#include "distributed/worker_service.h"

namespace millrace {

struct InProcessTransportOptions {
  uint64_t seed = 1;
  // Some messages are delayed by a random time up to this, so that they overtake each other.
  int64_t max_delay_us = 300;
};

// Carries messages between tasks of one process, as bytes, on threads that all such transports share. A test
// double of a network: only messages pass data from one task to another. Thread-safe.
class InProcessTransport : public Transport {
 public:
  explicit InProcessTransport(const InProcessTransportOptions& options) : options_(options) {}
  // Waits until every call has been answered.
  ~InProcessTransport() override { Drain(); }
  // REQUIRES: called before the first call; the service lives until Drain has returned.
  void AddTask(const std::string& task, WorkerService& service) { services_[task] = &service; }
  void Start(RemoteCall call, Reply reply) override;
  void Drain() MR_EXCLUDES(mu_);

 private:
  struct InFlight;
  void Deliver(UniqueFunction<void()> message);
  void Ended() MR_EXCLUDES(mu_);

  const InProcessTransportOptions options_;
  std::map<std::string, WorkerService*> services_;
  std::atomic<uint64_t> messages_{0};
  Mutex mu_;
  CondVar drained_;
  int64_t in_flight_ MR_GUARDED_BY(mu_) = 0;
};

}  // namespace millrace
