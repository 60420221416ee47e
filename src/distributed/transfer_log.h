// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "millrace/status.h"

namespace tensorflow {
class LoggingRequest;
class LoggingResponse;
class StepStats;
class TraceOpts;
}  // namespace tensorflow

namespace millrace {

// A record of a task by step, as far as requested: the tensors that it has sent (Logging), and the nodes that
// it has run (Tracing). Keeps only the last transfers and steps. Thread-safe.
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
  // Whether steps are traced now without a request of their masters.
  bool traces() const { return until_us_.load(std::memory_order_relaxed) > NowUs(); }
  void AddStep(int64_t step_id, tensorflow::StepStats stats) MR_EXCLUDES(mu_);
  // The Tracing method: for the duration in the options all steps are traced, and Logging returns the
  // results. Unimplemented, naming them, for options of devices and profilers that are not supported.
  Status Trace(const tensorflow::TraceOpts& options) MR_EXCLUDES(mu_);
  // The Logging method.
  void Handle(const tensorflow::LoggingRequest& request, tensorflow::LoggingResponse* response)
      MR_EXCLUDES(mu_);

 private:
  static constexpr size_t kMost = 10000;
  static constexpr size_t kMostSteps = 100;
  static int64_t NowUs();             // of the steady clock
  std::atomic<int64_t> until_us_{0};  // relaxed: a step more or less does not matter
  mutable Mutex mu_;
  bool enabled_ MR_GUARDED_BY(mu_) = false;
  std::deque<Transfer> transfers_ MR_GUARDED_BY(mu_);
  std::deque<std::pair<int64_t, std::shared_ptr<const tensorflow::StepStats>>> steps_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace
