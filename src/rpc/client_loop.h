// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/completion_queue.h>

#include <chrono>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "rpc/event_order.h"

namespace millrace {

// An object whose call ends on a ClientLoop.
class ClientEvent {
 public:
  virtual ~ClientEvent() = default;
  // The tag of a call that is to be started.
  void* Tag() {
    order_.BeforeStart();
    return this;
  }
  static void EndedWith(void* tag) {
    auto* const event = static_cast<ClientEvent*>(tag);
    event->order_.AtEvent();
    event->Ended();
  }

 private:
  // The call has ended.
  virtual void Ended() = 0;

  EventOrder order_;
};

// An object that checks its calls periodically.
class Watcher {
 public:
  virtual ~Watcher() = default;
  // Must not wait. `heartbeats`: the queue for its own calls.
  virtual void Look(std::chrono::steady_clock::time_point now, grpc::CompletionQueue& heartbeats) = 0;
};

// The threads on which the calls of all transports of the process end: some for replies, whose receivers may
// compute, and one that watches long calls. Lives as long as a transport does. Thread-safe.
class ClientLoop {
 public:
  static std::shared_ptr<ClientLoop> Get();
  ~ClientLoop();
  // Tags are those of ClientEvents.
  grpc::CompletionQueue& queue() { return queue_; }
  void Add(Watcher* watcher) MR_EXCLUDES(mu_);
  // Waits until it is not being checked.
  void Remove(Watcher* watcher) MR_EXCLUDES(mu_);

 private:
  ClientLoop();
  static void Loop(grpc::CompletionQueue& queue);
  void Watch() MR_EXCLUDES(mu_);

  grpc::CompletionQueue queue_;
  grpc::CompletionQueue heartbeats_;
  std::vector<std::thread> threads_;
  std::thread watch_;
  Mutex mu_;
  bool ending_ MR_GUARDED_BY(mu_) = false;
  std::set<Watcher*> watchers_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace
