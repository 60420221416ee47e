// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <limits>

#include "base/function.h"
#include "base/mutex.h"

namespace millrace {

// Threads for work that waits for other work, as of other tasks or of clients: one for each such work in
// progress, so that none waits for a thread. A thread without work ends after a while. Thread-safe.
class WaitingThreads {
 public:
  explicit WaitingThreads(int most = std::numeric_limits<int>::max()) : most_(most) {}
  // Waits until all work is done.
  ~WaitingThreads();
  WaitingThreads(const WaitingThreads&) = delete;
  WaitingThreads& operator=(const WaitingThreads&) = delete;
  // Runs `work` here when TrySchedule returns false. Not for work that waits for later actions of the
  // caller.
  void ScheduleOrRun(UniqueFunction<void()> work) MR_EXCLUDES(mu_);
  // False, and `work` is unchanged, when no thread is idle and `most` are busy or the system cannot start
  // another one.
  [[nodiscard]] bool TrySchedule(UniqueFunction<void()>& work) MR_EXCLUDES(mu_);

 private:
  void Loop() MR_EXCLUDES(mu_);

  const int most_;
  Mutex mu_;
  CondVar queued_;
  CondVar ended_;
  std::deque<UniqueFunction<void()>> queue_ MR_GUARDED_BY(mu_);
  int idle_ MR_GUARDED_BY(mu_) = 0;
  int threads_ MR_GUARDED_BY(mu_) = 0;
  bool ending_ MR_GUARDED_BY(mu_) = false;
};

}  // namespace millrace
