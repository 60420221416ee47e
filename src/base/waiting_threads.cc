// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "base/waiting_threads.h"

#include <chrono>
#include <cstddef>
#include <thread>
#include <utility>

namespace millrace {
namespace {

constexpr std::chrono::seconds kIdle{5};

}  // namespace

WaitingThreads::~WaitingThreads() {
  MutexLock lock(mu_);
  ending_ = true;
  changed_.NotifyAll();
  while (threads_ > 0) changed_.Wait(mu_);
}

void WaitingThreads::Schedule(UniqueFunction<void()> work) {
  MutexLock lock(mu_);
  queue_.push_back(std::move(work));
  if (static_cast<size_t>(idle_) >= queue_.size()) {
    changed_.NotifyAll();
    return;
  }
  ++threads_;
  std::thread([this] { Loop(); }).detach();
}

void WaitingThreads::Loop() {
  mu_.Lock();
  while (true) {
    if (queue_.empty()) {
      if (ending_) break;
      ++idle_;
      const bool in_time = changed_.WaitUntil(mu_, std::chrono::steady_clock::now() + kIdle);
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
  changed_.NotifyAll();  // under the lock: the waiting thread may destroy this
  mu_.Unlock();
}

}  // namespace millrace
