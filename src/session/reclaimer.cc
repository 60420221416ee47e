// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "session/reclaimer.h"

#include <iterator>
#include <utility>

namespace millrace {

void Reclaimer::Retire(Object object) {
  std::vector<Object> free;  // destroyed after the lock is released
  MutexLock lock(mu_);
  next_.push_back(std::move(object));
  HeavyFence();  // objects unlinked so far are invisible to all readers whose counts Advance does not see
  // Without readers three rounds free everything: to end an older wait, to begin this one and to end it.
  for (int round = 0; round < 3; ++round) Advance(&free);
}

void Reclaimer::Advance(std::vector<Object>* free) {
  std::array<bool, 2> any = {};
  for (size_t i = 0; i < kStripes; ++i) {
    for (size_t side = 0; side < 2; ++side) {
      bool& busy = busy_[i][side];
      // Acquire pairs with the release of ~Reader. With several counting threads, an addition, not a load: it
      // reads the latest value. A count whose owner writes it non-atomically must not be written here.
      std::atomic<int64_t>& count = stripes_[i].readers[side];
      if (busy && (i < kOwnedSlots ? count.load(std::memory_order_acquire)
                                   : count.fetch_add(0, std::memory_order_acq_rel)) == 0)
        busy = false;
      any[side] |= busy;
    }
  }
  if (any[0] || any[1]) {
    const size_t side = side_.load(std::memory_order_relaxed);
    if (any[side] && !any[1 - side]) side_.store(1 - side, std::memory_order_relaxed);
    return;
  }
  free->insert(free->end(), std::move_iterator(waiting_.begin()), std::move_iterator(waiting_.end()));
  waiting_ = std::exchange(next_, {});
  if (waiting_.empty()) return;
  for (std::array<bool, 2>& stripe : busy_) stripe.fill(true);
}

size_t Reclaimer::num_retired() const {
  MutexLock lock(mu_);
  return waiting_.size() + next_.size();
}

}  // namespace millrace
