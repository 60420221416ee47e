// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/image/image.h"

namespace millrace::io {

ImageFormat ClassifyImage(std::string_view bytes) {
  if (bytes.starts_with("\xff\xd8\xff")) return ImageFormat::kJpeg;
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) return ImageFormat::kPng;
  if (bytes.starts_with("GIF8")) return ImageFormat::kGif;
  if (bytes.starts_with("BM")) return ImageFormat::kBmp;
  return ImageFormat::kUnknown;
}

Status CheckPlausible(const ImageSize& size, int64_t bytes_per_sample, size_t file_size, int64_t densest) {
  int64_t pixels;
  if (size.width <= 0 || size.height <= 0 || __builtin_mul_overflow(size.width, size.height, &pixels) ||
      __builtin_mul_overflow(pixels, size.frames, &pixels)) {
    return errors::InvalidArgument("Invalid image size: ", size.width, " x ", size.height);
  }
  if (pixels >= kMostPixels)
    return errors::InvalidArgument("Image too large: ", size.frames, " x ", size.width, " x ", size.height);
  const int64_t bytes = pixels * size.channels * bytes_per_sample;
  if (bytes > kFreePixelBytes && bytes / densest > static_cast<int64_t>(file_size)) {
    return errors::InvalidArgument("An image of ", size.frames, " x ", size.width, " x ", size.height,
                                   " needs more than ", file_size, " bytes");
  }
  return Status();
}

}  // namespace millrace::io
