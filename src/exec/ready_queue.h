// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <span>

#include "base/mutex.h"
#include "base/thread_pool.h"
#include "millrace/ref.h"

namespace millrace {

class FlatWalker;

// The nodes of one step that are ready and not yet taken, of all its partitions. The thread that runs the
// step works on it until the step is over; when there is more than it can take, workers of the pool help.
// Thread-safe.
class ReadyQueue : public RefCounted {
 public:
  struct Item {
    FlatWalker* walker;
    uint32_t node;
  };

  // `pool` null: the step's own thread does everything.
  explicit ReadyQueue(ThreadPool* pool) : pool_(pool) {}

  bool parallel() const { return pool_ != nullptr; }
  void Push(std::span<const Item> items) MR_EXCLUDES(mu_);
  // An asynchronous kernel has started, so the step isn't over although nothing may be ready; and has ended.
  void BeginAsync() MR_EXCLUDES(mu_);
  void EndAsync() MR_EXCLUDES(mu_);
  // Works until nothing is ready, nothing runs and no asynchronous kernel is pending.
  void WorkUntilDone() MR_EXCLUDES(mu_);

 private:
  void Help() MR_EXCLUDES(mu_);
  bool TakeAndRun() MR_EXCLUDES(mu_);
  bool Idle() const MR_REQUIRES(mu_) { return items_.empty() && active_ == 0 && pending_async_ == 0; }
  void SpinWhileEmpty() const;

  ThreadPool* const pool_;
  // Hints for spinning: changes of what mu_ guards, published for readers that don't lock.
  std::atomic<bool> maybe_work_{false};
  Mutex mu_;
  CondVar changed_;
  std::deque<Item> items_ MR_GUARDED_BY(mu_);
  int active_ MR_GUARDED_BY(mu_) = 0;  // threads inside a walker
  int pending_async_ MR_GUARDED_BY(mu_) = 0;
  int helpers_ MR_GUARDED_BY(mu_) = 0;  // scheduled or working
  int waiting_ MR_GUARDED_BY(mu_) = 0;
};

}  // namespace millrace
