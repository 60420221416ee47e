// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/tcp_socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include "base/strings.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;

constexpr int kBacklog = 128;
// Waits are split into such ticks, so that only the time in which this process runs counts.
constexpr milliseconds kTick{100};
constexpr milliseconds kUntilNextTry{50};  // if the process has no file descriptors left

Status SystemError(std::string_view what, int error) {
  return errors::Unavailable(what, ": ", std::strerror(error));
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

StatusOr<Addresses> Resolve(std::string_view host, int port, int flags) {
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(std::string(host).c_str(), StrCat(port).c_str(), &hints, &list);
  if (error != 0) return errors::Unavailable("The host ", host, " can't be found: ", ::gai_strerror(error));
  return Addresses(list);
}

void Prepare(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  SetSocketTimeout(fd, kTick);
}

// Waits for the end of a connect in progress.
Status AwaitConnection(int fd, milliseconds patience) {
  for (milliseconds waited{0};;) {
    pollfd wanted{fd, POLLOUT, 0};
    const int ready = ::poll(&wanted, 1, static_cast<int>(kTick.count()));
    if (ready < 0 && errno != EINTR) return SystemError("Could not wait for a connection", errno);
    if (ready > 0) break;
    waited += kTick;
    if (waited >= patience) return errors::Unavailable("Could not connect within ", patience.count(), " ms");
  }
  int error = 0;
  socklen_t size = sizeof(error);
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  return error == 0 ? Status() : SystemError("Could not connect", error);
}

}  // namespace

StatusOr<FileDescriptor> ListenOnTcp(const std::string& host, int port) {
  MR_ASSIGN_OR_RETURN(const Addresses addresses, Resolve(host, port, AI_PASSIVE));
  FileDescriptor fd(::socket(addresses->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return SystemError("Could not create a socket", errno);
  // A task that restarts gets its port back, although the kernel still keeps the ends of old connections.
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (::bind(fd.get(), addresses->ai_addr, addresses->ai_addrlen) != 0 || ::listen(fd.get(), kBacklog) != 0)
    return SystemError(StrCat("The address ", host, ":", port, " can't be listened on"), errno);
  return fd;
}

int PortOf(const FileDescriptor& listening) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (::getsockname(listening.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

StatusOr<FileDescriptor> ConnectWithTcp(const std::string& host, int port, milliseconds patience) {
  MR_ASSIGN_OR_RETURN(const Addresses addresses, Resolve(host, port, 0));
  Status first;
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
    FileDescriptor fd(::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd.valid()) return SystemError("Could not create a socket", errno);
    Status status;
    if (::connect(fd.get(), address->ai_addr, address->ai_addrlen) != 0) {
      status = errno == EINPROGRESS ? AwaitConnection(fd.get(), patience)
                                    : SystemError("Could not connect", errno);
    }
    const int flags = ::fcntl(fd.get(), F_GETFL);
    if (status.ok() && (flags < 0 || ::fcntl(fd.get(), F_SETFL, flags & ~O_NONBLOCK) != 0))
      status = SystemError("Could not set up a socket", errno);
    if (status.ok()) {
      Prepare(fd.get());
      return fd;
    }
    first.Update(status);
  }
  return first.WithContext(StrCat("; the address is ", host, ":", port));
}

StatusOr<FileDescriptor> AcceptOnTcp(int listening) {
  while (true) {
    FileDescriptor fd(::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC));
    if (fd.valid()) {
      Prepare(fd.get());
      return fd;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      pollfd ended{.fd = listening, .events = 0, .revents = 0};
      if (::poll(&ended, 1, 0) > 0) return SystemError("Could not accept a connection", EINVAL);
      std::this_thread::sleep_for(kUntilNextTry);  // until other threads have closed some
      continue;
    }
    if (errno != EINTR && errno != ECONNABORTED) return SystemError("Could not accept a connection", errno);
  }
}

bool HasEnded(int fd) {
  char byte = 0;
  const ssize_t size = ::recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return size >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

TransferResult ReadAll(int fd, void* to, size_t size, milliseconds patience) {
  TransferResult result;
  milliseconds silent{0};
  while (result.size < size) {
    const ssize_t more = ::recv(fd, static_cast<char*>(to) + result.size, size - result.size, 0);
    if (more > 0) {
      result.size += static_cast<size_t>(more);
      silent = milliseconds(0);
    } else if (more == 0) {
      result.status = errors::Unavailable("The connection is closed");
      return result;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      silent += kTick;
      if (silent < patience) continue;
      result.status = errors::DeadlineExceeded("Received nothing for ", silent.count(), " ms");
      return result;
    } else if (errno != EINTR) {
      result.status = SystemError("Could not receive", errno);
      return result;
    }
  }
  return result;
}

Status WriteAll(int fd, std::string_view head, std::string_view body, milliseconds patience) {
  milliseconds stuck{0};
  while (!head.empty() || !body.empty()) {
    std::array<iovec, 2> parts = {iovec{const_cast<char*>(head.data()), head.size()},
                                  iovec{const_cast<char*>(body.data()), body.size()}};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t sent = ::sendmsg(fd, &message, MSG_NOSIGNAL);
    if (sent > 0) {
      const auto size = static_cast<size_t>(sent);
      const size_t of_head = std::min(size, head.size());
      head.remove_prefix(of_head);
      body.remove_prefix(size - of_head);
      stuck = milliseconds(0);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      stuck += kTick;
      if (stuck >= patience)
        return errors::DeadlineExceeded("Could not send anything for ", stuck.count(), " ms");
    } else if (errno != EINTR) {
      return SystemError("Could not send", errno);
    }
  }
  return Status();
}

}  // namespace millrace
