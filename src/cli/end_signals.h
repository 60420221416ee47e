// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>

namespace millrace::cli {

// Turns SIGINT and SIGTERM into an event to wait for: threads that are started later don't get them. To be
// created once, before any other thread.
class EndSignals {
 public:
  EndSignals();
  ~EndSignals();
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;

  void Wait() const;
  // Readable once a signal has arrived.
  int file() const { return file_; }

 private:
  sigset_t signals_;
  int file_ = -1;
};

}  // namespace millrace::cli
