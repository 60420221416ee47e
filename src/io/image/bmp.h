// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// BMP files that are not compressed.
#pragma once

#include <cstdint>
#include <string_view>

#include "io/image/image.h"

namespace millrace::io {

// The pixels of a file of 8, 24 or 32 bits a pixel, [height, width, channels] from the top. As in TensorFlow,
// those of 8 bits are what the file holds (numbers of colours, when it has a palette). `channels`: 1, 3 or 4,
// which must be those of the file; or 0.
Status DecodeBmp(std::string_view bytes, int channels, const PixelAllocator& allocate);

}  // namespace millrace::io
