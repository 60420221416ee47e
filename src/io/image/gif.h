// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// GIF files, of one or more frames.
#pragma once

#include <cstdint>
#include <string_view>

#include "io/image/image.h"

namespace millrace::io {

// The frames of a file, [frames, height, width, 3], the size being that of the largest. Each is laid over the
// one before, as TensorFlow 1.15 does it: whatever the file says of disposal, and with the transparent colour
// drawn as the colour that it is. The first frame must fill the whole size. What a truncated frame lacks is
// colour 0; a file that breaks off or goes wrong after its first frame gives the frames up to there.
Status DecodeGif(std::string_view bytes, const PixelAllocator& allocate);

}  // namespace millrace::io
