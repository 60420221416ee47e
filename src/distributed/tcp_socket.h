// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "distributed/unix_socket.h"
#include "millrace/status.h"

namespace millrace {

// Connections over TCP on which a thread waits. ShutDownSocket wakes the thread. Errors are Unavailable.

// At a free port, or at `port`. `host` is an address or a name of this machine; brackets of IPv6 may be
// there.
StatusOr<FileDescriptor> ListenOnTcp(const std::string& host, int port);
// The port of a socket that listens.
int PortOf(const FileDescriptor& listening);
// Gives up after so long.
StatusOr<FileDescriptor> ConnectWithTcp(const std::string& host, int port,
                                        std::chrono::milliseconds patience);
// Waits for the next connection, and until the process has a file descriptor for it.
StatusOr<FileDescriptor> AcceptOnTcp(int listening);

// Whether the other side has closed a connection on which nothing is to come.
bool HasEnded(int fd);

// The parts of a transfer, which has to make progress within `patience`; DeadlineExceeded where it has not.
// The time in which this process was stopped itself does not count. `size` is what has been read before the
// error.
struct TransferResult {
  Status status;
  size_t size = 0;
};
TransferResult ReadAll(int fd, void* to, size_t size, std::chrono::milliseconds patience);
// One after the other; the second one may be empty.
Status WriteAll(int fd, std::string_view head, std::string_view body, std::chrono::milliseconds patience);

}  // namespace millrace
