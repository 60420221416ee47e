// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

// Hashes with specified values: models store weights by them. Equal on all machines.
namespace millrace {

// FarmHash's Fingerprint64.
uint64_t FarmFingerprint64(std::string_view bytes);
// FarmHash's Fingerprint128.
struct Fingerprint128 {
  uint64_t low = 0;
  uint64_t high = 0;
};
Fingerprint128 FarmFingerprint128(std::string_view bytes);
// One hash from two; the order matters.
uint64_t FingerprintCat64(uint64_t a, uint64_t b);
// MurmurHash64A with the seed of TensorFlow's Hash64.
uint64_t MurmurHash64(std::string_view bytes);
// SipHash-2-4 with a key of two words.
uint64_t SipHash(uint64_t key0, uint64_t key1, std::string_view bytes);

}  // namespace millrace
