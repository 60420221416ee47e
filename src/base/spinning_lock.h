// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/cpu_relax.h"
#include "base/mutex.h"

namespace millrace {

// A MutexLock for mutexes that are held for less than a microsecond: it looks again for about that long
// before it sleeps. To sleep and to be woken would take longer than what the mutex protects.
class MR_THREAD_ANNOTATION(scoped_lockable) SpinningLock {
 public:
  explicit SpinningLock(Mutex& mu) MR_ACQUIRE(mu) MR_NO_THREAD_SAFETY_ANALYSIS : mu_(mu) {
    for (int i = 0; i < kLooks; ++i) {
      if (mu_.TryLock()) return;
      CpuRelax();
    }
    mu_.Lock();
  }
  ~SpinningLock() MR_RELEASE() { mu_.Unlock(); }
  SpinningLock(const SpinningLock&) = delete;
  SpinningLock& operator=(const SpinningLock&) = delete;

 private:
  static constexpr int kLooks = 32;
  Mutex& mu_;
};

}  // namespace millrace
