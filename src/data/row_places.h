// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/mutex.h"
#include "data/dataset.h"
#include "tensor/allocator.h"

namespace millrace::data {

// The memory of a batch whose elements are made by several threads: each moves its elements, which are still
// in its caches, to their rows. StackComponent uses such rows as the batch. Thread-safe.
class RowPlaces {
 public:
  explicit RowPlaces(int64_t size) : size_(size) {}
  // Copies large components of the element to row `row`, and replaces them by the copies. Components that are
  // small or differ from those of the first element are not moved. REQUIRES: each row once, 0 <= row < size.
  void Place(int64_t row, Element* element, Allocator& allocator) MR_EXCLUDES(mu_);

 private:
  const int64_t size_;
  Mutex mu_;
  bool begun_ MR_GUARDED_BY(mu_) = false;
  bool any_ MR_GUARDED_BY(mu_) = false;  // components are placed
  Element batch_ MR_GUARDED_BY(mu_);     // components that are not placed have no elements
};

}  // namespace millrace::data
