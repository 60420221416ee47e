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

// Runs work in order, on a thread of its own. After an error the waiting work is dropped, and no further work
// is accepted until the error is cleared. Thread-safe.
class EagerExecutor {
 public:
  // Called with OK to run, or with the error for which it does not run; returns its own error.
  using Work = UniqueFunction<Status(const Status&)>;

  EagerExecutor() = default;
  ~EagerExecutor();  // waits for all running and waiting ops
  EagerExecutor(const EagerExecutor&) = delete;
  EagerExecutor& operator=(const EagerExecutor&) = delete;

  // Returns the error of earlier work, if any, and then drops `work`.
  Status Add(Work work) MR_EXCLUDES(mu_);
  // Waits until all work has ended. Returns the first error since the last ClearError.
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
