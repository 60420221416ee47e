// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

namespace millrace {

// Two threads that each write one variable and then read the other's need a fence in between, so that at
// least one sees the other's write. Where one side does this often and the other seldom, the first uses
// LightFence, which costs nothing if the system can make all threads of the process execute a fence
// (membarrier, Linux 4.14), and the second HeavyFence, which requests that and takes some microseconds.

extern std::atomic<bool>
    heavy_fences_reach_all_threads;  // false until the start of the process has detected it

inline void LightFence() {
  if (heavy_fences_reach_all_threads.load(std::memory_order_relaxed)) [[likely]] {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } else {
    std::atomic<int> own{0};  // a full fence that sanitizers understand
    own.exchange(1, std::memory_order_seq_cst);
  }
}

void HeavyFence();

// Used by HeavyFence when the system call is refused later than at the start, as by a filter that the process
// has installed, and by tests.
void FenceByProtection();

}  // namespace millrace
