// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint/snappy.h"

#include <algorithm>

#include "io/checkpoint/coding.h"

namespace millrace::io {
namespace {

Status Malformed(const char* what) { return errors::DataLoss("corrupted compressed block contents: ", what); }

// A little-endian number of n bytes, n <= 4; false when they are not there.
bool TakeBytes(std::string_view* in, size_t n, uint32_t* value) {
  if (in->size() < n) return false;
  *value = 0;
  for (size_t i = 0; i < n; ++i) *value |= uint32_t{static_cast<unsigned char>((*in)[i])} << (8 * i);
  in->remove_prefix(n);
  return true;
}

// The meaning of one tag: literal bytes that follow it, or a copy of earlier bytes.
struct Element {
  bool literal = false;
  uint64_t length = 0;
  uint32_t distance = 0;
};

bool TakeElement(std::string_view* in, Element* element) {
  uint32_t tag;
  if (!TakeBytes(in, 1, &tag)) return false;
  element->literal = (tag & 3) == 0;
  if (element->literal) {
    uint32_t length = tag >> 2;
    if (length >= 60 && !TakeBytes(in, length - 59, &length)) return false;
    element->length = uint64_t{length} + 1;
    return true;
  }
  if ((tag & 3) == 1) {
    uint32_t low;
    if (!TakeBytes(in, 1, &low)) return false;
    element->length = 4 + (tag >> 2 & 7);
    element->distance = (tag >> 5) << 8 | low;
    return true;
  }
  element->length = (tag >> 2) + 1;
  return TakeBytes(in, (tag & 3) == 2 ? 2 : 4, &element->distance);
}

}  // namespace

StatusOr<std::string> UnpackSnappy(std::string_view packed, uint64_t max_bytes) {
  uint32_t length;
  std::string_view in = packed;
  if (!TakeVarint32(&in, &length)) return Malformed("no length");
  if (length > max_bytes) {
    return errors::ResourceExhausted("a compressed block of ", packed.size(), " bytes claims to unpack to ",
                                     length, ", more than the limit of ", max_bytes);
  }
  // No element makes more than 64 bytes of 2.
  if (length > in.size() * 32) return Malformed("too few bytes for its length");
  std::string out;
  out.reserve(length);
  while (!in.empty()) {
    Element element;
    if (!TakeElement(&in, &element)) return Malformed("ends within an element");
    if (element.length > length - out.size()) return Malformed("longer than it says");
    if (element.literal) {
      if (element.length > in.size()) return Malformed("ends within a literal");
      out.append(in.substr(0, element.length));
      in.remove_prefix(element.length);
      continue;
    }
    if (element.distance == 0 || element.distance > out.size()) return Malformed("a copy of nothing");
    // The source may reach into what is being written: then its bytes repeat.
    for (uint64_t left = element.length; left > 0;) {
      const size_t n = std::min<uint64_t>(left, element.distance);
      out.append(out, out.size() - element.distance, n);
      left -= n;
    }
  }
  if (out.size() != length) return Malformed("shorter than it says");
  return out;
}

}  // namespace millrace::io
