// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// JPEG files, by libjpeg.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "io/image/image.h"

namespace millrace::io {

struct JpegCrop {
  int64_t y = 0, x = 0, height = 0, width = 0;
};

struct JpegDecodeOptions {
  int channels = 0;  // 1 or 3; 0: as many as the file has, CMYK as RGB
  int ratio = 1;     // 1, 2, 4 or 8: makes the image that much smaller
  bool fancy_upscaling = true;
  bool try_recover_truncated = false;  // fills in the missing part
  float acceptable_fraction = 1;       // of the rows; the others become black
  bool accurate_dct = false;
  std::optional<JpegCrop> crop = std::nullopt;  // in pixels of the smaller image
};

// The pixels of a file, [height, width, channels].
Status DecodeJpeg(std::string_view bytes, const JpegDecodeOptions& options, const PixelAllocator& allocate);

// The size in the header.
StatusOr<ImageSize> JpegSize(std::string_view bytes);

struct JpegEncodeOptions {
  int quality = 95;  // 0 to 100
  bool progressive = false;
  bool optimize_size = false;
  bool chroma_downsampling = true;
  bool density_in_cm = false;
  int x_density = 300;
  int y_density = 300;
  std::string xmp_metadata = {};
};

// REQUIRES: one or three channels, one frame.
StatusOr<std::string> EncodeJpeg(const uint8_t* pixels, const ImageSize& size,
                                 const JpegEncodeOptions& options);

}  // namespace millrace::io
