// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/blocking_watch.h"

#include <chrono>
#include <thread>
#include <utility>

#include "base/fork.h"
#include "exec/ready_queue.h"
#include "kernel/blocking_kernel.h"

namespace millrace {
namespace {

constexpr auto kInterval = std::chrono::microseconds(500);
constexpr int kIdleLooks = 20;  // before the thread ends: waking it later costs more

}  // namespace

BlockingWatch& BlockingWatch::Global() { return OfProcess<BlockingWatch>(); }

void BlockingWatch::Add(RefPtr<ReadyQueue> queue) {
  {
    MutexLock lock(mu_);
    if (runs_) return queues_.push_back(std::move(queue));
    runs_ = true;
    queues_.push_back(queue);
  }
  UniqueFunction<void()> loop = [this] { Loop(); };
  if (RunInBlockingThread(loop)) return;
  std::vector<RefPtr<ReadyQueue>> left;
  {
    MutexLock lock(mu_);
    runs_ = false;
    left.swap(queues_);
  }
  for (const RefPtr<ReadyQueue>& unwatched : left) unwatched->Look(true);
}

void BlockingWatch::Loop() {
  std::vector<RefPtr<ReadyQueue>> queues;
  for (int idle = 0;; ++idle) {
    std::this_thread::sleep_for(kInterval);
    {
      MutexLock lock(mu_);
      for (RefPtr<ReadyQueue>& queue : queues_) queues.push_back(std::move(queue));
      queues_.clear();
      if (queues.empty() && idle >= kIdleLooks) {
        runs_ = false;
        return;
      }
    }
    if (!queues.empty()) idle = 0;
    std::erase_if(queues, [](const RefPtr<ReadyQueue>& queue) { return !queue->Look(false); });
  }
}

}  // namespace millrace
