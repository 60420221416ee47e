// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace millrace {

namespace hash_internal {

inline uint64_t Mix(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// The first n (at most 8) bytes as a little-endian number.
inline uint64_t Load(const char* p, size_t n) {
  uint64_t v = 0;
  std::memcpy(&v, p, n);
  return v;
}

inline constexpr uint64_t kK0 = 0xa0761d6478bd642fULL;
inline constexpr uint64_t kK1 = 0xe7037ed1a0b428dbULL;
inline constexpr uint64_t kK2 = 0x8ebc6af09c88c6e3ULL;

}  // namespace hash_internal

// A 64-bit hash of bytes for tables and fingerprints inside one process. Not for secrets, and not the
// FarmHash whose values some ops must return.
inline uint64_t Hash64(std::string_view bytes, uint64_t seed = 0) {
  const char* p = bytes.data();
  size_t n = bytes.size();
  uint64_t h = hash_internal::Mix(seed ^ hash_internal::kK0, bytes.size() ^ hash_internal::kK1);
  for (; n > 16; n -= 16, p += 16)
    h = hash_internal::Mix(hash_internal::Load(p, 8) ^ hash_internal::kK1, hash_internal::Load(p + 8, 8) ^ h);
  const uint64_t a = n == 0 ? 0 : hash_internal::Load(p, n < 8 ? n : 8);
  const uint64_t b = n > 8 ? hash_internal::Load(p + 8, n - 8) : 0;
  return hash_internal::Mix(hash_internal::kK2 ^ bytes.size(),
                            hash_internal::Mix(a ^ hash_internal::kK1, b ^ h));
}

// Order matters: HashCombine(a, b) and HashCombine(b, a) differ.
inline uint64_t HashCombine(uint64_t a, uint64_t b) {
  return hash_internal::Mix(a ^ hash_internal::kK0, (b + (a << 6)) ^ hash_internal::kK1) + b;
}

// For unordered containers keyed by strings, so that a string_view can be looked up without a copy.
struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view s) const { return Hash64(s); }
};

}  // namespace millrace
