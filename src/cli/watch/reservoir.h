// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace millrace::cli {

// At most `capacity` of the added items, in their order: a uniform random sample that always includes the
// last one. Deterministic for the same items.
template <typename T>
class Reservoir {
 public:
  explicit Reservoir(size_t capacity) : capacity_(capacity) {}

  const std::vector<T>& items() const { return items_; }
  // How many were added and not removed, as far as that is known of those that are not in the sample.
  uint64_t seen() const { return seen_; }

  void Add(T item) {
    ++seen_;
    if (items_.size() >= capacity_) {
      const uint64_t chosen = Random() % seen_;
      // Either one of the sample makes room, or the item before this one, which was there only as the last.
      const size_t gone = chosen < items_.size() ? static_cast<size_t>(chosen) : items_.size() - 1;
      items_.erase(items_.begin() + static_cast<ptrdiff_t>(gone));
    }
    items_.push_back(std::move(item));
  }

  // Returns the number of removed items of the sample.
  template <typename Unwanted>
  size_t RemoveIf(const Unwanted& unwanted) {
    const size_t before = items_.size();
    const size_t removed = std::erase_if(items_, unwanted);
    if (removed > 0) {
      const double kept = static_cast<double>(items_.size()) / static_cast<double>(before);
      seen_ = static_cast<uint64_t>(std::llround(static_cast<double>(seen_) * kept));
    }
    return removed;
  }

 private:
  uint64_t Random() {  // xorshift
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }

  size_t capacity_;
  uint64_t seen_ = 0;
  uint64_t state_ = 0x9E3779B97F4A7C15;
  std::vector<T> items_;
};

}  // namespace millrace::cli
