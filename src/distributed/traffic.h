// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "distributed/transport.h"

namespace millrace {

// Counts data that a task has sent to others and received from them: messages of all calls, of clients too,
// and tensors outside of messages. Also failed clean-up calls to other tasks. Thread-safe; relaxed, since
// nothing else depends on the numbers.
class Traffic {
 public:
  void AddSent(int64_t bytes) { sent_.fetch_add(bytes, std::memory_order_relaxed); }
  void AddReceived(int64_t bytes) { received_.fetch_add(bytes, std::memory_order_relaxed); }
  // Counts the failure, and logs some of them.
  void AddFailedCleanup(Method method, const std::string& task, const Status& status);
  int64_t sent() const { return sent_.load(std::memory_order_relaxed); }
  int64_t received() const { return received_.load(std::memory_order_relaxed); }
  int64_t failed_cleanups() const { return failed_cleanups_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> sent_{0};
  std::atomic<int64_t> received_{0};
  std::atomic<int64_t> failed_cleanups_{0};
  std::atomic<int64_t> logged_at_s_{0};
};

// Forwards the calls of a task and counts the bytes of their messages, and clean-up calls (DeregisterGraph,
// CleanupGraph, DeleteWorkerSession) that fail. Thread-safe.
class MeteredTransport : public Transport {
 public:
  // REQUIRES: both outlive all calls.
  MeteredTransport(Transport& inner, Traffic& traffic) : inner_(inner), traffic_(traffic) {}
  void Start(RemoteCall call, Reply reply) override;

 private:
  Transport& inner_;
  Traffic& traffic_;
};

}  // namespace millrace
