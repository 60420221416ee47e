// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>

namespace millrace::cli {

// SIGINT and SIGTERM as something to wait for, from here on: threads that begin later don't get them. Made
// once, before any other thread.
class EndSignals {
 public:
  EndSignals();
  ~EndSignals();
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;

  void Wait() const;
  // Readable once one has come.
  int file() const { return file_; }

 private:
  sigset_t signals_;
  int file_ = -1;
};

}  // namespace millrace::cli
