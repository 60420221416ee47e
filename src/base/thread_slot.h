// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>

namespace millrace {

// Memory that two cores write should be this far apart: adjacent lines of 64 bytes are fetched in pairs.
inline constexpr size_t kCacheApart = 128;

// A small number of the calling thread, dealt out in turn: threads that index an array by it, modulo its
// size, seldom meet. It says nothing more; two threads may have the same.
inline unsigned ThreadSlot() {
  static std::atomic<unsigned> next{0};
  static constinit thread_local unsigned slot = ~0u;
  // Relaxed: only the number matters.
  if (slot == ~0u) [[unlikely]]
    slot = next.fetch_add(1, std::memory_order_relaxed) & 0xffff;
  return slot;
}

}  // namespace millrace
