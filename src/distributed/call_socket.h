// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/function.h"
#include "base/mutex.h"
#include "distributed/call_loop.h"
#include "distributed/message_bytes.h"
#include "distributed/unix_socket.h"
#include "millrace/ref.h"
#include "millrace/status.h"

namespace millrace {

// The header of each message on a call socket, with its bytes on the wire: little-endian numbers.
struct CallHeader {
  enum Kind : uint32_t {
    kRequest = 1,  // number: the time limit in ms, 0: none; the bytes are the request message
    kResponse,     // the bytes are the response message
    kError,        // number: the code of the error; the bytes are its text
    kCancel,       // of the call; there are no bytes
    kPing,         // is answered with kPong
    kPong,
  };
  uint32_t kind = 0;
  uint32_t method = 0;  // of a request: a Method
  uint64_t call = 0;    // a number chosen by the caller
  int64_t number = 0;
  uint64_t size = 0;  // of the bytes that follow
};
static_assert(sizeof(CallHeader) == 32);

// One end of a TCP connection for many calls at a time. A thread of the CallLoop reads; any thread sends, and
// none waits: bytes that the system does not accept yet are kept. Derived classes define the meaning of
// frames. Thread-safe.
class CallSocket : public RefCounted {
 public:
  using Work = UniqueFunction<void()>;
  // Large tensors are not in frames, as they have channels of their own; the messages are small.
  static constexpr uint64_t kMostRequest = uint64_t{1} << 20;
  static constexpr uint64_t kMostResponse = uint64_t{1} << 31;

  // Begins to read. REQUIRES: called once, after the object is complete.
  Status Open() MR_EXCLUDES(mu_);
  // Ends sending and receiving; calls OnEnd, here, unless the connection has ended before.
  void End(const Status& why) MR_EXCLUDES(mu_);

 protected:
  // `most`: the maximum size of a frame. Nothing is read while `most_unsent`
  // frames wait for the other side to read; 0: no limit. REQUIRES: `loop` lives
  // until End.
  CallSocket(CallLoop& loop, FileDescriptor fd, uint64_t most, size_t most_unsent = 0);

  // False: the connection has ended.
  bool Send(CallHeader frame, MessageBytes bytes = {}) MR_EXCLUDES(mu_);
  // How long sent data has been waiting for the other side to read, in ticks of the loop.
  int stuck_ticks() const MR_EXCLUDES(mu_);

  // A frame has arrived. Frames arrive one by one, in order; long work is returned, and may run at the same
  // time as other work. An error ends the connection.
  virtual StatusOr<Work> OnFrame(const CallHeader& frame, MessageBytes bytes) = 0;
  // The connection has ended; called once.
  virtual void OnEnd(const Status& why) = 0;
  // Called each CallLoop::kTick.
  virtual void OnTick() = 0;

 private:
  friend class CallLoop;
  struct Rest {
    std::string head;
    MessageBytes bytes;
    size_t sent = 0;
  };
  // Called by the loop. Reads and writes as much as possible now.
  void Ready(bool readable, bool writable, std::vector<Work>* works) MR_EXCLUDES(mu_);
  void Tick() MR_EXCLUDES(mu_);
  Status Read(std::vector<Work>* works);
  Status TakeFrames(std::vector<Work>* works);
  Status ReadBody(bool* more, std::vector<Work>* works);
  Status Handle(const CallHeader& frame, std::string bytes, std::vector<Work>* works);
  // Sends `rest` as far as possible.
  Status Write(Rest* rest) const;
  Status Flush() MR_REQUIRES(mu_);
  bool MayRead() const MR_REQUIRES(mu_);
  void Arm() MR_REQUIRES(mu_);

  CallLoop& loop_;
  const FileDescriptor fd_;
  const uint64_t most_;
  const size_t most_unsent_;
  uint64_t id_ = 0;
  // Of the thread that reads; the loop lets in one at a time.
  std::string buffer_;
  size_t begin_ = 0, end_ = 0;  // of the data that was read and not yet used
  CallHeader frame_;            // the header for body_
  std::string body_;
  size_t body_size_ = 0;
  bool in_body_ = false;

  mutable Mutex mu_;
  bool ended_ MR_GUARDED_BY(mu_) = false;
  bool reading_ MR_GUARDED_BY(mu_) = false;  // a thread is reading
  std::deque<Rest> rest_ MR_GUARDED_BY(mu_);
  int stuck_ticks_ MR_GUARDED_BY(mu_) = 0;
};

}  // namespace millrace
