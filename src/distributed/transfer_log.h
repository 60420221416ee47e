// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/mutex.h"

namespace tensorflow {
class LoggingRequest;
class LoggingResponse;
}  // namespace tensorflow

namespace millrace {

// Which tensors a task has sent for which steps, when that was asked for. Keeps the last transfers
// only. Thread-safe.
class TransferLog {
 public:
  struct Transfer {
    int64_t step_id = 0;
    int64_t start_us = 0;  // since 1970
    int64_t end_us = 0;
    int64_t bytes = 0;
    std::string key;
  };
  bool enabled() const MR_EXCLUDES(mu_);
  void Add(Transfer transfer) MR_EXCLUDES(mu_);
  // What the Logging method does.
  void Handle(const tensorflow::LoggingRequest& request, tensorflow::LoggingResponse* response)
      MR_EXCLUDES(mu_);

 private:
  static constexpr size_t kMost = 10000;
  mutable Mutex mu_;
  bool enabled_ MR_GUARDED_BY(mu_) = false;
  std::deque<Transfer> transfers_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace
