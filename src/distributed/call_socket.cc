// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/call_socket.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace millrace {
namespace {

constexpr size_t kBufferSize = 64 << 10;
// The most reads of a thread from a socket before it processes the results.
constexpr int kMostReads = 16;
constexpr size_t kMostPieces = 16;  // that are sent together

Status Failed(std::string_view what, int error) {
  return errors::Unavailable(what, ": ", std::strerror(error));
}

}  // namespace

CallSocket::CallSocket(CallLoop& loop, FileDescriptor fd, uint64_t most, size_t most_unsent)
    : loop_(loop), fd_(std::move(fd)), most_(most), most_unsent_(most_unsent), buffer_(kBufferSize, '\0') {}

Status CallSocket::Open() {
  const int flags = ::fcntl(fd_.get(), F_GETFL);
  if (flags < 0 || ::fcntl(fd_.get(), F_SETFL, flags | O_NONBLOCK) != 0)
    return Failed("Could not set up a socket", errno);
  MutexLock lock(mu_);
  id_ = loop_.Add(ShareRef(this), fd_.get());
  if (id_ == 0) return errors::ResourceExhausted("Could not watch a socket");
  Arm();
  return Status();
}

void CallSocket::End(const Status& why) {
  {
    MutexLock lock(mu_);
    if (std::exchange(ended_, true)) return;
    rest_.clear();
  }
  const RefPtr<CallSocket> self = ShareRef(this);
  loop_.Remove(id_, fd_.get());
  ShutDownSocket(fd_.get());
  OnEnd(why);
}

bool CallSocket::MayRead() const { return !reading_ && (most_unsent_ == 0 || rest_.size() < most_unsent_); }

void CallSocket::Arm() {
  if (!ended_) loop_.Arm(id_, fd_.get(), MayRead(), !rest_.empty());
}

void CallSocket::Ready(bool readable, bool writable, std::vector<Work>* works) {
  Status status;
  bool reads = false;
  {
    MutexLock lock(mu_);
    if (ended_) return;
    if (writable && !rest_.empty()) status = Flush();
    if (status.ok() && readable && MayRead()) reads = reading_ = true;
    if (!reads && status.ok()) Arm();
  }
  if (reads) {
    status = Read(works);
    MutexLock lock(mu_);
    reading_ = false;
    if (status.ok()) Arm();
  }
  if (!status.ok()) End(status);
}

void CallSocket::Tick() {
  {
    MutexLock lock(mu_);
    if (ended_) return;
    if (!rest_.empty()) ++stuck_ticks_;
  }
  OnTick();
}

int CallSocket::stuck_ticks() const {
  MutexLock lock(mu_);
  return stuck_ticks_;
}

// ---- Sending

bool CallSocket::Send(CallHeader frame, MessageBytes bytes) {
  frame.size = bytes.size();
  Rest all{std::string(reinterpret_cast<const char*>(&frame), sizeof(frame)), std::move(bytes), 0};
  Status status;
  {
    MutexLock lock(mu_);
    if (ended_) return false;
    const size_t size = all.head.size() + all.bytes.size();
    if (rest_.empty()) status = Write(&all);
    if (status.ok() && all.sent < size) {
      rest_.push_back(std::move(all));
      if (rest_.size() == 1) {
        stuck_ticks_ = 0;
        Arm();
      }
    }
  }
  if (status.ok()) return true;
  End(status);
  return false;
}

Status CallSocket::Flush() {
  stuck_ticks_ = 0;
  while (!rest_.empty()) {
    Rest& first = rest_.front();
    MR_RETURN_IF_ERROR(Write(&first));
    if (first.sent < first.head.size() + first.bytes.size()) return Status();
    rest_.pop_front();
  }
  return Status();
}

Status CallSocket::Write(Rest* rest) const {
  const size_t size = rest->head.size() + rest->bytes.size();
  while (rest->sent < size) {
    std::array<iovec, kMostPieces> parts;
    size_t count = 0, skip = rest->sent;
    const auto add = [&](std::string_view piece) {
      const size_t skipped = std::min(skip, piece.size());
      skip -= skipped;
      if (skipped == piece.size() || count == kMostPieces) return;
      parts[count++] = {const_cast<char*>(piece.data() + skipped), piece.size() - skipped};
    };
    add(rest->head);
    for (const MessageBytes::Piece& piece : rest->bytes.pieces()) add(piece.bytes);
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    const ssize_t sent = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      rest->sent += static_cast<size_t>(sent);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return Status();
    } else if (errno != EINTR) {
      return Failed("Could not send", errno);
    }
  }
  return Status();
}

// ---- Receiving

Status CallSocket::Read(std::vector<Work>* works) {
  for (int i = 0; i < kMostReads; ++i) {
    bool more = false;
    if (in_body_) {
      MR_RETURN_IF_ERROR(ReadBody(&more, works));
      if (!more) return Status();
      continue;
    }
    const size_t room = buffer_.size() - end_;
    const ssize_t size = ::recv(fd_.get(), buffer_.data() + end_, room, MSG_DONTWAIT);
    if (size == 0) return errors::Unavailable("The connection is closed");
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Status();
    if (size < 0) return Failed("Could not receive", errno);
    end_ += static_cast<size_t>(size);
    MR_RETURN_IF_ERROR(TakeFrames(works));
    if (static_cast<size_t>(size) < room && !in_body_) return Status();
  }
  return Status();
}

Status CallSocket::TakeFrames(std::vector<Work>* works) {
  while (end_ - begin_ >= sizeof(CallHeader)) {
    CallHeader frame;
    std::memcpy(&frame, buffer_.data() + begin_, sizeof(frame));
    if (frame.size > most_) return errors::InvalidArgument("A message of ", frame.size, " bytes");
    begin_ += sizeof(frame);
    const size_t here = std::min<size_t>(end_ - begin_, frame.size);
    std::string bytes = buffer_.substr(begin_, here);
    begin_ += here;
    if (here < frame.size) {
      frame_ = frame;
      body_ = std::move(bytes);
      body_size_ = here;
      in_body_ = true;
      break;
    }
    MR_RETURN_IF_ERROR(Handle(frame, std::move(bytes), works));
  }
  // The rest is shorter than the header of a frame.
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  return Status();
}

Status CallSocket::ReadBody(bool* more, std::vector<Work>* works) {
  // Memory grows with the received data, not with the size declared in the frame.
  const size_t wanted = std::min<size_t>(frame_.size, std::max(2 * body_size_, kBufferSize));
  if (body_.size() < wanted) body_.resize(wanted);
  const size_t room = body_.size() - body_size_;
  const ssize_t size = ::recv(fd_.get(), body_.data() + body_size_, room, MSG_DONTWAIT);
  if (size == 0) return errors::Unavailable("The connection is closed in the middle of a message");
  if (size < 0 && errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK)
    return Failed("Could not receive", errno);
  if (size < 0) {
    *more = errno == EINTR;
    return Status();
  }
  body_size_ += static_cast<size_t>(size);
  *more = static_cast<size_t>(size) == room;
  if (body_size_ < frame_.size) return Status();
  in_body_ = false;
  return Handle(frame_, std::exchange(body_, {}), works);
}

Status CallSocket::Handle(const CallHeader& frame, std::string bytes, std::vector<Work>* works) {
  MR_ASSIGN_OR_RETURN(Work work, OnFrame(frame, bytes.empty() ? MessageBytes() : std::move(bytes)));
  if (work) works->push_back(std::move(work));
  return Status();
}

}  // namespace millrace
