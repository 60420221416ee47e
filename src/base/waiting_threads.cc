// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "base/waiting_threads.h"

#include <chrono>
#include <cstddef>
#include <system_error>
#include <thread>
#include <utility>

namespace millrace {
namespace {

constexpr std::chrono::seconds kIdle{5};

}  // namespace

WaitingThreads::~WaitingThreads() {
  MutexLock lock(mu_);
  ending_ = true;
  queued_.NotifyAll();
  while (threads_ > 0) ended_.Wait(mu_);
}

void WaitingThreads::ScheduleOrRun(UniqueFunction<void()> work) {
  if (!TrySchedule(work)) work();
}

bool WaitingThreads::TrySchedule(UniqueFunction<void()>& work) {
  MutexLock lock(mu_);
  // Each piece of work on the queue has a thread that is idle or just begins.
  if (static_cast<size_t>(idle_) > queue_.size()) {
    queue_.push_back(std::move(work));
    queued_.NotifyOne();
    return true;
  }
  if (threads_ >= most_) return false;
  try {
    std::thread([this] { Loop(); }).detach();
  } catch (const std::system_error&) {
    return false;
  }
  ++threads_;
  queue_.push_back(std::move(work));
  return true;
}

void WaitingThreads::Loop() {
  mu_.Lock();
  while (true) {
    if (queue_.empty()) {
      if (ending_) break;
      ++idle_;
      const bool in_time = queued_.WaitUntil(mu_, std::chrono::steady_clock::now() + kIdle);
      --idle_;
      if (!in_time && queue_.empty()) break;
      continue;
    }
    UniqueFunction<void()> work = std::move(queue_.front());
    queue_.pop_front();
    mu_.Unlock();
    work();
    work = nullptr;
    mu_.Lock();
  }
  --threads_;
  ended_.NotifyAll();  // under the lock: the waiting thread may destroy this
  mu_.Unlock();
}

}  // namespace millrace
