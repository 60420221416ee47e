// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <thread>

#include "base/function.h"
#include "base/mutex.h"
#include "millrace/status.h"

namespace millrace {

// Runs what it is given in that order, on a thread of its own. After an error what is waiting is not run, and
// nothing more is taken until the error is cleared. Thread-safe.
class EagerExecutor {
 public:
  // Called with OK to run, or with the error for which it does not; returns its own.
  using Work = UniqueFunction<Status(const Status&)>;

  EagerExecutor() = default;
  ~EagerExecutor();  // waits for what is running and waiting
  EagerExecutor(const EagerExecutor&) = delete;
  EagerExecutor& operator=(const EagerExecutor&) = delete;

  // The error of earlier work, and then `work` is dropped.
  Status Add(Work work) MR_EXCLUDES(mu_);
  // Waits until nothing is running or waiting. The first error since the last ClearError.
  Status Wait() MR_EXCLUDES(mu_);
  Status status() MR_EXCLUDES(mu_);
  void ClearError() MR_EXCLUDES(mu_);

 private:
  void Loop() MR_EXCLUDES(mu_);

  Mutex mu_;
  CondVar changed_;
  std::deque<Work> queue_ MR_GUARDED_BY(mu_);
  bool busy_ MR_GUARDED_BY(mu_) = false;
  bool ending_ MR_GUARDED_BY(mu_) = false;
  Status status_ MR_GUARDED_BY(mu_);
  std::thread thread_ MR_GUARDED_BY(mu_);  // started with the first work
};

}  // namespace millrace
