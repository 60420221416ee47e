// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Hashes with the same values as TensorFlow's.
#ifndef TENSORFLOW_CORE_LIB_HASH_HASH_H_
#define TENSORFLOW_CORE_LIB_HASH_HASH_H_

#include <cstring>

#include "tensorflow/core/lib/core/stringpiece.h"

namespace tensorflow {

// MurmurHash64A.
inline uint64 Hash64(const char* data, size_t n, uint64 seed) {
  const uint64 kMul = 0xc6a4a7935bd1e995ULL;
  uint64 hash = seed ^ (n * kMul);
  for (; n >= 8; n -= 8, data += 8) {
    uint64 word;
    std::memcpy(&word, data, sizeof word);  // little-endian machines
    word *= kMul;
    hash = (hash ^ ((word ^ (word >> 47)) * kMul)) * kMul;
  }
  if (n > 0) {
    uint64 rest = 0;
    for (size_t i = 0; i < n; ++i)
      rest |= static_cast<uint64>(static_cast<unsigned char>(data[i])) << (8 * i);
    hash = (hash ^ rest) * kMul;
  }
  hash = (hash ^ (hash >> 47)) * kMul;
  return hash ^ (hash >> 47);
}
inline uint64 Hash64(const char* data, size_t n) { return Hash64(data, n, 0xDECAFCAFFEULL); }
inline uint64 Hash64(const string& text) { return Hash64(text.data(), text.size()); }
inline uint64 Hash64(StringPiece text) { return Hash64(text.data(), text.size()); }
inline uint64 Hash64Combine(uint64 a, uint64 b) {
  return a ^ (b + 0x9e3779b97f4a7800ULL + (a << 10) + (a >> 4));
}
inline uint64 Hash64CombineUnordered(uint64 a, uint64 b) { return a + b; }

}  // namespace tensorflow

#endif
