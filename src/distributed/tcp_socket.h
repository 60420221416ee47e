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

// TCP connections with blocking calls. ShutDownSocket wakes the thread. Errors are Unavailable.

// At a free port, or at `port`. `host` is an address or a name of this machine; IPv6 addresses may be in
// brackets.
StatusOr<FileDescriptor> ListenOnTcp(const std::string& host, int port);
// The port of a socket that listens.
int PortOf(const FileDescriptor& listening);
// Fails after that time.
StatusOr<FileDescriptor> ConnectWithTcp(const std::string& host, int port,
                                        std::chrono::milliseconds patience);
// Waits for the next connection, and until the process has a free file descriptor.
StatusOr<FileDescriptor> AcceptOnTcp(int listening);

// Whether the other side has closed a connection on which no data is expected.
bool HasEnded(int fd);

// Parts of a transfer, which has to make progress within `patience`; else DeadlineExceeded. Time in
// which this process was stopped does not count. `size` is the number of bytes read before the
// error.
struct TransferResult {
  Status status;
  size_t size = 0;
};
TransferResult ReadAll(int fd, void* to, size_t size, std::chrono::milliseconds patience);
// One after the other; the second one may be empty.
Status WriteAll(int fd, std::string_view head, std::string_view body, std::chrono::milliseconds patience);

}  // namespace millrace
