// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <new>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/cpu_relax.h"
#include "base/denormals.h"
#include "base/mutex.h"
#include "base/spinning_lock.h"
#include "base/task_queue.h"
#include "millrace/ref.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;

// A loop is shared only when it costs more than twice the waking of a sleeper, in blocks big enough to hide
// the cost of handing them out, and not so many that a long loop spends its time on the counter.
constexpr int64_t kMinParallelCostNs = 30'000;
constexpr int64_t kBlockCostNs = 20'000;
constexpr int64_t kMaxBlocks = 4 * 64;
constexpr int64_t kBlockAlignment = 64;
// The time for which an idle worker looks for work before it sleeps: about the longest pause between two
// loops of a training step. It is halved when the search was in vain.
constexpr int64_t kMinSpinNs = 4'000;
constexpr int64_t kMaxSpinNs = 200'000;
// The number of sleepers that the caller of ParallelFor wakes itself; these wake further ones.
constexpr int kDirectWakes = 2;

// Looks at `ready` until it is true or `ns` have passed; returns its last value.
template <typename Ready>
bool SpinUntil(int64_t ns, const Ready& ready) {
  if (ready()) return true;
  const auto deadline = Clock::now() + std::chrono::nanoseconds(ns);
  do {
    for (int i = 0; i < 16; ++i) {
      CpuRelax();
      if (ready()) return true;
    }
  } while (Clock::now() < deadline);
  return ready();
}

// A place where one thread sleeps until another one signals it, once.
class Parker {
 public:
  void Wait() MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (!signalled_) cv_.Wait(mu_);
    signalled_ = false;
  }
  void Signal() MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    signalled_ = true;
    cv_.NotifyOne();  // under the lock: the sleeper may destroy this as soon as it wakes
  }

 private:
  Mutex mu_;
  CondVar cv_;
  bool signalled_ MR_GUARDED_BY(mu_) = false;
};

// A thread that sleeps in the pool: a worker, or an outsider in HelpUntil, which has something to wait for.
struct Sleeper {
  Parker parker;
  const std::atomic<bool>* done = nullptr;
};

struct BlockPlan {
  int64_t block;
  int64_t count;
};

// Depends on the size and cost alone, so that sums made block by block do not change with the number of
// threads.
BlockPlan PlanBlocks(int64_t total, int64_t cost_ns) {
  cost_ns = std::max<int64_t>(cost_ns, 1);
  const int64_t limit = std::numeric_limits<int64_t>::max();
  const int64_t total_ns = total > limit / cost_ns ? limit : total * cost_ns;
  if (total_ns <= kMinParallelCostNs) return {total, 1};
  const int64_t wanted = std::min({total_ns / kBlockCostNs + 1, kMaxBlocks, total});
  int64_t block = total / wanted + (total % wanted != 0 ? 1 : 0);
  if (block >= kBlockAlignment && block <= limit - kBlockAlignment) {
    block = (block + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
  }
  return {block, total / block + (total % block != 0 ? 1 : 0)};
}

// One ParallelFor in progress. The caller and the helpers that joined hold a reference. `fn` lives on the
// caller's stack and is used only for a block taken before they ran out, for which the caller waits; a helper
// that comes late finds none and touches nothing else.
//
// Each thread begins with a part of its own, block after block, and continues with the parts of others. The
// part depends on the thread and not on the caller of ParallelFor, unless another thread has begun with it:
// what one loop leaves in a core's cache is then what the next loop over the same elements reads there.
struct Loop : RefCounted {
  Loop(ThreadPool::ShardFn f, int64_t n, BlockPlan p, int threads)
      : fn(f), total(n), plan(p), parts(std::min(threads, kMaxParts)), unfinished(p.count) {
    for (int i = 0; i < parts; ++i) {
      part[i].next.store(p.count * i / parts, std::memory_order_relaxed);
      part[i].end = p.count * (i + 1) / parts;
    }
  }

  bool Exhausted() const {
    return std::all_of(part, part + parts,
                       [](const Part& p) { return p.next.load(std::memory_order_relaxed) >= p.end; });
  }
  // By the worker of that number; -1: a thread outside the pool. `stop`, unless null: when it is set, this
  // thread takes no more blocks.
  void RunBlocks(int worker, const std::atomic<bool>* stop) {
    const int first = FirstPart(worker + 1);
    int64_t finished = 0;
    const auto go_on = [stop] { return stop == nullptr || !stop->load(std::memory_order_relaxed); };
    for (int i = 0; i < parts && go_on(); ++i) {
      Part& p = part[(first + i) % parts];
      for (int64_t b; go_on() && (b = p.next.fetch_add(1, std::memory_order_relaxed)) < p.end; ++finished) {
        try {
          fn(b * plan.block, std::min(total - b * plan.block, plan.block) + b * plan.block);
        } catch (const std::bad_alloc&) {
          out_of_memory.store(true, std::memory_order_relaxed);  // published by the release below
        }
      }
    }
    // Releases the writes of the blocks; acquired by the caller's load in Wait.
    if (finished > 0 && unfinished.fetch_sub(finished, std::memory_order_acq_rel) == finished)
      all_done.Signal();
  }
  // The part that belongs to a thread; the next free one where another thread of the loop has begun with it,
  // as there may be fewer parts than threads in the pool.
  int FirstPart(int thread) {
    int part_of_thread = thread % parts;
    for (int i = 0; i < parts; ++i, part_of_thread = (part_of_thread + 1) % parts) {
      const uint32_t bit = uint32_t{1} << part_of_thread;
      if ((begun.fetch_or(bit, std::memory_order_relaxed) & bit) == 0) break;
    }
    return part_of_thread;
  }
  // For the caller, after its own RunBlocks.
  void Wait(int64_t spin_ns) {
    if (SpinUntil(spin_ns, [this] { return unfinished.load(std::memory_order_acquire) == 0; })) return;
    all_done.Wait();
  }

  static constexpr int kMaxParts = 8;
  struct alignas(64) Part {
    std::atomic<int64_t> next;  // relaxed: only distributes numbers, publishes no data
    int64_t end;
  };

  const ThreadPool::ShardFn fn;
  const int64_t total;
  const BlockPlan plan;
  const int parts;
  Part part[kMaxParts];
  std::atomic<uint32_t> begun{0};  // a bit for each part that a thread began with
  std::atomic<int64_t> unfinished;
  std::atomic<bool> out_of_memory{false};  // a block threw std::bad_alloc
  Parker all_done;
  int helpers_wanted = 0;  // Guarded by Impl::loops_mu.
};

struct CurrentThread {
  ThreadPool::Impl* pool = nullptr;
  int worker = -1;
};
// initial-exec: no call to find it, in a shared library either.
constinit thread_local CurrentThread current_thread __attribute__((tls_model("initial-exec")));

}  // namespace

// Sleeping protocol. A worker that finds nothing counts itself in `spinners`, looks for a while, leaves the
// count, enters `idle` and looks once more before it sleeps. A thread that adds work looks at `spinners` and
// then at `idle` after the work is visible. All these accesses are seq_cst, so either the adder sees the
// worker or the worker sees the work. The last spinner wakes the next sleeper when it takes work and there is
// more: one task wakes at most one thread, and none while a thread is searching.
struct ThreadPool::Impl {
  struct Worker {
    TaskQueue queue;
    Sleeper sleeper;
    int64_t spin_ns = kMaxSpinNs;  // used by the worker alone
  };

  Impl(std::string n, int p)
      : name(std::move(n)),
        parallelism(std::max(p, 1)),
        // Spinning pays only when no other thread needs the core.
        max_spin_ns(parallelism <= static_cast<int>(std::thread::hardware_concurrency()) ? kMaxSpinNs : 0),
        workers(static_cast<size_t>(std::max(parallelism - 1, 1))) {}

  // The number of the worker that calls; -1: a thread outside the pool.
  int Self() const { return current_thread.pool == this ? current_thread.worker : -1; }
  // While it lives, the destructor of the pool waits. A worker needs none: the destructor joins it.
  class Visit {
   public:
    explicit Visit(Impl* pool) : visitors_(pool->Self() < 0 ? &pool->visitors : nullptr) {
      if (visitors_ != nullptr) visitors_->fetch_add(1, std::memory_order_relaxed);
    }
    ~Visit() {
      if (visitors_ != nullptr) visitors_->fetch_sub(1, std::memory_order_release);  // pairs with ~ThreadPool
    }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

   private:
    std::atomic<int>* const visitors_;
  };

  void Start() MR_EXCLUDES(start_mu);
  void WorkerMain(int index);
  bool RunLoopOrTask(int self, bool* spinning);
  TaskQueue::Task TakeTask(int self);
  RefPtr<Loop> JoinLoop() MR_EXCLUDES(loops_mu);
  void AddLoop(Loop* loop, int helpers) MR_EXCLUDES(loops_mu);
  void RemoveLoop(Loop* loop) MR_EXCLUDES(loops_mu);
  bool HasWork() const;
  void StopSpinning(bool* spinning);
  bool Park(Sleeper* sleeper) MR_EXCLUDES(idle_mu);
  bool LeaveIdle(Sleeper* sleeper) MR_EXCLUDES(idle_mu);
  bool WakeOne() MR_EXCLUDES(idle_mu);
  void WakeForTask() {
    if (spinners.load(std::memory_order_seq_cst) == 0) WakeOne();
  }

  const std::string name;
  const int parallelism;
  const int64_t max_spin_ns;

  std::vector<Worker> workers;  // never resized
  TaskQueue injected;           // from threads outside the pool
  std::atomic<bool> stop{false};
  std::atomic<int> started{0};  // threads that run; pairs release in Start with acquire in its readers
  std::atomic<int> spinners{0};
  std::atomic<int> num_idle{0};
  std::atomic<int> num_loops{0};
  // Calls of threads outside the pool that have handed over a task or set a flag and have not returned yet.
  // The pool's owner may destroy it as soon as the task has run.
  std::atomic<int> visitors{0};

  Mutex start_mu;
  std::vector<std::thread> threads MR_GUARDED_BY(start_mu);
  Mutex idle_mu;
  std::vector<Sleeper*> idle MR_GUARDED_BY(idle_mu);
  Mutex loops_mu;
  std::vector<Loop*> loops MR_GUARDED_BY(loops_mu);  // the loops that still accept helpers
};

void ThreadPool::Impl::Start() {
  if (started.load(std::memory_order_acquire) != 0) return;
  MutexLock lock(start_mu);
  if (!threads.empty()) return;
  for (size_t i = 0; i < workers.size(); ++i) {
    try {
      threads.emplace_back([this, i] { WorkerMain(static_cast<int>(i)); });
    } catch (const std::system_error&) {
      break;  // the system has no more threads to give: continue with fewer
    }
  }
  started.store(static_cast<int>(threads.size()), std::memory_order_release);
}

bool ThreadPool::Impl::HasWork() const {
  if (num_loops.load(std::memory_order_seq_cst) != 0 || injected.MayHaveTasks()) return true;
  return std::any_of(workers.begin(), workers.end(), [](const Worker& w) { return w.queue.MayHaveTasks(); });
}

TaskQueue::Task ThreadPool::Impl::TakeTask(int self) {
  if (self >= 0) {
    if (TaskQueue::Task task = workers[self].queue.PopYoungest()) return task;
  }
  if (TaskQueue::Task task = injected.PopOldest()) return task;
  const size_t n = workers.size();
  const size_t first = static_cast<size_t>(self + 1);
  for (size_t i = 0; i < n; ++i) {
    if (TaskQueue::Task task = workers[(first + i) % n].queue.PopOldest()) return task;
  }
  return nullptr;
}

RefPtr<Loop> ThreadPool::Impl::JoinLoop() {
  if (num_loops.load(std::memory_order_seq_cst) == 0) return nullptr;
  SpinningLock lock(loops_mu);
  while (!loops.empty()) {
    Loop* loop = loops.back();
    const bool exhausted = loop->Exhausted();
    if (exhausted || --loop->helpers_wanted == 0) {
      loops.pop_back();
      num_loops.store(static_cast<int>(loops.size()), std::memory_order_relaxed);
    }
    if (!exhausted) return ShareRef(loop);
  }
  return nullptr;
}

void ThreadPool::Impl::AddLoop(Loop* loop, int helpers) {
  SpinningLock lock(loops_mu);
  loop->helpers_wanted = helpers;
  loops.push_back(loop);
  num_loops.store(static_cast<int>(loops.size()), std::memory_order_seq_cst);
}

void ThreadPool::Impl::RemoveLoop(Loop* loop) {
  SpinningLock lock(loops_mu);
  std::erase(loops, loop);
  num_loops.store(static_cast<int>(loops.size()), std::memory_order_relaxed);
}

void ThreadPool::Impl::StopSpinning(bool* spinning) {
  if (!std::exchange(*spinning, false)) return;
  if (spinners.fetch_sub(1, std::memory_order_seq_cst) == 1 && HasWork()) WakeOne();
}

// Helps a loop or runs a task; false when there is neither.
bool ThreadPool::Impl::RunLoopOrTask(int self, bool* spinning) {
  if (RefPtr<Loop> loop = JoinLoop(); loop != nullptr) {
    StopSpinning(spinning);
    loop->RunBlocks(self, nullptr);
    return true;
  }
  TaskQueue::Task task = TakeTask(self);
  if (!task) return false;
  StopSpinning(spinning);
  task();
  return true;
}

bool ThreadPool::Impl::WakeOne() {
  if (num_idle.load(std::memory_order_seq_cst) == 0) return false;
  Sleeper* sleeper;
  {
    SpinningLock lock(idle_mu);
    if (idle.empty()) return false;
    sleeper = idle.back();  // the last to sleep has the warmest caches
    idle.pop_back();
    num_idle.store(static_cast<int>(idle.size()), std::memory_order_seq_cst);
    spinners.fetch_add(1, std::memory_order_seq_cst);  // on behalf of the woken thread
  }
  sleeper->parker.Signal();
  return true;
}

bool ThreadPool::Impl::LeaveIdle(Sleeper* sleeper) {
  SpinningLock lock(idle_mu);
  if (std::erase(idle, sleeper) == 0) return false;
  num_idle.store(static_cast<int>(idle.size()), std::memory_order_seq_cst);
  return true;
}

// Sleeps until woken, if there is nothing to do. Returns true when woken: then the caller counts as a
// spinner.
bool ThreadPool::Impl::Park(Sleeper* sleeper) {
  {
    SpinningLock lock(idle_mu);
    idle.push_back(sleeper);
    num_idle.store(static_cast<int>(idle.size()), std::memory_order_seq_cst);
  }
  const auto* done = sleeper->done;
  if (HasWork() || stop.load(std::memory_order_seq_cst) ||
      (done != nullptr && done->load(std::memory_order_seq_cst))) {
    if (LeaveIdle(sleeper)) return false;
  }
  sleeper->parker.Wait();
  return true;
}

void ThreadPool::Impl::WorkerMain(int index) {
  current_thread = {this, index};
  const ScopedFlushDenormals flush;
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
  Worker& me = workers[index];
  me.spin_ns = max_spin_ns;
  bool spinning = false;
  for (;;) {
    if (RunLoopOrTask(index, &spinning)) continue;
    if (stop.load(std::memory_order_seq_cst) && !HasWork()) break;
    if (!spinning) {
      spinners.fetch_add(1, std::memory_order_seq_cst);
      spinning = true;
    }
    if (SpinUntil(me.spin_ns, [this] { return HasWork() || stop.load(std::memory_order_relaxed); })) {
      me.spin_ns = max_spin_ns;
      continue;
    }
    me.spin_ns = std::max(me.spin_ns / 2, std::min(kMinSpinNs, max_spin_ns));
    spinners.fetch_sub(1, std::memory_order_seq_cst);
    spinning = Park(&me.sleeper);
  }
  if (spinning) spinners.fetch_sub(1, std::memory_order_seq_cst);
}

namespace {

// The pools of this process. In a child of fork() all of them are as if they had just been made: tasks that
// were waiting or running are lost there.
class AllPools {
 public:
  static AllPools& Get() {
    static AllPools& all = *new AllPools;
    return all;
  }
  void Add(ThreadPool::Impl* pool) MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    pools_.insert(pool);
  }
  void Remove(ThreadPool::Impl* pool) MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    pools_.erase(pool);
  }

 private:
  // No pool is being made or destroyed while the process is copied.
  AllPools() { ::pthread_atfork(BeforeFork, InParent, InChild); }
  static void BeforeFork() MR_NO_THREAD_SAFETY_ANALYSIS { Get().mu_.Lock(); }
  static void InParent() MR_NO_THREAD_SAFETY_ANALYSIS { Get().mu_.Unlock(); }
  static void InChild() MR_NO_THREAD_SAFETY_ANALYSIS {
    Get().Renew();
    Get().mu_.Unlock();
  }
  void Renew() MR_REQUIRES(mu_) {
    current_thread = {};
    for (ThreadPool::Impl* pool : pools_) {
      std::string name = pool->name;
      // Not destroyed first: its threads can't be joined.
      new (pool) ThreadPool::Impl(std::move(name), pool->parallelism);
    }
  }

  Mutex mu_;
  std::set<ThreadPool::Impl*> pools_ MR_GUARDED_BY(mu_);
};

}  // namespace

ThreadPool::ThreadPool(std::string name, int parallelism)
    : parallelism_(std::max(parallelism, 1)),
      owned_(std::make_unique<Impl>(std::move(name), parallelism)),
      impl_(owned_.get()) {
  AllPools::Get().Add(impl_);
}

ThreadPool::ThreadPool(ThreadPool& base, int parallelism)
    : parallelism_(std::clamp(parallelism, 1, base.parallelism())), impl_(base.impl_) {}

ThreadPool::~ThreadPool() {
  if (owned_ == nullptr) return;
  impl_->stop.store(true, std::memory_order_seq_cst);
  while (impl_->WakeOne()) {
  }
  std::vector<std::thread> threads;
  {
    MutexLock lock(impl_->start_mu);
    threads.swap(impl_->threads);
  }
  for (std::thread& thread : threads) thread.join();
  while (impl_->visitors.load(std::memory_order_acquire) != 0) std::this_thread::yield();
  AllPools::Get().Remove(impl_);
}

void ThreadPool::Schedule(Task task) {
  Impl* const impl = impl_;  // *this may be destroyed as soon as the task has run
  impl->Start();
  if (current_thread.pool == impl) {
    impl->workers[current_thread.worker].queue.Push(std::move(task));
  } else if (impl->started.load(std::memory_order_acquire) != 0) {
    const Impl::Visit visit(impl);
    impl->injected.Push(std::move(task));
    return impl->WakeForTask();
  } else {
    return task();  // no thread could be started
  }
  impl->WakeForTask();
}

void ThreadPool::ParallelFor(int64_t total, int64_t cost_ns, ShardFn fn) {
  if (total <= 0) return;
  const BlockPlan plan = PlanBlocks(total, cost_ns);
  if (plan.count == 1) return fn(0, total);
  if (parallelism_ == 1) {
    for (int64_t b = 0; b < plan.count; ++b) {
      fn(b * plan.block, std::min(total - b * plan.block, plan.block) + b * plan.block);
    }
    return;
  }
  impl_->Start();
  const int helpers = static_cast<int>(std::min<int64_t>(plan.count - 1, parallelism_ - 1));
  const RefPtr<Loop> loop = MakeRef<Loop>(fn, total, plan, helpers + 1);
  impl_->AddLoop(loop.get(), helpers);
  const int wakes = std::min(helpers - impl_->spinners.load(std::memory_order_seq_cst), kDirectWakes);
  for (int i = 0; i < wakes && impl_->WakeOne(); ++i) {
  }
  loop->RunBlocks(impl_->Self(), nullptr);
  impl_->RemoveLoop(loop.get());
  loop->Wait(impl_->max_spin_ns);
  if (loop->out_of_memory.load(std::memory_order_relaxed)) throw std::bad_alloc();
}

bool ThreadPool::HelpLoop(const std::atomic<bool>& stop) {
  const RefPtr<Loop> loop = impl_->JoinLoop();
  if (loop == nullptr) return false;
  const ScopedFlushDenormals flush;  // as the workers do
  loop->RunBlocks(impl_->Self(), &stop);
  return true;
}

void ThreadPool::HelpUntil(const std::atomic<bool>& done) {
  const int self = impl_->Self();
  const auto is_done = [&done] { return done.load(std::memory_order_seq_cst); };  // pairs with SignalDone
  Sleeper sleeper;
  sleeper.done = &done;
  bool spinning = false;
  while (!is_done()) {
    if (impl_->RunLoopOrTask(self, &spinning)) continue;
    if (!spinning) {
      impl_->spinners.fetch_add(1, std::memory_order_seq_cst);
      spinning = true;
    }
    if (SpinUntil(impl_->max_spin_ns, [&] { return is_done() || impl_->HasWork(); })) continue;
    impl_->spinners.fetch_sub(1, std::memory_order_seq_cst);
    spinning = impl_->Park(&sleeper);
  }
  impl_->StopSpinning(&spinning);
}

void ThreadPool::SignalDone(std::atomic<bool>& done) {
  const std::atomic<bool>* key = &done;
  const Impl::Visit visit(impl_);
  done.store(true, std::memory_order_seq_cst);
  // From here on `done` may be destroyed; its address only identifies the sleeper.
  if (impl_->num_idle.load(std::memory_order_seq_cst) == 0) return;
  Sleeper* sleeper = nullptr;
  {
    SpinningLock lock(impl_->idle_mu);
    const auto it =
        std::find_if(impl_->idle.begin(), impl_->idle.end(), [key](Sleeper* s) { return s->done == key; });
    if (it == impl_->idle.end()) return;
    sleeper = *it;
    impl_->idle.erase(it);
    impl_->num_idle.store(static_cast<int>(impl_->idle.size()), std::memory_order_seq_cst);
    impl_->spinners.fetch_add(1, std::memory_order_seq_cst);  // on behalf of the woken thread
  }
  sleeper->parker.Signal();
}

int ThreadPool::CurrentWorker() const {
  return current_thread.pool == impl_ && impl_->parallelism > 1 ? current_thread.worker : -1;
}

}  // namespace millrace
