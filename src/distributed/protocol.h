// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "distributed/security.h"
#include "distributed/transport.h"
#include "millrace/status.h"

namespace millrace {

// Answers incoming calls: any method of any service, on any thread. The cancellation lives until the
// reply.
using CallHandler = std::function<void(Method method, MessageBytes request, int64_t timeout_in_ms,
                                       CancellationManager& cancellation, Reply reply)>;

// The address of a task of this process. Thread-safe.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual int port() const = 0;
  // Begins to answer. REQUIRES: called once at most.
  virtual void Start(CallHandler handler) = 0;
  // Refuses calls; those in progress are cancelled after the grace period. Waits until all are answered.
  virtual void Stop(int64_t grace_in_ms) = 0;
};

struct TransportOptions {
  int64_t patience_in_ms = 5000;  // see RemoteCall
  ChannelSecurity security;
};

// A way to carry messages between tasks.
struct Protocol {
  // Binds an address, "host:port"; a port of 0 is replaced by a free one.
  std::function<StatusOr<std::unique_ptr<Listener>>(const std::string& address,
                                                    const ChannelSecurity& security)>
      listen;
  // Connects to tasks at these addresses.
  std::function<StatusOr<std::shared_ptr<Transport>>(const std::map<std::string, std::string>& addresses,
                                                     const TransportOptions& options)>
      connect;
};

// Enables servers with that protocol, and sessions with targets "<name>://host:port". AlreadyExists for a
// name in use. Thread-safe.
Status RegisterProtocol(const std::string& name, Protocol protocol);
// NotFound when there is none.
StatusOr<Protocol> FindProtocol(const std::string& name);

}  // namespace millrace
