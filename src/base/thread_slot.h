// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace millrace {

// Memory that two cores write should have this distance: adjacent lines of 64 bytes are fetched in pairs.
inline constexpr size_t kCacheApart = 128;

// A slot below this belongs to one thread only, also after the thread has ended: no other thread writes data
// indexed by it, so no atomic exchange is needed.
inline constexpr unsigned kOwnedSlots = 16;

// A small number of the calling thread, assigned in turn: threads that index an array by it, modulo its size,
// seldom collide. From kOwnedSlots on two threads may have the same.
inline unsigned ThreadSlot() {
  static std::atomic<uint64_t> next{0};
  static constinit thread_local unsigned slot = ~0u;
  if (slot == ~0u) [[unlikely]] {
    // Relaxed: only the number matters.
    const uint64_t number = next.fetch_add(1, std::memory_order_relaxed);
    slot = static_cast<unsigned>(number < 0x10000 ? number : 0x8000 | (number & 0x7fff));
  }
  return slot;
}

// The index in an array with kOwnedSlots places for threads of their own and `shared` ones for all others.
inline unsigned PlaceOfSlot(unsigned slot, unsigned shared) {
  return slot < kOwnedSlots ? slot : kOwnedSlots + slot % shared;
}

}  // namespace millrace
