// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "eager/eager_executor.h"

#include <utility>

namespace millrace {

EagerExecutor::~EagerExecutor() {
  std::thread thread;
  {
    MutexLock lock(mu_);
    ending_ = true;
    changed_.NotifyAll();
    thread.swap(thread_);
  }
  if (thread.joinable()) thread.join();
}

Status EagerExecutor::Add(Work work) {
  MutexLock lock(mu_);
  if (!status_.ok()) return status_;
  if (!thread_.joinable()) thread_ = std::thread([this] { Loop(); });
  queue_.push_back(std::move(work));
  changed_.NotifyAll();
  return Status();
}

Status EagerExecutor::Wait() {
  MutexLock lock(mu_);
  while (busy_ || !queue_.empty()) changed_.Wait(mu_);
  return status_;
}

Status EagerExecutor::status() {
  MutexLock lock(mu_);
  return status_;
}

void EagerExecutor::ClearError() {
  MutexLock lock(mu_);
  // Waiting ops get the error.
  while (!status_.ok() && (busy_ || !queue_.empty())) changed_.Wait(mu_);
  status_ = Status();
}

void EagerExecutor::Loop() {
  for (;;) {
    Work work;
    Status failed;
    {
      MutexLock lock(mu_);
      while (queue_.empty() && !ending_) changed_.Wait(mu_);
      if (queue_.empty()) return;
      work = std::move(queue_.front());
      queue_.pop_front();
      busy_ = true;
      failed = status_;
    }
    Status status = work(failed);
    work = nullptr;  // releases the captures before the executor can appear idle
    MutexLock lock(mu_);
    busy_ = false;
    status_.Update(status);
    changed_.NotifyAll();
  }
}

}  // namespace millrace
