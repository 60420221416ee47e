// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint/snappy.h"

#include <snappy.h>

namespace millrace::io {

StatusOr<std::string> UnpackSnappy(std::string_view packed, uint64_t max_bytes) {
  size_t length;
  if (!snappy::GetUncompressedLength(packed.data(), packed.size(), &length)) {
    return errors::DataLoss("corrupted compressed block contents: no length");
  }
  if (length > max_bytes) {
    return errors::ResourceExhausted("a compressed block of ", packed.size(), " bytes claims to unpack to ",
                                     length, ", more than the limit of ", max_bytes);
  }
  // No element expands 2 bytes to more than 64: larger declared sizes are refused before allocation.
  if (length > packed.size() * 32) {
    return errors::DataLoss("corrupted compressed block contents: too few bytes for its length");
  }
  std::string out(length, '\0');
  if (!snappy::RawUncompress(packed.data(), packed.size(), out.data())) {
    return errors::DataLoss("corrupted compressed block contents");
  }
  return out;
}

}  // namespace millrace::io
