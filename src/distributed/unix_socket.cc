// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/unix_socket.h"

#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace millrace {
namespace {

constexpr int kBacklog = 128;
// Room for more than one, so that surplus descriptors of a peer are detected and closed.
constexpr size_t kMostDescriptors = 4;

Status SystemError(std::string_view what) { return errors::Unavailable(what, ": ", std::strerror(errno)); }

// The abstract address of that name; returns its size.
StatusOr<socklen_t> AddressOf(const std::string& name, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  if (name.empty() || name.size() + 1 > sizeof(address->sun_path))
    return errors::Unavailable("The name of a socket has ", name.size(), " characters");
  std::memcpy(address->sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

StatusOr<FileDescriptor> MakeSocket(int flags) {
  FileDescriptor fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0));
  if (!fd.valid()) return SystemError("Could not create a socket");
  return fd;
}

}  // namespace

void FileDescriptor::Close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

StatusOr<FileDescriptor> ListenOnUnixSocket(const std::string& name) {
  sockaddr_un address;
  MR_ASSIGN_OR_RETURN(const socklen_t size, AddressOf(name, &address));
  MR_ASSIGN_OR_RETURN(FileDescriptor fd, MakeSocket(0));
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::listen(fd.get(), kBacklog) != 0)
    return SystemError("Could not listen on a local socket");
  return fd;
}

StatusOr<FileDescriptor> ConnectToUnixSocket(const std::string& name) {
  sockaddr_un address;
  MR_ASSIGN_OR_RETURN(const socklen_t size, AddressOf(name, &address));
  MR_ASSIGN_OR_RETURN(FileDescriptor fd, MakeSocket(SOCK_NONBLOCK));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0)
    return SystemError("Could not connect to a local socket");
  // From now on each call sets whether it waits.
  int on = 0;
  if (::ioctl(fd.get(), FIONBIO, &on) != 0) return SystemError("Could not configure a local socket");
  return fd;
}

StatusOr<FileDescriptor> AcceptOnUnixSocket(int listening) {
  while (true) {
    FileDescriptor fd(::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC));
    if (fd.valid()) return fd;
    if (errno != EINTR && errno != ECONNABORTED) return SystemError("Could not accept a connection");
  }
}

void ShutDownSocket(int fd) { ::shutdown(fd, SHUT_RDWR); }

bool IsPeerOfUser(int fd, uid_t user) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && size == sizeof(peer) &&
         peer.uid == user;
}

void SetSocketTimeout(int fd, std::chrono::milliseconds timeout) {
  timeval time{};
  time.tv_sec = timeout.count() / 1000;
  time.tv_usec = (timeout.count() % 1000) * 1000;
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time));
}

StatusOr<bool> SendPacket(int fd, const LocalPacket& packet, int descriptor, bool wait) {
  iovec bytes{const_cast<LocalPacket*>(&packet), sizeof(packet)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  }
  while (::sendmsg(fd, &message, MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT)) < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return false;
    if (errno != EINTR) return SystemError("Could not send a packet");
  }
  return true;
}

StatusOr<std::optional<ReceivedPacket>> ReceivePacket(int fd) {
  ReceivedPacket received;
  iovec bytes{&received.packet, sizeof(received.packet)};
  alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t size = 0;
  while ((size = ::recvmsg(fd, &message, MSG_CMSG_CLOEXEC)) < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::optional<ReceivedPacket>();
    if (errno != EINTR) return SystemError("Could not receive a packet");
  }
  int descriptors = 0;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i, ++descriptors) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      received.descriptor = FileDescriptor(descriptor);  // closes the previous one
    }
  }
  if (size == 0 && descriptors == 0) return errors::Unavailable("The connection is closed");
  if (size != sizeof(received.packet) || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ||
      descriptors > 1) {
    return errors::Unavailable("Malformed packet: ", size, " bytes, ", descriptors, " descriptors");
  }
  return std::optional<ReceivedPacket>(std::move(received));
}

}  // namespace millrace
