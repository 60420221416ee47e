// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

// Protobuf's wire format, read in place: fields are views into the bytes, and nothing is allocated.
namespace millrace::io {

enum class WireType : uint8_t {
  kVarint = 0,
  kFixed64 = 1,
  kBytes = 2,
  kGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5
};

struct WireField {
  uint32_t number = 0;
  WireType type = WireType::kVarint;
  uint64_t value = 0;      // of numbers; of fixed ones the bits
  std::string_view bytes;  // of kBytes
};

// Takes a number of at most ten bytes off the front; null, with *value untouched, when there is none.
inline const char* ReadVarint(const char* p, const char* end, uint64_t* value) {
  uint64_t v = 0;
  for (int shift = 0; p < end && shift < 70; shift += 7) {
    const auto byte = static_cast<unsigned char>(*p++);
    v |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) {
      *value = v;
      return p;
    }
  }
  return nullptr;
}

// Goes through the fields of one message.
class WireReader {
 public:
  explicit WireReader(std::string_view message) : p_(message.data()), end_(p_ + message.size()) {}

  // The next field; groups, which nothing here declares, are passed over. False at the end and when the
  // message is broken.
  bool Next(WireField* field) {
    while (ReadField(field)) {
      if (field->type != WireType::kGroup) return true;
      if (!SkipGroup(field->number)) break;
    }
    return false;
  }
  // Whether all fields were valid. REQUIRES: Next returned false.
  bool ok() const { return !broken_; }
  // Where the next field begins.
  const char* position() const { return p_; }

 private:
  static constexpr int kMostNested = 100;  // protobuf's limit
  static constexpr int kMostTagBytes = 5;  // the same

  bool Broken() {
    broken_ = true;
    return false;
  }
  template <typename Bits>
  bool ReadFixed(uint64_t* value) {
    if (end_ - p_ < static_cast<ptrdiff_t>(sizeof(Bits))) return Broken();
    Bits bits;
    std::memcpy(&bits, p_, sizeof bits);
    p_ += sizeof bits;
    *value = bits;
    return true;
  }
  bool ReadNumber(uint64_t* value) {
    const char* const next = ReadVarint(p_, end_, value);
    if (next == nullptr) return Broken();
    p_ = next;
    return true;
  }
  bool ReadField(WireField* field) {
    if (p_ == end_ || broken_) return false;
    const char* const begin = p_;
    uint64_t number = 0;
    if (!ReadNumber(&number)) return false;
    const auto tag = static_cast<uint32_t>(number);  // as protobuf, which drops what is above
    if (p_ - begin > kMostTagBytes || tag >> 3 == 0) return Broken();
    field->number = tag >> 3;
    field->type = static_cast<WireType>(tag & 7);
    switch (field->type) {
      case WireType::kVarint:
        return ReadNumber(&field->value);
      case WireType::kFixed64:
        return ReadFixed<uint64_t>(&field->value);
      case WireType::kFixed32:
        return ReadFixed<uint32_t>(&field->value);
      case WireType::kBytes: {
        uint64_t size = 0;
        if (!ReadNumber(&size)) return false;
        if (size > static_cast<uint64_t>(end_ - p_)) return Broken();
        field->bytes = std::string_view(p_, size);
        p_ += size;
        return true;
      }
      case WireType::kGroup:
      case WireType::kEndGroup:
        if (field->type == WireType::kEndGroup && !in_group_) return Broken();
        return true;
    }
    return Broken();
  }
  bool SkipGroup(uint32_t number) {
    uint32_t open[kMostNested] = {number};
    int depth = 1;
    in_group_ = true;
    WireField field;
    while (depth > 0) {
      if (!ReadField(&field)) return Broken();
      if (field.type == WireType::kGroup) {
        if (depth == kMostNested) return Broken();
        open[depth++] = field.number;
      } else if (field.type == WireType::kEndGroup && open[--depth] != field.number) {
        return Broken();
      }
    }
    in_group_ = false;
    return true;
  }

  const char* p_;
  const char* end_;
  bool broken_ = false;
  bool in_group_ = false;
};

}  // namespace millrace::io
