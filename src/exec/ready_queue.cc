// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/ready_queue.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <utility>

#include "exec/blocking_watch.h"

namespace millrace {
namespace {

// The approximate cost of waking a sleeping thread.
constexpr auto kSpin = std::chrono::microseconds(20);
// For a thread that has helped with a loop in this wait: another loop is probably near.
constexpr auto kSpinBetweenLoops = std::chrono::microseconds(100);

// Work that belongs to another step. Deletes itself.
class Task final : public Walker {
 public:
  explicit Task(UniqueFunction<void()> work) : work_(std::move(work)) {}
  void Start(uint32_t /*first*/) override {}
  void RunFrom(const ReadyItem& /*item*/) override {
    UniqueFunction<void()> work = std::move(work_);
    delete this;
    work();
  }
  Status Finish(bool /*ok*/) override { return Status(); }

 private:
  UniqueFunction<void()> work_;
};

}  // namespace

void ReadyQueue::Push(std::span<const Item> items) {
  if (items.empty()) return;
  int wanted = 0;
  bool work_here = false, work_beside = false;
  {
    MutexLock lock(mu_);
    items_.Push(items);
    maybe_work_.store(true, std::memory_order_relaxed);  // a hint; the lock orders the data
    const int waiting = waiting_ ? 1 : 0;
    if (waiting_) {
      SetWaiting(false);
      changed_.NotifyAll();
    }
    if (pool_ != nullptr) {
      // A step with its own thread has that one in addition.
      const int most = pool_->parallelism() - (detached_ ? 0 : 1);
      wanted = std::min<int>(static_cast<int>(items.size()) - waiting, most - helpers_);
      wanted = std::max(wanted, 0);
      helpers_ += wanted;
    } else if (detached_ && helpers_ == 0) {
      ++helpers_;
      work_here = true;
    } else if (in_call_ && helpers_ == 0) {
      // The call may be waiting for one of these.
      ++helpers_;
      work_beside = true;
    }
  }
  if (work_beside) HelpInBlockingThread();
  if (work_here && host_ != nullptr) {
    host_->Schedule([self = ShareRef(this)] { self->Help(); });
  } else if (work_here) {
    Help();
  }
  for (int i = 0; i < wanted; ++i) {
    pool_->Schedule([self = ShareRef(this)] { self->Help(); });
  }
}

bool ReadyQueue::HandOver(const Item& item) {
  if (!own_thread_waits_.load(std::memory_order_relaxed)) return false;
  MutexLock lock(mu_);
  if (!waiting_ || handed_over_.walker != nullptr) return false;
  SetWaiting(false);  // later work needs another thread
  handed_over_ = item;
  changed_.NotifyAll();
  return true;
}

void ReadyQueue::Schedule(UniqueFunction<void()> task) {
  const RefPtr<ReadyQueue> self = ShareRef(this);  // the step may have waited for this task
  const Item item{.walker = new Task(std::move(task))};
  Push({&item, 1});
}

void ReadyQueue::WorkAndEndAsync() {
  {
    MutexLock lock(mu_);
    ++helpers_;
  }
  Help();
  EndAsync(true);
}

// The first thread that detects the end of a detached step takes the callback.
void ReadyQueue::CheckDone(bool works) {
  UniqueFunction<void(bool)> when_done;
  {
    MutexLock lock(mu_);
    if (!Idle() || !when_done_) return;
    when_done = std::move(when_done_);
    when_done_ = nullptr;
  }
  when_done(works);
}

void ReadyQueue::BeginAsync() {
  MutexLock lock(mu_);
  ++pending_async_;
}

void ReadyQueue::EndAsync() { EndAsync(false); }

void ReadyQueue::EndAsync(bool works) {
  {
    MutexLock lock(mu_);
    --pending_async_;
    if (!Idle()) return;
    maybe_work_.store(true, std::memory_order_relaxed);
    changed_.NotifyAll();
  }
  if (detached_) CheckDone(works);
}

bool ReadyQueue::TakeAndRun(bool own) {
  Item item{};
  {
    MutexLock lock(mu_);
    if (own && handed_over_.walker != nullptr) {
      item = std::exchange(handed_over_, Item());
    } else if (items_.empty()) {
      maybe_work_.store(false, std::memory_order_relaxed);
      return false;
    } else {
      item = items_.Pop();
    }
    if (items_.empty()) maybe_work_.store(false, std::memory_order_relaxed);
    ++active_;
  }
  item.walker->RunFrom(item);
  {
    MutexLock lock(mu_);
    --active_;
    if (!Idle()) return true;
    maybe_work_.store(true, std::memory_order_relaxed);
    changed_.NotifyAll();
  }
  if (detached_) CheckDone(true);
  return true;
}

void ReadyQueue::SpinWhileEmpty() const {
  // A thread whose waits take longer, for example for an input pipeline, would take a processor from the work
  // it waits for. It sleeps at once, except in every few waits.
  constexpr unsigned kMaxFailedWaits = 4, kRetryInterval = 16;
  thread_local unsigned failed_waits = 0;
  if (failed_waits >= kMaxFailedWaits && ++failed_waits % kRetryInterval != 0) return;
  auto until = std::chrono::steady_clock::now() + kSpin;
  while (!maybe_work_.load(std::memory_order_relaxed)) {
    // The workers run nodes of this step, whose loops they would otherwise run alone.
    if (pool_ != nullptr && pool_->HelpLoop(maybe_work_)) {
      failed_waits = 0;
      until = std::chrono::steady_clock::now() + kSpinBetweenLoops;
      continue;
    }
    if (std::chrono::steady_clock::now() < until) continue;
    ++failed_waits;
    return;
  }
  failed_waits = 0;
}

void ReadyQueue::HelpInBlockingThread() {
  UniqueFunction<void()> help = [self = ShareRef(this)] { self->Help(); };
  if (RunInBlockingThread(help)) return;
  MutexLock lock(mu_);
  --helpers_;  // the step's own thread takes ready nodes after its call
}

bool ReadyQueue::Take(BlockingCall& call) {
  bool watch = false;
  {
    MutexLock lock(mu_);
    // The step's own thread will run it soon.
    if (!in_call_ && !waiting_ && own_thread_ != std::this_thread::get_id()) return false;
    const bool alone = put_off_.empty() && !in_call_ && items_.empty() && pending_async_ == 1;
    if (call.slow() && !alone) return false;
    const bool slow_last = !put_off_.empty() && put_off_.back().slow();
    put_off_.insert(slow_last ? std::prev(put_off_.end()) : put_off_.end(), std::move(call));
    has_put_off_.store(true, std::memory_order_relaxed);  // hints; the lock orders the data
    maybe_work_.store(true, std::memory_order_relaxed);
    if (waiting_) {
      SetWaiting(false);
      changed_.NotifyAll();
    }
    if (in_call_ && !watched_) watched_ = watch = true;
  }
  if (watch) BlockingWatch::Global().Add(ShareRef(this));
  return true;
}

bool ReadyQueue::RunPutOff() {
  std::optional<BlockingCall> call;
  bool watch = false;
  {
    MutexLock lock(mu_);
    if (put_off_.empty()) return false;
    if (!items_.empty() || handed_over_.walker != nullptr) return true;
    call = std::move(put_off_.front());
    put_off_.pop_front();
    in_call_ = true;
    ++calls_;
    has_put_off_.store(!put_off_.empty(), std::memory_order_relaxed);
    if (!put_off_.empty() && !watched_) watched_ = watch = true;
  }
  if (watch) BlockingWatch::Global().Add(ShareRef(this));
  Status status = call->Compute();
  {
    MutexLock lock(mu_);
    in_call_ = false;
  }
  call->Finish(std::move(status));
  return true;
}

void ReadyQueue::GivePutOffAway() {
  std::list<BlockingCall> calls;
  {
    MutexLock lock(mu_);
    if (own_thread_ != std::this_thread::get_id()) return;
    calls.swap(put_off_);
    has_put_off_.store(false, std::memory_order_relaxed);
  }
  for (BlockingCall& call : calls) BlockingCall::RunInThread(std::move(call));
}

bool ReadyQueue::Look(bool is_last) {
  std::list<BlockingCall> calls;
  bool goes_on = true;
  {
    MutexLock lock(mu_);
    if (put_off_.empty()) {
      watched_ = goes_on = false;
    } else if (is_last || (in_call_ && calls_ == calls_at_look_)) {
      calls.swap(put_off_);
      has_put_off_.store(false, std::memory_order_relaxed);
      watched_ = goes_on = false;
    }
    calls_at_look_ = calls_;
  }
  for (BlockingCall& call : calls) BlockingCall::RunInThread(std::move(call));
  return goes_on;
}

void ReadyQueue::WorkUntilDone() {
  while (true) {
    if (TakeAndRun(true) || RunPutOff()) continue;
    {
      MutexLock lock(mu_);
      if (Idle()) return;
    }
    SpinWhileEmpty();
    MutexLock lock(mu_);
    while (items_.empty() && handed_over_.walker == nullptr && put_off_.empty() && !Idle()) {
      SetWaiting(true);
      changed_.Wait(mu_);
    }
    SetWaiting(false);
  }
}

void ReadyQueue::Help() {
  while (true) {
    while (TakeAndRun(false)) {
      // Without a pool the thread belongs to the host, which therefore still exists, and whose other work
      // gets its turn.
      if (pool_ == nullptr && host_ != nullptr && host_->maybe_ready())
        return host_->Schedule([self = ShareRef(this)] { self->Help(); });
    }
    MutexLock lock(mu_);
    // Nodes that became ready since then were left to this thread.
    if (!items_.empty()) continue;
    --helpers_;
    return;
  }
}

}  // namespace millrace
