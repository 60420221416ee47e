// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/waiting_threads.h"
#include "distributed/held_tensors.h"
#include "distributed/socket_sender.h"
#include "distributed/tcp_socket.h"
#include "distributed/tensor_channel.h"

namespace millrace {

// Moves tensors through TCP connections of its own: from the tensor of the sender into the tensor of the
// receiver, without buffers in between. A token in the offer of a tensor authorises its transfer. Nothing is
// encrypted: a task that encrypts its messages has no such channel. Without a connection the tensor is moved
// by `other`.
class SocketChannel : public TensorChannel {
 public:
  static constexpr std::string_view kName = "socket";
  struct Options {
    int64_t min_bytes = 0;                          // smaller tensors travel in their response
    std::string listen = "127.0.0.1";               // the host
    int port = 0;                                   // 0: a free one
    std::chrono::milliseconds patience{5000};       // how long a peer may be silent
    std::map<std::string, std::string> peers = {};  // "host:port", by task; the port itself is not used
    // How long tensors of a peer that could not be reached are moved by `other`.
    std::chrono::milliseconds retry_after{30'000};
    int most_threads = std::numeric_limits<int>::max();
    std::function<void(FileDescriptor)> take_calls = {};  // see SocketSender
  };
  // REQUIRES: `other`, which fetches by the same tickets, outlives Stop.
  SocketChannel(std::shared_ptr<HeldTensors> held, TensorChannel& other, const Options& options);
  ~SocketChannel() override;

  std::string_view name() const override { return kName; }
  std::optional<std::string> AddressFor(std::string_view introduction, int64_t num_bytes) override;
  void Fetch(TensorFetch fetch) override MR_EXCLUDES(mu_);
  void Stop() override MR_EXCLUDES(mu_);

  // The address for connections of a peer for calls.
  StatusOr<SocketAddress> AddressForCalls() { return sender_.AddressForCalls(); }
  // Connected receivers, and pending offers.
  size_t num_connections() const { return sender_.num_connections(); }
  size_t num_grants() const { return sender_.num_grants(); }

 private:
  class Transfer;
  using Peer = std::pair<std::string, int>;  // host and port

  // A connection to the peer, and whether it was used before. Unavailable if there is none.
  StatusOr<std::shared_ptr<FileDescriptor>> Take(const Peer& peer, bool* used) MR_EXCLUDES(mu_);
  // Keeps it for later use.
  void GiveBack(const Peer& peer, std::shared_ptr<FileDescriptor> fd) MR_EXCLUDES(mu_);
  void FallBack(TensorFetch fetch) MR_EXCLUDES(mu_);
  void Forget(Transfer* transfer) MR_EXCLUDES(mu_);
  // Runs it here after Stop, and when no thread can be started.
  void ScheduleOrRun(UniqueFunction<void()> work) MR_EXCLUDES(mu_);
  // Whether to try a connection.
  bool MayReach(const Peer& peer) MR_REQUIRES(mu_);

  TensorChannel& other_;
  const Options options_;
  std::unique_ptr<WaitingThreads> threads_;
  SocketSender sender_;
  Mutex mu_;
  bool stopped_ MR_GUARDED_BY(mu_) = false;
  std::map<Peer, std::vector<std::shared_ptr<FileDescriptor>>> idle_ MR_GUARDED_BY(mu_);
  using Clock = std::chrono::steady_clock;
  std::map<Peer, Clock::time_point> refused_ MR_GUARDED_BY(mu_);  // not reachable; until when
  std::set<Transfer*> transfers_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace
