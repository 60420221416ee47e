// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "base/mutex.h"

namespace millrace {

// An event that happens once. Thread-safe.
class Notification {
 public:
  void Notify() MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    notified_ = true;
    cv_.NotifyAll();  // under the lock: the waiter may destroy this as soon as it sees the event
  }
  bool HasBeenNotified() const MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return notified_;
  }
  void Wait() MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (!notified_) cv_.Wait(mu_);
  }
  // Returns false when `deadline` passed first.
  bool WaitUntil(std::chrono::steady_clock::time_point deadline) MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (!notified_) {
      if (!cv_.WaitUntil(mu_, deadline) && !notified_) return false;
    }
    return true;
  }

 private:
  mutable Mutex mu_;
  mutable CondVar cv_;
  bool notified_ MR_GUARDED_BY(mu_) = false;
};

}  // namespace millrace
