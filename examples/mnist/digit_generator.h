// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "dataset.h"

namespace millrace::mnist {

struct GeneratorOptions {
  uint64_t seed = 0;
  int64_t train_size = 60000;
  int64_t test_size = 10000;
  int threads = 0;  // 0 means one per core; the images do not depend on it
};

// Draws handwritten-looking digits: a writing variant's strokes, their points jittered, bent, sheared, turned
// and stretched, inked with a pen of varying width, blurred and speckled. Image i of a set depends on (seed,
// set, i) alone and is the same on every machine.
Dataset GenerateDigits(const GeneratorOptions& options);

// Draws one image of `digit` (0 to 9) into kPixels bytes.
void DrawDigit(int digit, RandomStream& random, std::span<uint8_t> pixels);

}  // namespace millrace::mnist
