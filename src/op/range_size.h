// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "millrace/status.h"

namespace millrace {

// The number of elements of the sequence start, start + delta, … before limit, as of the op Range. T is
// int32_t, int64_t, float or double; floating-point arithmetic is done in T.
template <typename T>
StatusOr<int64_t> RangeSize(T start, T limit, T delta) {
  if (delta == T(0)) return errors::InvalidArgument("Requires delta != 0");
  if (delta > T(0) && start > limit) {
    return errors::InvalidArgument("Requires start <= limit when delta > 0: ", start, "/", limit);
  }
  if (delta < T(0) && start < limit) {
    return errors::InvalidArgument("Requires start >= limit when delta < 0: ", start, "/", limit);
  }
  if constexpr (std::is_integral_v<T>) {
    // In unsigned arithmetic neither the distance nor the magnitude of the smallest number overflows.
    const auto distance = limit > start ? static_cast<uint64_t>(limit) - static_cast<uint64_t>(start)
                                        : static_cast<uint64_t>(start) - static_cast<uint64_t>(limit);
    const auto step = delta > 0 ? static_cast<uint64_t>(delta) : uint64_t{0} - static_cast<uint64_t>(delta);
    const uint64_t size = distance / step + (distance % step != 0 ? 1 : 0);
    if (size <= static_cast<uint64_t>(INT64_MAX)) return static_cast<int64_t>(size);
  } else {
    const T size = std::ceil(std::abs((limit - start) / delta));
    if (size < T(9e18)) return static_cast<int64_t>(size);  // false for NaN, too
  }
  return errors::InvalidArgument("Requires ((limit - start) / delta) to be a possible number of elements: ",
                                 start, "/", limit, "/", delta);
}

}  // namespace millrace
