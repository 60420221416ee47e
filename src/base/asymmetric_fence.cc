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

// Taking away the right to a page that was written interrupts every core that runs a thread of the process.
// For a process that has forbidden itself the system call since it started.
void FenceByProtection() {
  static Mutex mu;
  MutexLock lock(mu);
  const size_t size = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  void* page = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  *static_cast<volatile char*>(page) = 1;
  ::mprotect(page, size, PROT_READ);
  ::munmap(page, size);
}

}  // namespace

std::atomic<bool> heavy_fences_reach_all_threads{RegisterAndTry()};

void HeavyFence() {
  std::atomic<int> own{0};
  own.exchange(1, std::memory_order_seq_cst);
  if (!heavy_fences_reach_all_threads.load(std::memory_order_relaxed)) return;
  // A child of fork() may have to register itself.
  if (!Membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) && !RegisterAndTry()) FenceByProtection();
}

}  // namespace millrace
