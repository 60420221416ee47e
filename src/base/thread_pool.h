// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/function.h"

namespace millrace {

// The work-stealing pool that inter-op scheduling and the loops inside kernels share. A thread outside the
// pool that calls ParallelFor or HelpUntil takes part, so a pool for N-way parallelism has N-1 workers.
// Thread-safe. No task may block on another task of the pool except through ParallelFor or HelpUntil.
class ThreadPool {
 public:
  using Task = UniqueFunction<void()>;
  using ShardFn = FunctionRef<void(int64_t begin, int64_t end)>;

  // `parallelism` >= 1 counts the calling thread: parallelism - 1 workers are started, on first use.
  ThreadPool(std::string name, int parallelism);
  // The workers of `base` again, but at most `parallelism` - 1 of them (and of what `base` has) for one loop
  // or one step. REQUIRES: `base` outlives this.
  ThreadPool(ThreadPool& base, int parallelism);
  // Runs all scheduled work, then joins; unless the workers are those of another pool.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int parallelism() const { return parallelism_; }

  // Runs `task` soon, on a worker; with parallelism 1 on a thread that the pool starts for the purpose.
  // A worker's own tasks go to its own queue, newest first; others steal the oldest.
  void Schedule(Task task);

  // Calls fn on disjoint ranges that cover [0, total) and returns when all are done; the caller runs shards
  // too. Ranges are blocks of a size that depends only on total and cost, never on the number of threads.
  // Runs in the caller alone when the whole costs less than waking a thread. `cost_ns` is the estimated time
  // per unit. A std::bad_alloc of a shard is thrown again here, after all shards have ended.
  void ParallelFor(int64_t total, int64_t cost_ns, ShardFn fn);

  // Takes blocks of a loop of another thread, until there are no more or `stop` is set. False: there was no
  // loop that wanted help. Blocks are short, and so the caller may have something else to wait for.
  bool HelpLoop(const std::atomic<bool>& stop);

  // Runs queued tasks in the calling thread, and sleeps when there are none, until `done` has been passed
  // to SignalDone. The tasks may belong to anybody, so REQUIRES: the caller holds no lock.
  void HelpUntil(const std::atomic<bool>& done);
  // Sets `done` and wakes the thread that waits for it. `done` may be gone as soon as it is set.
  void SignalDone(std::atomic<bool>& done);

  // Index of the calling worker in [0, parallelism-1), or -1 outside the pool.
  int CurrentWorker() const;

  struct Impl;

 private:
  const int parallelism_;
  const std::unique_ptr<Impl> owned_;  // null: the workers belong to another pool
  Impl* const impl_;
};

}  // namespace millrace
