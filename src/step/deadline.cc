// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "step/deadline.h"

#include <map>
#include <thread>
#include <utility>

#include "base/fork.h"
#include "base/mutex.h"

namespace millrace {

// The thread for ScopedDeadline. Exists as long as the process.
class DeadlineTimer {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  static DeadlineTimer& Get() { return OfProcess<DeadlineTimer>(); }

  int64_t Add(ScopedDeadline* deadline, TimePoint when) MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (!started_) {
      started_ = true;
      std::thread([this] { Loop(); }).detach();
    }
    const int64_t id = next_id_++;
    pending_[{when, id}] = deadline;
    when_[id] = when;
    changed_.NotifyAll();
    return id;
  }

  void Remove(int64_t id) MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (firing_ == id) changed_.Wait(mu_);
    if (const auto it = when_.find(id); it != when_.end()) {
      pending_.erase({it->second, id});
      when_.erase(it);
    }
  }

 private:
  void Loop() MR_EXCLUDES(mu_) {
    mu_.Lock();
    while (true) {
      if (pending_.empty()) {
        changed_.Wait(mu_);
        continue;
      }
      const auto first = pending_.begin();
      if (first->first.first > std::chrono::steady_clock::now()) {
        changed_.WaitUntil(mu_, first->first.first);
        continue;
      }
      ScopedDeadline* deadline = first->second;
      firing_ = first->first.second;
      when_.erase(firing_);
      pending_.erase(first);
      mu_.Unlock();
      deadline->expired_.store(true, std::memory_order_release);
      deadline->step_.StartCancel();
      mu_.Lock();
      firing_ = -1;
      changed_.NotifyAll();
    }
  }

  Mutex mu_;
  CondVar changed_;
  bool started_ MR_GUARDED_BY(mu_) = false;
  int64_t next_id_ MR_GUARDED_BY(mu_) = 0;
  int64_t firing_ MR_GUARDED_BY(mu_) = -1;
  std::map<std::pair<TimePoint, int64_t>, ScopedDeadline*> pending_ MR_GUARDED_BY(mu_);
  std::map<int64_t, TimePoint> when_ MR_GUARDED_BY(mu_);
};

ScopedDeadline::ScopedDeadline(CancellationManager& step, int64_t timeout_in_ms) : step_(step) {
  if (timeout_in_ms <= 0) return;
  // A year is equivalent to any longer timeout and can't overflow the clock.
  constexpr int64_t kLongest = int64_t{365} * 24 * 3600 * 1000;
  const auto when = std::chrono::steady_clock::now() +
                    std::chrono::milliseconds(timeout_in_ms < kLongest ? timeout_in_ms : kLongest);
  id_ = DeadlineTimer::Get().Add(this, when);
}

ScopedDeadline::~ScopedDeadline() {
  if (id_ >= 0) DeadlineTimer::Get().Remove(id_);
}

}  // namespace millrace
