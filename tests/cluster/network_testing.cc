// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/network_testing.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace millrace {
namespace {

constexpr int kTickMs = 20;
constexpr size_t kSlowBytes = 8 << 10;  // per tick
constexpr size_t kFastBytes = 256 << 10;

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int NewSocket() { return ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

void SendAtOnce(int socket) {
  const int one = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

}  // namespace

Links::Links() : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), thread_([this] { Loop(); }) {}

Links::~Links() {
  {
    MutexLock lock(mu_);
    ending_ = true;
  }
  const uint64_t one = 1;
  if (::write(wake_, &one, sizeof(one)) < 0) std::perror("links");
  thread_.join();
  MutexLock lock(mu_);
  for (Connection& connection : connections_) Break(connection);
  for (const Link& link : links_) ::close(link.listener);
  ::close(wake_);
}

size_t Links::Add(const std::string& host, int port, int to_port) {
  Link link;
  link.to_port = to_port;
  link.listener = NewSocket();
  sockaddr_in address = Loopback(port);
  socklen_t size = sizeof(address);
  if (::inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1 ||
      ::bind(link.listener, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(link.listener, 64) != 0 ||
      ::getsockname(link.listener, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    std::perror("links");
    std::abort();
  }
  link.port = ntohs(address.sin_port);
  MutexLock lock(mu_);
  links_.push_back(link);
  return links_.size() - 1;
}

int Links::port(size_t link) const {
  MutexLock lock(mu_);
  return links_[link].port;
}

int64_t Links::BytesTo(int to_port) const {
  MutexLock lock(mu_);
  int64_t bytes = 0;
  for (const Link& link : links_) bytes += link.to_port == to_port ? link.bytes : 0;
  return bytes;
}

void Links::Set(size_t link, Mode mode) {
  MutexLock lock(mu_);
  links_[link].mode = mode;
  if (mode != Mode::kCut) return;
  for (Connection& connection : connections_) {
    if (connection.link == link) Break(connection);
  }
  std::erase_if(connections_, [](const Connection& c) { return c.broken; });
}

void Links::Accept(size_t index) {
  const Link& link = links_[index];
  const int accepted = ::accept4(link.listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (accepted < 0) return;
  Connection connection;
  connection.link = index;
  connection.sides[0] = accepted;
  connection.sides[1] = NewSocket();
  for (const int side : connection.sides) SendAtOnce(side);
  const sockaddr_in address = Loopback(link.to_port);
  const int connected =
      ::connect(connection.sides[1], reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  if (link.mode == Mode::kCut || (connected != 0 && errno != EINPROGRESS)) return Break(connection);
  connections_.push_back(std::move(connection));
}

// Both sides get a reset.
void Links::Break(Connection& connection) {
  if (connection.broken) return;
  connection.broken = true;
  const linger at_once{1, 0};
  for (const int side : connection.sides) {
    ::setsockopt(side, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    ::close(side);
  }
}

int64_t Links::Move(Connection& connection, size_t limit) {
  static thread_local std::string buffer(kFastBytes, '\0');
  int64_t moved = 0;
  for (int from = 0; from < 2; ++from) {
    std::string& waiting = connection.waiting[from];
    if (waiting.empty()) {
      const ssize_t n = ::recv(connection.sides[from], buffer.data(), limit, MSG_DONTWAIT);
      const bool later = n < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOTCONN);
      if (n == 0 || (n < 0 && !later)) {
        Break(connection);
        return moved;
      }
      if (n > 0) waiting.assign(buffer, 0, static_cast<size_t>(n));
    }
    if (waiting.empty()) continue;
    const ssize_t n =
        ::send(connection.sides[1 - from], waiting.data(), waiting.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR && errno != ENOTCONN) {
      Break(connection);
      return moved;
    }
    if (n <= 0) continue;
    waiting.erase(0, static_cast<size_t>(n));
    moved += n;
  }
  return moved;
}

void Links::Loop() {
  auto next_slow = std::chrono::steady_clock::now();
  while (true) {
    std::vector<pollfd> polled{{wake_, POLLIN, 0}};
    {
      MutexLock lock(mu_);
      if (ending_) return;
      for (const Link& link : links_) polled.push_back({link.listener, POLLIN, 0});
      for (const Connection& connection : connections_) {
        if (links_[connection.link].mode != Mode::kPass) continue;
        for (int side = 0; side < 2; ++side) {
          short events = 0;
          if (connection.waiting[side].empty()) events |= POLLIN;
          if (!connection.waiting[1 - side].empty()) events |= POLLOUT;
          if (events != 0) polled.push_back({connection.sides[side], events, 0});
        }
      }
    }
    ::poll(polled.data(), polled.size(), kTickMs);
    MutexLock lock(mu_);
    for (size_t i = 0; i < links_.size(); ++i) Accept(i);
    const auto now = std::chrono::steady_clock::now();
    const bool slow_too = now >= next_slow;
    if (slow_too) next_slow = now + std::chrono::milliseconds(kTickMs);
    for (Connection& connection : connections_) {
      Link& link = links_[connection.link];
      if (link.mode == Mode::kPass) link.bytes += Move(connection, kFastBytes);
      if (link.mode == Mode::kSlow && slow_too) link.bytes += Move(connection, kSlowBytes);
    }
    std::erase_if(connections_, [](const Connection& c) { return c.broken; });
  }
}

}  // namespace millrace
