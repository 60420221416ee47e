// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// GIF files, of one or more frames.
#pragma once

#include <cstdint>
#include <string_view>

#include "io/image/image.h"

namespace millrace::io {

// The frames of a file, [frames, height, width, 3], the size being that of the largest. Each is laid over the
// one before, as TensorFlow 1.15 does it: regardless of the disposal methods in the file, and with the
// transparent colour drawn as its colour. The first frame must fill the whole size. The missing part of a
// truncated frame is colour 0; a file that is truncated or malformed after its first frame gives the frames
// up to there.
Status DecodeGif(std::string_view bytes, const PixelAllocator& allocate);

}  // namespace millrace::io
