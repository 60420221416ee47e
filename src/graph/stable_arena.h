// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace millrace {

// Objects with stable addresses, in blocks that grow from 16 to 2,048 objects: a small graph stays small and
// a large one needs few allocations. Objects are default-constructed and live as long as the arena.
template <typename T>
class StableArena {
 public:
  T* New() {
    if (used_ == block_size_) Grow();
    return &blocks_.back()[used_++];
  }

 private:
  static constexpr size_t kFirstBlock = 16;
  static constexpr size_t kLargestBlock = 2048;

  void Grow() {
    block_size_ = block_size_ == 0              ? kFirstBlock
                  : block_size_ < kLargestBlock ? block_size_ * 2
                                                : kLargestBlock;
    blocks_.push_back(std::make_unique<T[]>(block_size_));
    used_ = 0;
  }

  std::vector<std::unique_ptr<T[]>> blocks_;
  size_t block_size_ = 0;
  size_t used_ = 0;
};

}  // namespace millrace
