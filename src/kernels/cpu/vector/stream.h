// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Writes around the processor's caches, for arrays too large to stay there: cache lines that are overwritten
// completely are not read first. They are ordinary writes if the processor lacks such instructions.
#pragma once

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace millrace::cpu {

// Smaller arrays should stay in the caches.
inline constexpr int64_t kMinStreamBytes = 1 << 20;

// memcpy. Other threads see the bytes after StreamFence of this thread and the usual synchronisation.
inline void StreamOut(const void* src, void* dst, size_t bytes) {
#if defined(__SSE2__)
  const char* from = static_cast<const char*>(src);
  char* to = static_cast<char*>(dst);
  const size_t head = std::min(bytes, (64 - reinterpret_cast<uintptr_t>(to) % 64) % 64);
  std::memcpy(to, from, head);
  from += head, to += head, bytes -= head;
  for (; bytes >= 64; bytes -= 64, from += 64, to += 64) {
    for (int i = 0; i < 64; i += 16) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
    }
  }
  std::memcpy(to, from, bytes);
#else
  std::memcpy(dst, src, bytes);
#endif
}

inline void StreamFence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace millrace::cpu
