// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace millrace::io {

// The CRC-32C (Castagnoli) of the bytes with the checksum `crc`, followed by `data`.
uint32_t ExtendCrc32c(uint32_t crc, std::string_view data);
// That of two concatenated byte strings; the second has `size` bytes.
uint32_t ConcatCrc32c(uint32_t first, uint32_t second, uint64_t size);
// As ExtendCrc32c, without the processor's CRC instruction.
uint32_t ExtendCrc32cByTablesForTest(uint32_t crc, std::string_view data);
inline uint32_t Crc32c(std::string_view data) { return ExtendCrc32c(0, data); }

// Checksums are stored masked, because the CRC of data that contains its own CRC is of little use.
inline uint32_t MaskCrc(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }
inline uint32_t UnmaskCrc(uint32_t masked) {
  const uint32_t rotated = masked - 0xa282ead8u;
  return rotated >> 17 | rotated << 15;
}

}  // namespace millrace::io
