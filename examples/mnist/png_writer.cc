// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "png_writer.h"

#include <zlib.h>

#include <string_view>

namespace millrace::mnist {
namespace {

void AppendBigEndian(uint32_t value, std::string& out) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
}

void AppendChunk(std::string_view type, std::string_view body, std::string& out) {
  AppendBigEndian(static_cast<uint32_t>(body.size()), out);
  std::string checked(type);
  checked += body;
  out += checked;
  const auto* bytes = reinterpret_cast<const Bytef*>(checked.data());
  AppendBigEndian(static_cast<uint32_t>(crc32(0, bytes, static_cast<uInt>(checked.size()))), out);
}

}  // namespace

StatusOr<std::string> EncodeGreyPng(int width, int height, std::span<const uint8_t> pixels) {
  constexpr char kUnfiltered = 0;
  std::string rows;
  for (int y = 0; y < height; ++y) {
    rows += kUnfiltered;
    const auto row =
        pixels.subspan(static_cast<size_t>(y) * static_cast<size_t>(width), static_cast<size_t>(width));
    for (size_t x = 0; x < row.size(); x += 2) {
      const uint8_t right = x + 1 < row.size() ? row[x + 1] : 0;
      rows += static_cast<char>(((row[x] * 15 + 127) / 255) << 4 | ((right * 15 + 127) / 255));
    }
  }
  uLongf packed_size = compressBound(static_cast<uLong>(rows.size()));
  std::string packed(packed_size, '\0');
  const int code = compress2(reinterpret_cast<Bytef*>(packed.data()), &packed_size,
                             reinterpret_cast<const Bytef*>(rows.data()), static_cast<uLong>(rows.size()),
                             Z_BEST_COMPRESSION);
  if (code != Z_OK) return errors::ResourceExhausted("zlib cannot compress the digits (code ", code, ")");
  packed.resize(packed_size);

  std::string header;
  AppendBigEndian(static_cast<uint32_t>(width), header);
  AppendBigEndian(static_cast<uint32_t>(height), header);
  header.append({4, 0, 0, 0, 0});  // bits a sample, grey, deflate, adaptive filters, not interlaced
  std::string png = "\x89PNG\r\n\x1a\n";
  AppendChunk("IHDR", header, png);
  AppendChunk("IDAT", packed, png);
  AppendChunk("IEND", "", png);
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
