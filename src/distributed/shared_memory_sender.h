// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "base/mutex.h"
#include "base/waiting_threads.h"
#include "distributed/held_tensors.h"
#include "distributed/unix_socket.h"

namespace millrace {

// The sending end of a SharedMemoryChannel: copies requested tensors into shared memory, which is
// reused when the receiver has released it. Memory belongs to one connection and is freed with it.
// Thread-safe.
class SharedMemorySender {
 public:
  struct Options {
    int64_t max_bytes = 0;  // of shared memory for each receiver
    uid_t user = 0;         // the only user that may connect
    int64_t patience_in_ms = 0;
  };
  // Runs on `threads`, whose destructor must run first.
  SharedMemorySender(std::shared_ptr<HeldTensors> held, const Options& options, WaitingThreads& threads);

  // The address for receivers: the name of a socket and a secret. Listens from the first call on.
  StatusOr<std::string> Address() MR_EXCLUDES(mu_);
  // Ends all connections. Does not wait.
  void Stop() MR_EXCLUDES(mu_);
  size_t num_connections() const MR_EXCLUDES(mu_);

 private:
  class Connection;
  static constexpr size_t kMostConnections = 1024;
  void Accept();

  const std::shared_ptr<HeldTensors> held_;
  const Options options_;
  const uint64_t secret_;
  WaitingThreads& threads_;
  mutable Mutex mu_;
  bool stopped_ MR_GUARDED_BY(mu_) = false;
  std::string address_ MR_GUARDED_BY(mu_);
  FileDescriptor listening_;  // set once, before its thread begins
  std::set<std::shared_ptr<Connection>> connections_ MR_GUARDED_BY(mu_);
};

// The two parts of an address.
struct SharedMemoryAddress {
  std::string socket;
  uint64_t secret = 0;
  std::string ToString() const;
  // InvalidArgument for any other text.
  static StatusOr<SharedMemoryAddress> Parse(std::string_view text);
};

}  // namespace millrace
