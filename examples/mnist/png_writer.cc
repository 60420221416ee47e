// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "png_writer.h"

#include <png.h>

#include <array>
#include <string_view>
#include <vector>

namespace millrace::mnist {

StatusOr<std::string> EncodeGreyPng(int width, int height, std::span<const uint8_t> pixels) {
  constexpr int kLevels = 16;
  std::array<png_byte, kLevels> levels;
  for (int i = 0; i < kLevels; ++i) levels[static_cast<size_t>(i)] = static_cast<png_byte>(i * 17);
  std::vector<png_byte> numbers;
  for (const uint8_t pixel : pixels) numbers.push_back(static_cast<png_byte>((pixel * 15 + 127) / 255));

  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = PNG_FORMAT_GRAY | PNG_FORMAT_FLAG_COLORMAP;
  image.colormap_entries = kLevels;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string png(size, '\0');
  if (png_image_write_to_memory(&image, png.data(), &size, 0, numbers.data(), 0, levels.data()) == 0) {
    return errors::Internal("libpng cannot write the digits: ", std::string_view(image.message));
  }
  png.resize(size);
  return png;
}

std::string Base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k)
      group = group << 8 | (i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k) out += i + k <= bytes.size() ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

}  // namespace millrace::mnist
