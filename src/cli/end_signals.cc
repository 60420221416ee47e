// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/end_signals.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>

namespace millrace::cli {

EndSignals::EndSignals() {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGTERM);
  sigaddset(&signals_, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  file_ = signalfd(-1, &signals_, SFD_CLOEXEC);
}

EndSignals::~EndSignals() {
  if (file_ >= 0) close(file_);
}

void EndSignals::Wait() const {
  pollfd waiting{file_, POLLIN, 0};
  while (poll(&waiting, 1, -1) < 0 && errno == EINTR) {
  }
}

}  // namespace millrace::cli
