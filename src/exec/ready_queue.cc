// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/ready_queue.h"

#include <algorithm>
#include <chrono>

#include "exec/flat_walker.h"

namespace millrace {
namespace {

// About what it costs to wake a sleeping thread.
constexpr auto kSpin = std::chrono::microseconds(20);

}  // namespace

void ReadyQueue::Push(std::span<const Item> items) {
  if (items.empty()) return;
  int wanted = 0;
  {
    MutexLock lock(mu_);
    items_.insert(items_.end(), items.begin(), items.end());
    maybe_work_.store(true, std::memory_order_relaxed);  // a hint; the lock orders the data
    const int waiting = std::min<int>(waiting_, static_cast<int>(items.size()));
    for (int i = 0; i < waiting; ++i) changed_.NotifyOne();
    if (pool_ != nullptr) {
      wanted = std::min<int>(static_cast<int>(items.size()) - waiting, pool_->parallelism() - 1 - helpers_);
      wanted = std::max(wanted, 0);
      helpers_ += wanted;
    }
  }
  for (int i = 0; i < wanted; ++i) {
    pool_->Schedule([self = ShareRef(this)] { self->Help(); });
  }
}

void ReadyQueue::BeginAsync() {
  MutexLock lock(mu_);
  ++pending_async_;
}

void ReadyQueue::EndAsync() {
  MutexLock lock(mu_);
  --pending_async_;
  if (Idle()) {
    maybe_work_.store(true, std::memory_order_relaxed);
    changed_.NotifyAll();
  }
}

bool ReadyQueue::TakeAndRun() {
  Item item{};
  {
    MutexLock lock(mu_);
    if (items_.empty()) {
      maybe_work_.store(false, std::memory_order_relaxed);
      return false;
    }
    item = items_.front();
    items_.pop_front();
    ++active_;
  }
  item.walker->RunFrom(item.node);
  MutexLock lock(mu_);
  --active_;
  if (Idle()) {
    maybe_work_.store(true, std::memory_order_relaxed);
    changed_.NotifyAll();
  }
  return true;
}

void ReadyQueue::SpinWhileEmpty() const {
  const auto until = std::chrono::steady_clock::now() + kSpin;
  while (!maybe_work_.load(std::memory_order_relaxed) && std::chrono::steady_clock::now() < until) {
  }
}

void ReadyQueue::WorkUntilDone() {
  while (true) {
    if (TakeAndRun()) continue;
    {
      MutexLock lock(mu_);
      if (Idle()) return;
    }
    SpinWhileEmpty();
    MutexLock lock(mu_);
    ++waiting_;
    while (items_.empty() && !Idle()) changed_.Wait(mu_);
    --waiting_;
  }
}

void ReadyQueue::Help() {
  while (TakeAndRun()) {
  }
  MutexLock lock(mu_);
  --helpers_;
}

}  // namespace millrace
