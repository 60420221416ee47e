// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "base/waiting_threads.h"
#include "distributed/held_tensors.h"
#include "distributed/tcp_socket.h"

namespace millrace {

// The request of a receiver on a connection of a SocketChannel, with its bytes on the wire: little-endian
// numbers.
struct SocketRequest {
  static constexpr uint64_t kMagic = 0x4d52'534b'0000'0001;  // with the version
  // Requests a connection for calls, which the CallServer takes over; the other fields are zero.
  static constexpr uint64_t kCallsMagic = 0x4d52'534b'0001'0001;
  uint64_t magic = kMagic;
  std::array<uint64_t, 2> token = {};
  uint64_t ticket = 0;
  int64_t offset = 0;
  int64_t num_bytes = 0;
};
static_assert(sizeof(SocketRequest) == 48);

// The answer; if granted, the bytes follow.
struct SocketAnswer {
  static constexpr uint64_t kGranted = 0x4d52'534b'0000'0002;
  static constexpr uint64_t kRefused = 0x4d52'534b'0000'0003;
  uint64_t kind = kRefused;
  int64_t num_bytes = 0;
};
static_assert(sizeof(SocketAnswer) == 16);

// The address and token for the bytes of one tensor.
struct SocketAddress {
  int port = 0;
  std::array<uint64_t, 2> token = {};
  std::string ToString() const;
  // InvalidArgument for any other text.
  static StatusOr<SocketAddress> Parse(std::string_view text);
};

// The sending end of a SocketChannel. Each offer has a token of its own, valid for the bytes of one tensor; a
// connection without a token gets nothing. Thread-safe.
class SocketSender {
 public:
  struct Options {
    std::string listen;  // the host
    int port = 0;        // 0: a free one
    std::chrono::milliseconds patience{0};
    std::function<void(FileDescriptor)> take_calls = {};  // connections for calls; empty: there are none
  };
  // Runs on `threads`, whose destructor must run first.
  SocketSender(std::shared_ptr<HeldTensors> held, const Options& options, WaitingThreads& threads);

  // For one tensor of that size. Listens from the first call on; if that fails, all calls return the error.
  StatusOr<SocketAddress> AddressFor(int64_t num_bytes) MR_EXCLUDES(mu_);
  // For one connection for calls.
  StatusOr<SocketAddress> AddressForCalls() MR_EXCLUDES(mu_);
  // Ends all connections. Does not wait.
  void Stop() MR_EXCLUDES(mu_);
  size_t num_connections() const MR_EXCLUDES(mu_);
  // Offers whose bytes have not all been fetched.
  size_t num_grants() const MR_EXCLUDES(mu_);

 private:
  using Token = std::array<uint64_t, 2>;
  // The grant of one token.
  struct Grant {
    uint64_t ticket = 0;  // of the first request; 0: there was none
    int64_t num_bytes = 0;
    int64_t left = 0;  // that were not requested yet
    int64_t sent = 0;
  };
  void Accept();
  void Serve(FileDescriptor& fd);
  // Whether the connection is for calls, and was passed on.
  bool HandOver(FileDescriptor& fd, const SocketRequest& request) MR_EXCLUDES(mu_);
  Status Listen() MR_REQUIRES(mu_);
  Status Answer(int fd, const SocketRequest& request);
  // The tensor, if the request has a token for it.
  StatusOr<Tensor> Admit(const SocketRequest& request) MR_EXCLUDES(mu_);
  void Sent(const SocketRequest& request) MR_EXCLUDES(mu_);

  const std::shared_ptr<HeldTensors> held_;
  const Options options_;
  WaitingThreads& threads_;
  mutable Mutex mu_;
  bool stopped_ MR_GUARDED_BY(mu_) = false;
  Status broken_ MR_GUARDED_BY(mu_);  // why it does not listen
  int port_ MR_GUARDED_BY(mu_) = 0;
  FileDescriptor listening_;  // set once, before its thread begins
  std::set<int> connections_ MR_GUARDED_BY(mu_);
  std::map<Token, Grant> grants_ MR_GUARDED_BY(mu_);
  std::deque<Token> for_calls_ MR_GUARDED_BY(mu_);  // the oldest one first
  std::deque<Token> order_ MR_GUARDED_BY(mu_);      // of the grants, the oldest one first; some have gone
};

}  // namespace millrace
