// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace millrace {

// The number of elements of a sorted array for which `before` holds; these are its first ones. Without
// branches: half of the branches of a binary search are mispredicted.
template <typename T, typename Before>
int64_t CountBefore(const T* array, int64_t n, Before before) {
  if (n == 0) return 0;
  const T* base = array;
  while (n > 1) {
    const int64_t half = n / 2;
    base += half & -static_cast<int64_t>(before(base[half - 1]));
    n -= half;
  }
  return base - array + (before(*base) ? 1 : 0);
}

}  // namespace millrace
