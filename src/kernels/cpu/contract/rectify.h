// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace millrace::cpu {

// Activations that are almost free while results are still in registers. NaN stays NaN.
enum class Rectify : uint8_t { kNone, kRelu, kRelu6 };

template <typename T>
constexpr T Rectified(T x, Rectify rectify) {
  if (rectify == Rectify::kNone) return x;
  if (x < T(0)) return T(0);
  return rectify == Rectify::kRelu6 && x > T(6) ? T(6) : x;
}

}  // namespace millrace::cpu
