// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>

namespace millrace {

// A loopback port that is free now; 0: there is none.
inline int FreePort() {
  // Below the ports that the system assigns to outgoing connections, so that only other users of this
  // function can take it first; processes begin at different ports.
  constexpr int kFirst = 10'000, kPorts = 20'000;
  static std::atomic<int> next{static_cast<int>(::getpid()) * 61 % kPorts};
  for (int i = 0; i < kPorts; ++i) {
    const int port = kFirst + next.fetch_add(1) % kPorts;
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    const bool is_free = ::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    ::close(socket);
    if (is_free) return port;
  }
  return 0;
}

}  // namespace millrace
