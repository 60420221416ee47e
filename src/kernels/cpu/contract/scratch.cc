// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contract/scratch.h"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace millrace::cpu {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kGranule = 4096;
constexpr int64_t kKeptBytes = int64_t{8} << 20;  // larger blocks are freed at once
constexpr int64_t kMaxBytes = int64_t{1} << 46;

struct Block {
  void* data = nullptr;
  int64_t size = 0;
};

// The blocks that a thread keeps.
struct Kept {
  std::array<Block, 4> blocks;
  ~Kept() {
    for (Block& block : blocks) std::free(block.data);
  }
};

thread_local Kept kept;

}  // namespace

Scratch::Scratch(int64_t count, int64_t element_size) {
  if (count < 0 || count > kMaxBytes / element_size) return;
  const int64_t wanted = (std::max<int64_t>(count * element_size, 1) + kGranule - 1) / kGranule * kGranule;
  Block* best = nullptr;
  for (Block& block : kept.blocks) {
    if (block.size >= wanted && (best == nullptr || block.size < best->size)) best = &block;
  }
  if (best != nullptr) {
    data_ = best->data;
    size_ = best->size;
    *best = Block{};
    return;
  }
  data_ = std::aligned_alloc(kAlignment, static_cast<size_t>(wanted));
  size_ = wanted;
}

Scratch::~Scratch() {
  if (data_ == nullptr) return;
  Block* smallest = kept.blocks.data();
  for (Block& block : kept.blocks) {
    if (block.size < smallest->size) smallest = &block;
  }
  if (size_ > kKeptBytes || size_ <= smallest->size) {
    std::free(data_);
    return;
  }
  std::free(smallest->data);
  *smallest = Block{data_, size_};
}

}  // namespace millrace::cpu
