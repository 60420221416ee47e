// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <span>
#include <thread>

#include "base/function.h"
#include "base/mutex.h"
#include "base/thread_pool.h"
#include "exec/item_fifo.h"
#include "exec/walker.h"
#include "kernel/blocking_kernel.h"
#include "millrace/ref.h"

namespace millrace {

// What is worth waking the step's own thread for, see HandOver.
inline constexpr uint32_t kHandOverNs = 200'000;

// The nodes of one step that are ready and not yet taken, of all its partitions. Either the thread that runs
// the step works on it until the step is over, or the one that finds the step over calls `when_done`. When
// there is more than one thread can take, workers of the pool help. Thread-safe.
//
// Kernels that may block are put off until the step's own thread has nothing else to do, which then runs them
// one after the other. Where one takes long, the others get threads of their own, and so do nodes that become
// ready meanwhile: what it waits for may be among them.
class ReadyQueue final : public RefCounted, public BlockingHost {
 public:
  using Item = ReadyItem;

  // By the step's own thread. `pool` null: it does everything; or else the one that makes a node ready.
  explicit ReadyQueue(ThreadPool* pool) : pool_(pool) {}
  // For a step without a thread of its own. Without a pool the thread of `host`, which outlives the work,
  // takes what becomes ready; null: its producer. `when_done` runs once, on the thread that did the
  // last piece of work; its argument is whether that one works for the step, or has only brought what it
  // waited for.
  ReadyQueue(ThreadPool* pool, ReadyQueue* host, UniqueFunction<void(bool)> when_done)
      : pool_(pool), detached_(true), host_(host), when_done_(std::move(when_done)) {}

  bool parallel() const { return pool_ != nullptr; }
  // Whether there may be nodes that no thread has taken: advice.
  bool maybe_ready() const {
    return maybe_work_.load(std::memory_order_relaxed) || (host_ != nullptr && host_->maybe_ready());
  }
  bool detached() const { return detached_; }
  void Push(std::span<const Item> items) MR_EXCLUDES(mu_);
  // Gives a node to the step's own thread if that has nothing to do but to wait; else false. For long nodes:
  // that thread helps with loops only until it sleeps, whereas the pool wakes a worker for them.
  bool HandOver(const Item& item) MR_EXCLUDES(mu_);
  // Has `task` run by a thread that works for this step.
  void Schedule(UniqueFunction<void()> task) MR_EXCLUDES(mu_);
  // Puts a call of this step, or of a function call within it, off. False: it needs a thread of its own now.
  bool Take(BlockingCall& call) override MR_EXCLUDES(mu_);
  // Gives calls that are put off to other threads: the own thread, if it is the calling one, has a long node
  // to run.
  void ReleasePutOff() MR_EXCLUDES(mu_) {
    if (has_put_off_.load(std::memory_order_relaxed)) GivePutOffAway();
  }
  // Called from time to time while calls are put off behind another one. If that is still the one of the last
  // look, or if there is no next look, they get threads of their own. False: there are none any more.
  bool Look(bool is_last) MR_EXCLUDES(mu_);
  // An asynchronous kernel has started, so the step isn't over although nothing may be ready; and has ended.
  void BeginAsync() MR_EXCLUDES(mu_);
  void EndAsync() MR_EXCLUDES(mu_);
  // Works until nothing is ready, nothing runs and no asynchronous kernel is pending.
  void WorkUntilDone() MR_EXCLUDES(mu_);
  // Works until nothing is ready, then ends what BeginAsync began; for a step without a thread of its own.
  void WorkAndEndAsync() MR_EXCLUDES(mu_);

 private:
  void Help() MR_EXCLUDES(mu_);
  // By the own thread: runs the first call that is put off. False: there is none.
  bool RunPutOff() MR_EXCLUDES(mu_);
  void GivePutOffAway() MR_EXCLUDES(mu_);
  void HelpInBlockingThread() MR_EXCLUDES(mu_);
  void EndAsync(bool works) MR_EXCLUDES(mu_);
  void CheckDone(bool works) MR_EXCLUDES(mu_);
  // `own`: by the step's own thread.
  bool TakeAndRun(bool own) MR_EXCLUDES(mu_);
  bool Idle() const MR_REQUIRES(mu_) {
    return items_.empty() && handed_over_.walker == nullptr && active_ == 0 && pending_async_ == 0;
  }
  void SpinWhileEmpty() const;
  void SetWaiting(bool waiting) MR_REQUIRES(mu_) {
    waiting_ = waiting;
    own_thread_waits_.store(waiting, std::memory_order_relaxed);
  }

  ThreadPool* const pool_;
  const bool detached_ = false;
  ReadyQueue* const host_ = nullptr;
  // Hints for spinning: changes of what mu_ guards, published for readers that don't lock.
  std::atomic<bool> maybe_work_{false};
  std::atomic<bool> own_thread_waits_{false};  // a hint of waiting_
  Mutex mu_;
  CondVar changed_;
  ItemFifo items_ MR_GUARDED_BY(mu_);
  Item handed_over_ MR_GUARDED_BY(mu_);  // for the step's own thread; no walker: none
  int active_ MR_GUARDED_BY(mu_) = 0;    // threads inside a walker
  int pending_async_ MR_GUARDED_BY(mu_) = 0;
  int helpers_ MR_GUARDED_BY(mu_) = 0;       // scheduled or working
  bool waiting_ MR_GUARDED_BY(mu_) = false;  // the step's own thread, for work: it was not woken yet
  const std::thread::id own_thread_ = std::this_thread::get_id();  // unless detached
  std::list<BlockingCall> put_off_ MR_GUARDED_BY(mu_);             // a slow one is the last
  std::atomic<bool> has_put_off_{false};                           // a hint of that
  bool in_call_ MR_GUARDED_BY(mu_) = false;  // the own thread is in one that was put off
  uint64_t calls_ MR_GUARDED_BY(mu_) = 0;    // that it has begun
  uint64_t calls_at_look_ MR_GUARDED_BY(mu_) = 0;
  bool watched_ MR_GUARDED_BY(mu_) = false;  // a thread calls Look
  UniqueFunction<void(bool)> when_done_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace
