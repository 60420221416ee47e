// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/image/bmp.h"

#include <cstdlib>
#include <limits>

namespace millrace::io {
namespace {

// The offsets of the header's fields, and its least size.
constexpr size_t kHeaderSizeAt = 10, kWidthAt = 18, kHeightAt = 22, kBitsAt = 28;
constexpr size_t kLeastBytes = 32;

int32_t Number(std::string_view bytes, size_t at, size_t n) {
  uint32_t value = 0;
  for (size_t i = n; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return n == 2 ? static_cast<int16_t>(value) : static_cast<int32_t>(value);
}

void CopyRow(const uint8_t* from, int64_t width, int channels, uint8_t* to) {
  for (int64_t x = 0; x < width; ++x, from += channels, to += channels) {
    if (channels == 1) {
      to[0] = from[0];
      continue;
    }
    to[0] = from[2];
    to[1] = from[1];
    to[2] = from[0];
    if (channels == 4) to[3] = from[3];
  }
}

}  // namespace

Status DecodeBmp(std::string_view bytes, int channels, const PixelAllocator& allocate) {
  if (bytes.size() < kLeastBytes) {
    return errors::InvalidArgument("Incomplete bmp content, requires at least ", kLeastBytes,
                                   " bytes to find the header size, width, height, and bpp, got ",
                                   bytes.size(), " bytes");
  }
  const int64_t header_size = Number(bytes, kHeaderSizeAt, 4), width = Number(bytes, kWidthAt, 4);
  const int64_t height = Number(bytes, kHeightAt, 4), rows = std::abs(height);
  const int bits = Number(bytes, kBitsAt, 2);
  ImageSize size{.height = rows, .width = width, .channels = bits / 8};
  if (channels != 0 && channels != size.channels) {
    return errors::InvalidArgument("channels attribute ", channels,
                                   " does not match bits per pixel from file ", size.channels);
  }
  if (size.channels != 1 && size.channels != 3 && size.channels != 4)
    return errors::InvalidArgument("Number of channels must be 1, 3 or 4, was ", size.channels);
  if (width <= 0) return errors::InvalidArgument("Width must be positive");
  if (height == 0) return errors::InvalidArgument("Height must be nonzero");
  if (header_size < 0) return errors::InvalidArgument("header size must be nonnegative");
  int64_t pixels;
  if (__builtin_mul_overflow(width, rows, &pixels) || pixels >= std::numeric_limits<int32_t>::max() / 8)
    return errors::InvalidArgument("Total possible pixel bytes must be less than 2^30");
  // Rows begin at multiples of 4 bytes; the last one need not be filled up.
  const int64_t used = width * size.channels, stride = (used + 3) / 4 * 4;
  const int64_t needed = header_size + (rows - 1) * stride + used;
  if (needed > static_cast<int64_t>(bytes.size())) {
    return errors::InvalidArgument("Incomplete bmp content, requires at least ", needed, " bytes, got ",
                                   bytes.size(), " bytes");
  }
  MR_ASSIGN_OR_RETURN(uint8_t* const to, allocate(size));
  const auto* from = reinterpret_cast<const uint8_t*>(bytes.data()) + header_size;
  for (int64_t y = 0; y < rows; ++y)
    CopyRow(from + (height < 0 ? y : rows - 1 - y) * stride, width, size.channels, to + y * used);
  return Status();
}

}  // namespace millrace::io
