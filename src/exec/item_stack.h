// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace millrace {

struct FrameIteration;

// Nodes that became ready, the last one on top. What is pushed is often popped at once, so that fields are
// written and read in the same pieces: a wider load would have to wait for the stores.
class ItemStack {
 public:
  struct Item {
    FrameIteration* iteration;
    uint64_t node_and_dead;

    uint32_t node() const { return static_cast<uint32_t>(node_and_dead >> 1); }
    bool dead() const { return (node_and_dead & 1) != 0; }
  };

  ItemStack() : items_(kFirst) {}

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  void clear() { size_ = 0; }
  void Push(FrameIteration* iteration, uint32_t node, bool dead) {
    if (size_ == items_.size()) [[unlikely]]
      items_.resize(2 * size_);
    Item& item = items_[size_++];
    item.iteration = iteration;
    item.node_and_dead = uint64_t{node} << 1 | (dead ? 1 : 0);
  }
  // REQUIRES: !empty().
  Item Pop() {
    const Item& item = items_[--size_];
    return {item.iteration, item.node_and_dead};
  }

 private:
  static constexpr size_t kFirst = 16;

  std::vector<Item> items_;
  size_t size_ = 0;
};

}  // namespace millrace
