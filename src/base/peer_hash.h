// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace millrace {

// The hash that TensorFlow's tasks use for numbers which they exchange (MurmurHash64A by Austin Appleby, in
// the public domain, with TensorFlow's seed). Within a process use Hash64, which is faster.
inline uint64_t PeerHash64(std::string_view bytes, uint64_t seed = 0xDECAFCAFFEu) {
  constexpr uint64_t kMultiplier = 0xc6a4a7935bd1e995u;
  constexpr int kShift = 47;
  uint64_t hash = seed ^ (bytes.size() * kMultiplier);
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    uint64_t word = 0;
    for (int i = 7; i >= 0; --i) word = word << 8 | static_cast<unsigned char>(bytes[static_cast<size_t>(i)]);
    word *= kMultiplier;
    word ^= word >> kShift;
    hash = (hash ^ word * kMultiplier) * kMultiplier;
  }
  if (!bytes.empty()) {
    uint64_t word = 0;
    for (size_t i = bytes.size(); i > 0; --i) word = word << 8 | static_cast<unsigned char>(bytes[i - 1]);
    hash = (hash ^ word) * kMultiplier;
  }
  hash = (hash ^ hash >> kShift) * kMultiplier;
  return hash ^ hash >> kShift;
}

}  // namespace millrace
