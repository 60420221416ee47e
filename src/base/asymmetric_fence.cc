// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "base/asymmetric_fence.h"

#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mutex.h"

namespace millrace {
namespace {

bool Membarrier(int command) { return ::syscall(SYS_membarrier, command, 0, 0) == 0; }

bool RegisterAndTry() {
  return Membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
         Membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

// As large as a page of any kernel, and static, so that no allocation can fail.
constexpr size_t kPage = size_t{1} << 16;
alignas(kPage) volatile char page[kPage];

}  // namespace

// Removing access to a page that was written interrupts every core that runs a thread of the process.
void FenceByProtection() {
  static Mutex mu;
  MutexLock lock(mu);
  void* const start = const_cast<char*>(page);
  if (::mprotect(start, kPage, PROT_READ | PROT_WRITE) != 0) return;
  page[0] = 1;
  ::mprotect(start, kPage, PROT_READ);
}

std::atomic<bool> heavy_fences_reach_all_threads{RegisterAndTry()};

void HeavyFence() {
  std::atomic<int> own{0};
  own.exchange(1, std::memory_order_seq_cst);
  if (!heavy_fences_reach_all_threads.load(std::memory_order_relaxed)) return;
  // A child of fork() may have to register itself.
  if (!Membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) && !RegisterAndTry()) FenceByProtection();
}

}  // namespace millrace
