// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "distributed/protocol.h"
#include "distributed/unix_socket.h"

namespace millrace {

// Answers the calls of other tasks that come through call sockets. Thread-safe.
class CallServer {
 public:
  // `patience`: the maximum time in which a peer may read nothing.
  CallServer(CallHandler handler, std::chrono::milliseconds patience);
  ~CallServer();

  // Reads calls from a connection whose peer has been authorised.
  void Add(FileDescriptor fd);
  // Refuses calls; those in progress are cancelled after the grace period. Waits until all are answered.
  void Stop(int64_t grace_in_ms);
  size_t num_connections() const;

 private:
  class Connection;
  struct State;  // state of connections that end late
  const std::shared_ptr<State> state_;
};

}  // namespace millrace
