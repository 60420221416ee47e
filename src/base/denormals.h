// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace millrace {

// Whether the threads that run kernels treat denormal numbers as zero, as TensorFlow's do: yes, unless the
// environment variable MILLRACE_FLUSH_DENORMALS is 0. Read once.
bool FlushesDenormals();

// During its lifetime arithmetic of the calling thread treats denormal numbers as zero and returns zero in
// place of them. It costs a few nanoseconds, and has no effect on processors other than x86.
class ScopedFlushDenormals {
 public:
#if defined(__SSE2__)
  // `needed` false: no effect.
  explicit ScopedFlushDenormals(bool needed = true) {
    if (!needed) return;
    before_ = _mm_getcsr();
    changed_ = (before_ & kFlushAndZero) != kFlushAndZero && FlushesDenormals();
    if (changed_) _mm_setcsr(before_ | kFlushAndZero);
  }
  ~ScopedFlushDenormals() {
    if (changed_) _mm_setcsr(before_);
  }

 private:
  static constexpr uint32_t kFlushAndZero = 0x8040;  // FTZ and DAZ in MXCSR
  uint32_t before_ = 0;
  bool changed_ = false;

 public:
#else
  explicit ScopedFlushDenormals(bool /*needed*/ = true) {}
#endif
  ScopedFlushDenormals(const ScopedFlushDenormals&) = delete;
  ScopedFlushDenormals& operator=(const ScopedFlushDenormals&) = delete;
};

}  // namespace millrace
