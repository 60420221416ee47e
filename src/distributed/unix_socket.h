// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "millrace/status.h"

namespace millrace {

// Owns a file descriptor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() { Close(); }
  FileDescriptor(FileDescriptor&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& o) noexcept {
    if (this != &o) {
      Close();
      fd_ = std::exchange(o.fd_, -1);
    }
    return *this;
  }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void Close();

 private:
  int fd_ = -1;
};

// Packets about shared memory between two processes of one machine. Numbers are in native byte order.
struct LocalPacket {
  enum class Kind : uint32_t {
    kHello,    // number: the version of these packets, ticket: the secret of the address
    kFetch,    // number: of the request, ticket and num_bytes: of the tensor
    kTensor,   // number: of the request, segment: where it is; a new one comes with its descriptor and
               // num_bytes
    kRefused,  // number: of the request
    kMapped,   // a new segment has arrived
    kRelease,  // the tensor in the segment is no longer used
    kDrop,     // an unused segment will not be used again
  };
  Kind kind = Kind::kHello;
  uint32_t segment = 0;
  uint64_t number = 0;
  uint64_t ticket = 0;
  int64_t num_bytes = 0;
};

inline constexpr uint64_t kLocalPacketVersion = 0x4d520001;

// Sockets with names that only processes of the same machine (and network namespace) can reach. The names are
// not files. Errors are Unavailable.
StatusOr<FileDescriptor> ListenOnUnixSocket(const std::string& name);
// Does not wait for the other side.
StatusOr<FileDescriptor> ConnectToUnixSocket(const std::string& name);
// Waits for the next connection. An error after ShutDownSocket was called for the socket.
StatusOr<FileDescriptor> AcceptOnUnixSocket(int listening);
// Wakes threads that wait for the socket.
void ShutDownSocket(int fd);
// Whether the process at the other end of a connection runs as the user, according to the kernel.
bool IsPeerOfUser(int fd, uid_t user);
// The timeout of ReceivePacket and SendPacket.
void SetSocketTimeout(int fd, std::chrono::milliseconds timeout);

// With a descriptor, unless it is -1. Returns false when there is no room for the packet now (`wait`: until
// the timeout).
StatusOr<bool> SendPacket(int fd, const LocalPacket& packet, int descriptor, bool wait);
// Empty when the timeout has passed. The end of the connection is an error.
struct ReceivedPacket {
  LocalPacket packet;
  FileDescriptor descriptor;
};
StatusOr<std::optional<ReceivedPacket>> ReceivePacket(int fd);

}  // namespace millrace
