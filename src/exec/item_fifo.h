// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/small_vector.h"
#include "exec/walker.h"

namespace millrace {

// A first-in-first-out queue of nodes. Unlike a std::deque it allocates no memory for a few of them.
class ItemFifo {
 public:
  bool empty() const { return first_ == items_.size(); }
  void Push(std::span<const ReadyItem> items) {
    for (const ReadyItem& item : items) items_.push_back({item.walker, item.iteration, item.node, item.dead});
  }
  // REQUIRES: !empty().
  ReadyItem Pop() {
    const Kept item = items_.begin()[first_++];
    const uint32_t left = items_.size() - first_;
    // Moves at most as many elements as were taken since the last move.
    if (left == 0 || (first_ >= kManyTaken && first_ >= left)) {
      std::copy(items_.begin() + first_, items_.end(), items_.begin());
      items_.resize(left);
      first_ = 0;
    }
    return {item.walker, item.node, item.dead, item.iteration};
  }

 private:
  static constexpr uint32_t kManyTaken = 256;
  struct Kept {  // without initial values, as SmallVector requires
    Walker* walker;
    FrameIteration* iteration;
    uint32_t node;
    bool dead;
  };

  SmallVector<Kept, 8> items_;
  uint32_t first_ = 0;  // those before it were taken
};

}  // namespace millrace
