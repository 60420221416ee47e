// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// What the readers and writers of image files share.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "millrace/status.h"

namespace millrace::io {

enum class ImageFormat { kUnknown, kJpeg, kPng, kGif, kBmp };
// By the first bytes.
ImageFormat ClassifyImage(std::string_view bytes);

struct ImageSize {
  int64_t frames = 1;
  int64_t height = 0;
  int64_t width = 0;
  int channels = 0;
  int64_t pixels() const { return frames * height * width; }
};

// Gives a reader the memory for the pixels, row by row, once their number is known and plausible. Called at
// most once; an error of it ends the reading.
using PixelAllocator = std::function<StatusOr<uint8_t*>(const ImageSize&)>;

// Up to this limit a size in a file is trusted; a larger one must not exceed what the file's bytes can
// encode, kDensest… bytes of pixels for each byte of the file.
inline constexpr int64_t kFreePixelBytes = int64_t{64} << 20;
inline constexpr int64_t kDensestJpeg = 64 * 8 * 3;       // a block of 64 pixels in one bit
inline constexpr int64_t kDensestPng = 1032 * 8 * 4 * 2;  // what deflate repeats, of 1 bit each, as RGBA16
inline constexpr int64_t kDensestGif = 4096 * 3;          // the longest code, in no less than a byte
// As in TensorFlow.
inline constexpr int64_t kMostPixels = int64_t{1} << 29;

// InvalidArgument unless the file may hold an image of that size.
Status CheckPlausible(const ImageSize& size, int64_t bytes_per_sample, size_t file_size, int64_t densest);

}  // namespace millrace::io
