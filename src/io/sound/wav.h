// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// WAV files of 16-bit samples.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "millrace/status.h"

namespace millrace::io {

// What a file holds. The samples point into its bytes: `frames` times one of each channel, little-endian.
struct WavView {
  uint32_t sample_rate = 0;
  int channels = 0;
  int64_t frames = 0;
  std::string_view samples;

  // Sample `i` in [-1, 1).
  float Sample(int64_t i) const {
    const auto low = static_cast<unsigned char>(samples[static_cast<size_t>(2 * i)]);
    const auto high = static_cast<unsigned char>(samples[static_cast<size_t>(2 * i + 1)]);
    return static_cast<float>(static_cast<int16_t>(static_cast<uint16_t>(low | high << 8))) / 32768.0f;
  }
};

// Allocates nothing. Chunks besides the format and the data are passed over. Messages are TensorFlow's.
StatusOr<WavView> ReadWav(std::string_view bytes);

// The bytes of a file with these samples, frame by frame; samples outside of [-1, 1) are clipped, and NaN is
// silent.
StatusOr<std::string> WriteWav(std::span<const float> samples, int64_t channels, int64_t sample_rate);

}  // namespace millrace::io
