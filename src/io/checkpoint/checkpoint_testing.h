// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Bytes of checkpoints put together by hand from the definition of the formats. For tests only, and so
// without any of the code that is tested.
namespace millrace::io::testing_bytes {

inline std::string LittleEndian(uint64_t v, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(v >> (8 * i));
  return out;
}
inline std::string Varint(uint64_t v) {
  std::string out;
  for (; v > 127; v /= 128) out += static_cast<char>(128 + v % 128);
  return out + static_cast<char>(v);
}

// The remainder by the polynomial 0x1EDC6F41 with reflected input and output, bit by bit.
inline uint32_t BitwiseCrc(std::string_view data) {
  uint32_t crc = 0xffffffff;
  for (const char c : data) {
    for (int bit = 0; bit < 8; ++bit) {
      const uint32_t in = (static_cast<unsigned char>(c) >> bit) & 1;
      const uint32_t top = crc >> 31;
      crc = (crc << 1) ^ (top != in ? 0x1EDC6F41u : 0);
    }
  }
  uint32_t reflected = 0;
  for (int bit = 0; bit < 32; ++bit) reflected |= ((crc >> bit) & 1) << (31 - bit);
  return ~reflected;
}
inline uint32_t MaskedCrc(std::string_view data) {
  const uint32_t crc = BitwiseCrc(data);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

using Entries = std::vector<std::pair<std::string, std::string>>;

// A block of entries, each with its whole key and a restart point of its own.
inline std::string Block(const Entries& entries) {
  std::string bytes, restarts;
  for (const auto& [key, value] : entries) {
    restarts += LittleEndian(bytes.size(), 4);
    bytes += Varint(0) + Varint(key.size()) + Varint(value.size()) + key + value;
  }
  if (entries.empty()) restarts = LittleEndian(0, 4);
  return bytes + restarts + LittleEndian(restarts.size() / 4, 4);
}
// The block as it is in a file: with its kind and checksum.
inline std::string Stored(const std::string& block, char kind = 0) {
  const std::string covered = block + kind;
  return covered + LittleEndian(MaskedCrc(covered), 4);
}
inline std::string Handle(uint64_t offset, uint64_t size) { return Varint(offset) + Varint(size); }
inline std::string Footer(const std::string& meta, const std::string& index) {
  std::string handles = meta + index;
  handles.resize(40, '\0');
  return handles + LittleEndian(0xdb4775248b80fb57u, 8);
}
// A table of stored blocks, `last_keys` of which stand in the index.
inline std::string TableOfBlocks(
    const std::vector<std::pair<std::string, std::string>>& last_key_and_stored_block) {
  std::string file;
  Entries index;
  for (const auto& [last_key, stored] : last_key_and_stored_block) {
    index.emplace_back(last_key, Handle(file.size(), stored.size() - 5));
    file += stored;
  }
  const std::string meta = Stored(Block({})), index_block = Stored(Block(index));
  const std::string meta_handle = Handle(file.size(), meta.size() - 5);
  file += meta;
  const std::string index_handle = Handle(file.size(), index_block.size() - 5);
  return file + index_block + Footer(meta_handle, index_handle);
}
// A table of one block.
inline std::string Table(const Entries& entries) {
  return TableOfBlocks({std::pair(entries.back().first + "~", Stored(Block(entries)))});
}

// Fields of messages: numbers, and fields with a length.
inline std::string Field(int number, uint64_t value) { return Varint(number * 8u) + Varint(value); }
inline std::string Field(int number, const std::string& bytes) {
  return Varint(number * 8u + 2) + Varint(bytes.size()) + bytes;
}
inline std::string Fixed32Field(int number, uint32_t value) {
  return Varint(number * 8u + 5) + LittleEndian(value, 4);
}
// TensorShapeProto { dim { size } }.
inline std::string Shape(const std::vector<int64_t>& dims) {
  std::string out;
  for (const int64_t dim : dims) out += Field(2, dim == 0 ? "" : Field(1, static_cast<uint64_t>(dim)));
  return out;
}
// TensorSliceProto { extent { start length } }; a length of -1 is all.
inline std::string Slice(const std::vector<std::pair<int64_t, int64_t>>& extents) {
  std::string out;
  for (const auto& [start, length] : extents) {
    out += Field(1, (start == 0 ? "" : Field(1, static_cast<uint64_t>(start))) +
                        (length < 0 ? "" : Field(2, static_cast<uint64_t>(length))));
  }
  return out;
}
// BundleHeaderProto of one shard, version 1.
inline std::string BundleHeader(bool big_endian = false) {
  return Field(1, 1) + (big_endian ? Field(2, 1) : "") + Field(3, Field(1, 1));
}
// BundleEntryProto of shard 0.
inline std::string BundleEntry(int dtype, const std::vector<int64_t>& dims, uint64_t offset,
                               const std::string& bytes, uint32_t crc, const std::string& slices = "") {
  return Field(1, static_cast<uint64_t>(dtype)) + Field(2, Shape(dims)) +
         (offset == 0 ? "" : Field(4, offset)) + (bytes.empty() ? "" : Field(5, bytes.size())) +
         (crc == 0 ? "" : Fixed32Field(6, crc)) + slices;
}

}  // namespace millrace::io::testing_bytes
