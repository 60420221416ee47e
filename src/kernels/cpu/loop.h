// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Plain loops, compiled once for each instruction set and selected by ActiveIsa() at run time. Files that use
// this are in the list `loop_sources` of CMakeLists.txt, whose options let the compiler vectorise without
// contracting products and sums, so that a result does not depend on the instruction set. The functions for
// the wider sets are instances for lambdas of one file: no inline function of the standard library is
// compiled for such a set on its own.
#pragma once

#include <cstdint>

#include "kernels/cpu/contract/isa.h"

// An attribute of a lambda, after its parameters.
#define MR_INLINE_LAMBDA __attribute__((always_inline))

namespace millrace {
namespace loop_internal {

#if defined(__x86_64__)
#if defined(__clang__)
#define MR_AVX512 "avx2,avx512f,avx512bw,avx512dq,avx512vl"
#else
#define MR_AVX512 "avx2,avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512"
#endif
template <typename Fn>
__attribute__((target("avx2"), flatten, noinline)) void RunAvx2(const Fn& fn) {
  const Fn local = fn;  // a copy, which no store of a byte can change
  local();
}
template <typename Fn>
__attribute__((target(MR_AVX512), flatten, noinline)) void RunAvx512(const Fn& fn) {
  const Fn local = fn;  // a copy, which no store of a byte can change
  local();
}
#undef MR_AVX512
#endif

}  // namespace loop_internal

// Calls fn(), a loop whose lambda is marked with MR_INLINE_LAMBDA.
template <typename Fn>
void RunLoop(const Fn& fn) {
#if defined(__x86_64__)
  switch (cpu::ActiveIsa()) {
    case cpu::Isa::kAvx512:
      return loop_internal::RunAvx512(fn);
    case cpu::Isa::kAvx2:
      return loop_internal::RunAvx2(fn);
    case cpu::Isa::kBaseline:
      break;
  }
#endif
  fn();
}

// to[i] = fn(from[i]) for i < n.
template <typename In, typename Out, typename Fn>
void MapLoop(const In* from, Out* to, int64_t n, const Fn& fn) {
  RunLoop([=]() MR_INLINE_LAMBDA {
    const Fn local = fn;  // a copy, which writes to `to` can't change
    for (int64_t i = 0; i < n; ++i) to[i] = local(from[i]);
  });
}

}  // namespace millrace
