// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Small arrays of constant size that the compiler keeps in registers: accumulators, a block of channels.
#pragma once

// To be put before a loop over such an array of more than one element. g++ would unroll the loop before it
// vectorises, and then no longer vectorise selections.
#if defined(__GNUC__) && !defined(__clang__)
#define MR_LANES _Pragma("GCC unroll 1")
#else
#define MR_LANES
#endif

namespace millrace {

// fn(0) … fn(kLanes - 1), as a loop of that kind.
template <int kLanes, typename Fn>
inline __attribute__((always_inline)) void ForLanes(const Fn& fn) {
  if constexpr (kLanes == 1) {
    fn(0);
  } else {
    MR_LANES
    for (int l = 0; l < kLanes; ++l) fn(l);
  }
}

}  // namespace millrace
