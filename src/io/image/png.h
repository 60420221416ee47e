// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// PNG files, by libpng.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/image/image.h"

namespace millrace::io {

// The pixels of a file, [height, width, channels], of 8 or 16 bits in the machine's order. `channels`: 1 to 4
// (2 and 4 with alpha), or 0 for those of the file.
Status DecodePng(std::string_view bytes, int channels, int bits, const PixelAllocator& allocate);

// REQUIRES: 1 to 4 channels of 8 or 16 bits, -1 <= compression <= 9.
StatusOr<std::string> EncodePng(const uint8_t* pixels, const ImageSize& size, int bits, int compression);

}  // namespace millrace::io
