// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// Encoding of numbers in checkpoint files. Readers consume the front of a view and leave it unchanged if they
// return false.
namespace millrace::io {

inline void PutFixed32(uint32_t value, std::string* out) {
  for (int shift = 0; shift < 32; shift += 8) out->push_back(static_cast<char>(value >> shift));
}
inline void PutFixed64(uint64_t value, std::string* out) {
  for (int shift = 0; shift < 64; shift += 8) out->push_back(static_cast<char>(value >> shift));
}
inline void PutVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

// REQUIRES: 4 bytes, or 8, at `p`.
inline uint32_t GetFixed32(const char* p) {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(p[i]);
  return value;
}
inline uint64_t GetFixed64(const char* p) { return uint64_t{GetFixed32(p + 4)} << 32 | GetFixed32(p); }

inline bool TakeVarint64(std::string_view* in, uint64_t* value) {
  uint64_t result = 0;
  for (size_t i = 0; i < in->size() && i < 10; ++i) {
    const auto byte = static_cast<unsigned char>((*in)[i]);
    if (i == 9 && byte > 1) return false;
    result |= uint64_t{byte & 0x7fu} << (7 * i);
    if (byte < 0x80) {
      in->remove_prefix(i + 1);
      *value = result;
      return true;
    }
  }
  return false;
}
inline bool TakeVarint32(std::string_view* in, uint32_t* value) {
  std::string_view rest = *in;
  uint64_t wide;
  if (!TakeVarint64(&rest, &wide) || wide > UINT32_MAX) return false;
  *in = rest;
  *value = static_cast<uint32_t>(wide);
  return true;
}

}  // namespace millrace::io
