// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace millrace {

// Connections through this process to ports of this machine, which can be made slow, silent or broken. Owns a
// thread. Thread-safe.
class Links {
 public:
  enum class Mode {
    kPass,
    kSlow,    // 400 KB/s for each connection and direction, at least 20 ms late
    kFrozen,  // accepts connections and transfers nothing, like a network that loses everything
    kCut,     // resets connections, including new ones
  };
  Links();
  ~Links();
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  // Adds a link from an address of this machine, "127.…", to that port of 127.0.0.1; returns its index. Port
  // 0: a free one. The program ends if there is no port for it.
  size_t Add(const std::string& host, int port, int to_port) MR_EXCLUDES(mu_);
  // The port of the link.
  int port(size_t link) const MR_EXCLUDES(mu_);
  // The number of bytes that went through all links to `to_port`, both ways.
  int64_t BytesTo(int to_port) const MR_EXCLUDES(mu_);
  void Set(size_t link, Mode mode) MR_EXCLUDES(mu_);

 private:
  struct Link {
    int listener = -1;
    int port = 0;
    int to_port = 0;
    Mode mode = Mode::kPass;
    int64_t bytes = 0;
  };
  // From side 0, which has connected, to side 1, and back.
  struct Connection {
    size_t link = 0;
    int sides[2] = {-1, -1};
    std::string waiting[2];  // read from that side, and not yet written to the other one
    bool broken = false;
  };
  void Loop() MR_EXCLUDES(mu_);
  void Accept(size_t link) MR_REQUIRES(mu_);
  // Transfers available data; at most `limit` bytes each way. Returns the number of bytes.
  static int64_t Move(Connection& connection, size_t limit);
  static void Break(Connection& connection);

  const int wake_;
  mutable Mutex mu_;
  bool ending_ MR_GUARDED_BY(mu_) = false;
  std::vector<Link> links_ MR_GUARDED_BY(mu_);
  std::list<Connection> connections_ MR_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace millrace
