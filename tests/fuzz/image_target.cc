// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "base/logging.h"
#include "io/image/bmp.h"
#include "io/image/gif.h"
#include "io/image/jpeg.h"
#include "io/image/png.h"
#include "tests/fuzz/fuzz_targets.h"

namespace millrace {
namespace {

using io::ImageSize;

// Larger ones are not written again.
constexpr int64_t kWrittenBytes = 1 << 18;

// Memory for pixels, of the size that the readers guarantee.
class Pixels {
 public:
  Pixels(size_t file_size, int64_t densest, int bytes_per_sample)
      : limit_(std::max(io::kFreePixelBytes, static_cast<int64_t>(file_size) * densest)),
        sample_(bytes_per_sample) {}
  io::PixelAllocator Allocator() {
    return [this](const ImageSize& size) -> StatusOr<uint8_t*> {
      size_ = size;
      const int64_t n = size.pixels() * size.channels * sample_;
      if (n <= 0 || n > limit_ + kSlack) {
        MR_LOG(Error) << "fuzzing: asked for " << n << " bytes of pixels, the limit is " << limit_;
        std::abort();
      }
      data_ = std::make_unique_for_overwrite<uint8_t[]>(static_cast<size_t>(n));
      return data_.get();
    };
  }
  const uint8_t* data() const { return data_.get(); }
  const ImageSize& size() const { return size_; }
  bool small() const { return size_.pixels() * size_.channels * sample_ <= kWrittenBytes; }

 private:
  // Readers count whole bytes of the file.
  static constexpr int64_t kSlack = io::kDensestPng;
  const int64_t limit_;
  const int sample_;
  ImageSize size_;
  std::unique_ptr<uint8_t[]> data_;
};

int TakeByte(std::string_view* in) {
  if (in->empty()) return 0;
  const auto byte = static_cast<unsigned char>(in->front());
  in->remove_prefix(1);
  return byte;
}

// Wrong checksums would stop a fuzzer early.
std::string WithSums(std::string file) {
  size_t at = 8;
  while (at + 12 <= file.size()) {
    size_t n = 0;
    for (size_t i = 0; i < 4; ++i) n = n << 8 | static_cast<unsigned char>(file[at + i]);
    if (n > file.size() - at - 12) break;
    const auto crc = crc32(0, reinterpret_cast<const Bytef*>(file.data()) + at + 4, static_cast<uInt>(n + 4));
    for (size_t i = 0; i < 4; ++i) file[at + 8 + n + i] = static_cast<char>(crc >> (24 - 8 * i));
    at += 12 + n;
  }
  return file;
}

}  // namespace

void FuzzJpeg(std::string_view bytes) {
  PrepareFuzzing();
  const int mode = TakeByte(&bytes);
  io::JpegDecodeOptions options{.channels = (mode & 1) != 0 ? 3 : 0,
                                .ratio = 1 << (mode >> 1 & 3),
                                .fancy_upscaling = (mode & 8) == 0,
                                .try_recover_truncated = (mode & 16) != 0,
                                .acceptable_fraction = (mode & 32) != 0 ? 0.1f : 1.0f,
                                .accurate_dct = (mode & 64) != 0};
  if ((mode & 128) != 0) options.crop = io::JpegCrop{1, 2, 3, 4};
  Pixels pixels(bytes.size(), io::kDensestJpeg, 1);
  io::JpegSize(bytes).status().IgnoreError("any status will do");
  if (!io::DecodeJpeg(bytes, options, pixels.Allocator()).ok() || !pixels.small()) return;
  const auto file = io::EncodeJpeg(pixels.data(), pixels.size(), {.progressive = (mode & 2) != 0});
  if (!file.ok()) {
    MR_LOG(Error) << "fuzzing: what was read cannot be written: " << file.status();
    std::abort();
  }
}

void FuzzPng(std::string_view bytes) {
  PrepareFuzzing();
  const int mode = TakeByte(&bytes), channels = mode % 5, bits = (mode & 64) != 0 ? 16 : 8;
  const std::string file = (mode & 128) != 0 ? std::string(bytes) : WithSums(std::string(bytes));
  Pixels pixels(file.size(), io::kDensestPng, bits / 8);
  if (!io::DecodePng(file, channels, bits, pixels.Allocator()).ok() || !pixels.small()) return;
  const auto again = io::EncodePng(pixels.data(), pixels.size(), bits, 1);
  Pixels back(again.ok() ? again->size() : 0, io::kDensestPng, bits / 8);
  const auto n = static_cast<size_t>(pixels.size().pixels() * pixels.size().channels * bits / 8);
  if (!again.ok() || !io::DecodePng(*again, 0, bits, back.Allocator()).ok() ||
      !std::equal(pixels.data(), pixels.data() + n, back.data())) {
    MR_LOG(Error) << "fuzzing: an image changes when it is written and read";
    std::abort();
  }
}

void FuzzGif(std::string_view bytes) {
  PrepareFuzzing();
  Pixels pixels(bytes.size(), io::kDensestGif, 1);
  io::DecodeGif(bytes, pixels.Allocator()).IgnoreError("any status will do");
}

void FuzzBmp(std::string_view bytes) {
  PrepareFuzzing();
  const int mode = TakeByte(&bytes);
  Pixels pixels(bytes.size(), 1, 1);
  io::DecodeBmp(bytes, mode % 5, pixels.Allocator()).IgnoreError("any status will do");
}

}  // namespace millrace
