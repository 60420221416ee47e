// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "millrace/status.h"

namespace millrace::mnist {

// Encodes a grey image (rows of `width` bytes) as a PNG of 16 grey levels, plenty for digits and half the
// size. REQUIRES: pixels.size() == width * height, both positive.
StatusOr<std::string> EncodeGreyPng(int width, int height, std::span<const uint8_t> pixels);

std::string Base64(std::string_view bytes);

}  // namespace millrace::mnist
