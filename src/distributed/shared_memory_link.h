// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/function.h"
#include "base/mutex.h"
#include "distributed/shared_memory.h"
#include "distributed/tensor_channel.h"
#include "distributed/unix_socket.h"

namespace millrace {

// The receiving end of a SharedMemoryChannel, for one sender. A tensor lies in memory that the sender has
// filled, and releases it when it is destroyed; when tensors hold much of it, further ones are copied.
// Thread-safe.
class SharedMemoryLink : public std::enable_shared_from_this<SharedMemoryLink> {
 public:
  struct Options {
    uid_t user = 0;         // the required user of the sender
    int64_t max_bytes = 0;  // of all segments together
    int64_t patience_in_ms = 0;
  };
  struct Actions {
    // Runs long work, on another thread or on this one.
    std::function<void(UniqueFunction<void()> work)> schedule;
    // Fetches that fail here are passed on to another channel.
    std::function<void(TensorFetch fetch)> fall_back;
  };
  ~SharedMemoryLink();
  // Unavailable when there is no such socket; PermissionDenied when it belongs to another user.
  static StatusOr<std::shared_ptr<SharedMemoryLink>> Connect(const std::string& socket, uint64_t secret,
                                                             const Options& options, Actions actions);

  // Passes the fetch on if the link is closed.
  std::optional<TensorFetch> Start(TensorFetch fetch) MR_EXCLUDES(mu_);
  // Receives until the link is closed. Waiting fetches are passed on then, or end with an error if the sender
  // was silent. The status says why.
  Status Run() MR_EXCLUDES(mu_);
  // Ends Run and all fetches with the error. Tensors stay.
  void Close(const Status& status) MR_EXCLUDES(mu_);
  // Whether a tensor has arrived on this link.
  bool HasDelivered() const MR_EXCLUDES(mu_);

 private:
  using Kind = LocalPacket::Kind;
  struct Segment {
    RefPtr<SharedMemory> memory;
    bool in_use = false;
  };
  class Waiting;

  SharedMemoryLink(FileDescriptor fd, const Options& options, Actions actions);
  Status Receive() MR_EXCLUDES(mu_);
  Status Handle(ReceivedPacket received) MR_EXCLUDES(mu_);
  Status HandleTensor(const LocalPacket& packet, const FileDescriptor& descriptor) MR_EXCLUDES(mu_);
  void Deliver(const RefPtr<Waiting>& waiting, uint32_t segment, RefPtr<SharedMemory> memory, bool copy);
  RefPtr<Waiting> Take(uint64_t number) MR_EXCLUDES(mu_);
  // The oldest fetch has waited too long without any message.
  Status CheckSilence() MR_EXCLUDES(mu_);
  void Release(uint32_t segment) MR_EXCLUDES(mu_);
  // Never waits: packets that do not fit are sent later.
  void Send(const LocalPacket& packet) MR_REQUIRES(mu_);
  void Flush() MR_REQUIRES(mu_);

  const FileDescriptor fd_;
  const Options options_;
  const Actions actions_;
  mutable Mutex mu_;
  bool closed_ MR_GUARDED_BY(mu_) = false;
  bool delivered_ MR_GUARDED_BY(mu_) = false;
  Status why_ MR_GUARDED_BY(mu_);  // the error of fetches; OK: they are passed on
  uint64_t next_number_ MR_GUARDED_BY(mu_) = 1;
  std::map<uint64_t, RefPtr<Waiting>> waiting_ MR_GUARDED_BY(mu_);
  std::map<uint32_t, Segment> segments_ MR_GUARDED_BY(mu_);
  int64_t all_bytes_ MR_GUARDED_BY(mu_) = 0;
  int64_t used_bytes_ MR_GUARDED_BY(mu_) = 0;
  std::deque<LocalPacket> unsent_ MR_GUARDED_BY(mu_);
  std::chrono::steady_clock::time_point heard_ MR_GUARDED_BY(mu_) = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point looked_ MR_GUARDED_BY(mu_) = heard_;
};

}  // namespace millrace
