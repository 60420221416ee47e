// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Channels of pixels as explicit vectors, for code in which the compiler does not vectorise plain loops
// (loop.h): selections of numbers and their positions, loops over a window.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cpu/loop.h"

namespace millrace {
namespace loop_internal {

#if defined(__x86_64__)
template <typename Fn>
struct AsAvx2 {
  const Fn fn;
  void operator()() const { fn(std::integral_constant<int, 32>()); }
};
template <typename Fn>
struct AsAvx512 {
  const Fn fn;
  void operator()() const { fn(std::integral_constant<int, 64>()); }
};
#endif

}  // namespace loop_internal

// Calls fn(bytes), a lambda that is marked with MR_INLINE_LAMBDA. `bytes` is a constant: the size of the
// widest vectors, as comparisons of wider ones would be done element by element.
template <typename Fn>
void RunVectors(const Fn& fn) {
#if defined(__x86_64__)
  switch (cpu::ActiveIsa()) {
    case cpu::Isa::kAvx512:
      return loop_internal::RunAvx512(loop_internal::AsAvx512<Fn>{fn});
    case cpu::Isa::kAvx2:
      return loop_internal::RunAvx2(loop_internal::AsAvx2<Fn>{fn});
    case cpu::Isa::kBaseline:
      break;
  }
#endif
  fn(std::integral_constant<int, 16>());
}

// Numbers of adjacent channels, and integers of the same width.
template <typename T, int kLanes>
struct LanesOf {
  using Values [[gnu::vector_size(sizeof(T) * kLanes)]] = T;
  using Places = decltype(Values{} < Values{});
};

// Calls fn(lanes, channel) for blocks of channels of [begin, end), whose number of lanes is a constant: those
// of vectors of kBytes, and of half as many for the rest. Types without vectors go one by one.
template <typename T, int kBytes, typename Fn>
inline MR_INLINE_LAMBDA void ForChannels(int64_t begin, int64_t end, const Fn& fn) {
  if constexpr (kBytes < 16 || !std::is_floating_point_v<T>) {
    for (int64_t c = begin; c < end; ++c) fn(std::integral_constant<int, 1>(), c);
  } else {
    constexpr int kLanes = kBytes / sizeof(T);
    int64_t c = begin;
    for (; c + kLanes <= end; c += kLanes) fn(std::integral_constant<int, kLanes>(), c);
    if (c < end) ForChannels<T, kBytes / 2>(c, end, fn);
  }
}

// As RunVectors, but with the widest vectors only if T supports them.
template <typename T, typename Fn>
void RunChannels(const Fn& fn) {
  if constexpr (std::is_floating_point_v<T>) {
    RunVectors(fn);
  } else {
    fn(std::integral_constant<int, 16>());
  }
}

}  // namespace millrace
