// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/function.h"
#include "base/spinning_lock.h"

namespace millrace {

// The tasks of one worker, or those from outside the pool. Thread-safe. A ring that grows, so that no memory
// is allocated per task. It uses a mutex, which is nearly always free for the owner.
class alignas(64) TaskQueue {
 public:
  using Task = UniqueFunction<void()>;

  void Push(Task task) MR_EXCLUDES(mu_) {
    SpinningLock lock(mu_);
    if (count_ == ring_.size()) Grow();
    ring_[(head_ + count_) & (ring_.size() - 1)] = std::move(task);
    ++count_;
    // seq_cst: with the load of the number of sleepers it forms a Dekker pair (see ThreadPool::Impl::Park).
    size_.store(count_, std::memory_order_seq_cst);
  }
  // The youngest task, or an empty one.
  Task PopYoungest() MR_EXCLUDES(mu_) {
    if (!MayHaveTasks()) return nullptr;
    SpinningLock lock(mu_);
    if (count_ == 0) return nullptr;
    SetCount(count_ - 1);
    return std::move(ring_[(head_ + count_) & (ring_.size() - 1)]);
  }
  // The oldest task, or an empty one.
  Task PopOldest() MR_EXCLUDES(mu_) {
    if (!MayHaveTasks()) return nullptr;
    SpinningLock lock(mu_);
    if (count_ == 0) return nullptr;
    SetCount(count_ - 1);
    const size_t at = head_;
    head_ = (head_ + 1) & (ring_.size() - 1);
    return std::move(ring_[at]);
  }
  // Without the lock; exact only when no other thread uses the queue.
  bool MayHaveTasks() const { return size_.load(std::memory_order_seq_cst) != 0; }  // pairs with Push

 private:
  void SetCount(size_t count) MR_REQUIRES(mu_) {
    count_ = count;
    size_.store(count, std::memory_order_relaxed);  // a reader of the old value checks again under the lock
  }
  void Grow() MR_REQUIRES(mu_) {
    std::vector<Task> bigger(ring_.empty() ? 16 : ring_.size() * 2);
    for (size_t i = 0; i < count_; ++i) bigger[i] = std::move(ring_[(head_ + i) & (ring_.size() - 1)]);
    ring_.swap(bigger);
    head_ = 0;
  }

  std::atomic<size_t> size_{0};
  Mutex mu_;
  std::vector<Task> ring_ MR_GUARDED_BY(mu_);  // the size is a power of two
  size_t head_ MR_GUARDED_BY(mu_) = 0;
  size_t count_ MR_GUARDED_BY(mu_) = 0;
};

}  // namespace millrace
