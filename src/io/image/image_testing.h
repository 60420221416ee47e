// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// For tests: image files made byte by byte from the definitions of their formats.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace::io::testing_images {

// A number in a given number of bytes, which may be more than it needs.
inline std::string Little(uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i, value >>= 8) out += static_cast<char>(value);
  return out;
}
inline std::string Big(uint64_t value, int bytes) {
  const std::string little = Little(value, bytes);
  return {little.rbegin(), little.rend()};
}
// Bytes written as numbers.
inline std::string Raw(const std::vector<int>& values) {
  std::string out;
  for (const int v : values) out += static_cast<char>(v);
  return out;
}

// A BMP: header of 14 and 40 bytes, then `rows`, which are the file's, filled up to multiples of 4 bytes.
inline std::string Bmp(int width, int height, int bits, const std::vector<std::string>& rows,
                       const std::string& palette = "") {
  std::string pixels;
  for (const std::string& row : rows) pixels += row + std::string((4 - row.size() % 4) % 4, '\0');
  const auto header = static_cast<uint32_t>(54 + palette.size());
  return "BM" + Little(header + static_cast<uint32_t>(pixels.size()), 4) + Little(0, 4) + Little(header, 4) +
         Little(40, 4) + Little(static_cast<uint32_t>(width), 4) + Little(static_cast<uint32_t>(height), 4) +
         Little(1, 2) + Little(static_cast<uint32_t>(bits), 2) + Little(0, 24) + palette + pixels;
}

inline std::string PngChunk(const std::string& type, const std::string& data) {
  const std::string body = type + data;
  const auto crc = static_cast<uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size())));
  return Big(static_cast<uint32_t>(data.size()), 4) + body + Big(crc, 4);
}
// A zlib stream that stores, with nothing compressed.
inline std::string Stored(const std::string& data) {
  const auto sum = static_cast<uint32_t>(
      adler32(1, reinterpret_cast<const Bytef*>(data.data()), static_cast<uInt>(data.size())));
  const auto n = static_cast<uint32_t>(data.size());
  return Raw({0x78, 1, 1}) + Little(n, 2) + Little(~n, 2) + data + Big(sum, 4);
}
inline constexpr std::string_view kPngStart("\x89PNG\r\n\x1a\n", 8);
inline std::string PngHeader(int width, int height, int depth, int type, bool interlaced = false) {
  return PngChunk("IHDR", Big(static_cast<uint32_t>(width), 4) + Big(static_cast<uint32_t>(height), 4) +
                              Raw({depth, type, 0, 0, interlaced ? 1 : 0}));
}
// `rows` as they are packed in the file, without the filter's byte. `chunks` come before the pixels.
inline std::string Png(int width, int height, int depth, int type, const std::vector<std::string>& rows,
                       const std::string& chunks = "", bool interlaced = false) {
  std::string data;
  for (const std::string& row : rows) data += '\0' + row;
  return std::string(kPngStart) + PngHeader(width, height, depth, type, interlaced) + chunks +
         PngChunk("IDAT", Stored(data)) + PngChunk("IEND", "");
}

// LZW without any compression: nine-bit codes that are cleared before they grow. `bits`: of a colour.
inline std::string PlainLzw(const std::vector<int>& colors, int bits) {
  const uint32_t clear = 1u << bits;
  std::vector<uint32_t> codes;
  for (size_t i = 0; i < colors.size(); ++i) {
    // The table has room for clear - 2 new strings before codes get wider.
    if (i % (clear - 2) == 0) codes.push_back(clear);
    codes.push_back(static_cast<uint32_t>(colors[i]));
  }
  codes.push_back(clear + 1);
  std::string out;
  uint64_t buffer = 0;
  int held = 0;
  for (const uint32_t code : codes) {
    buffer |= uint64_t{code} << held;
    for (held += bits + 1; held >= 8; held -= 8, buffer >>= 8) out += static_cast<char>(buffer);
  }
  if (held > 0) out += static_cast<char>(buffer);
  return out;
}
inline std::string GifBlocks(std::string data) {
  std::string out;
  for (size_t at = 0; at < data.size(); at += 255) {
    const std::string block = data.substr(at, 255);
    out += Raw({static_cast<int>(block.size())}) + block;
  }
  return out + '\0';
}
struct GifFrame {
  int left, top, width, height;
  std::vector<int> colors;
  std::string own_palette = {};  // of 4 colours
  bool interlaced = false;
  std::string before = {};  // extensions
};
// `palette`: 4 colours of three bytes each, or none.
inline std::string Gif(const std::string& version, int width, int height, const std::string& palette,
                       const std::vector<GifFrame>& frames) {
  std::string out = version + Little(static_cast<uint32_t>(width), 2) +
                    Little(static_cast<uint32_t>(height), 2) + Raw({palette.empty() ? 0 : 0x81, 0, 0}) +
                    palette;
  for (const GifFrame& f : frames) {
    out += f.before + Raw({0x2c});
    for (const int value : {f.left, f.top, f.width, f.height}) out += Little(static_cast<uint32_t>(value), 2);
    out += Raw({(f.own_palette.empty() ? 0 : 0x81) | (f.interlaced ? 0x40 : 0)}) + f.own_palette + Raw({2}) +
           GifBlocks(PlainLzw(f.colors, 2));
  }
  return out + ';';
}
// Disposal and the transparent colour.
inline std::string GifControl(int disposal, int transparent) {
  return Raw({0x21, 0xf9, 4, disposal << 2 | 1, 10, 0, transparent, 0});
}

// A baseline JPEG of 8x8 grey pixels, all of one value: the average is (value - 128) * 8 in steps of `step`.
// The tables have one code each: category `bits` of the average, and the end of the block.
inline std::string FlatJpeg(int value, int width = 8, int height = 8, int blocks = 1) {
  const int average = (value - 128) * 8;
  int bits = 0;
  while (1 << bits <= (average < 0 ? -average : average)) ++bits;
  // Categories 0 and `bits` have the codes 0 and 10; the end of a block has the code 0.
  std::string tables =
      Raw({0xff, 0xc4, 0, 2 + 17 + 2, 0x00, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, bits}) +
      Raw({0xff, 0xc4, 0, 2 + 17 + 1, 0x10, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  std::string code = "10";
  const int coded = average < 0 ? average + (1 << bits) - 1 : average;
  for (int i = bits; i-- > 0;) code += (coded >> i & 1) != 0 ? '1' : '0';
  code += '0';
  for (int i = 1; i < blocks; ++i) code += "00";  // as the block before, and its end
  std::string data;
  while (code.size() % 8 != 0) code += '1';
  for (size_t i = 0; i < code.size(); i += 8) {
    int byte = 0;
    for (size_t k = 0; k < 8; ++k) byte = byte << 1 | (code[i + k] == '1');
    data += static_cast<char>(byte);
    if (byte == 0xff) data += '\0';
  }
  return Raw({0xff, 0xd8, 0xff, 0xdb, 0, 67, 0}) + std::string(64, '\1') +
         Raw({0xff, 0xc0, 0, 11, 8, height >> 8, height & 255, width >> 8, width & 255, 1, 1, 0x11, 0}) +
         tables + Raw({0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0}) + data + Raw({0xff, 0xd9});
}

}  // namespace millrace::io::testing_images
