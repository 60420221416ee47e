// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Random numbers with the distributions of TensorFlow 1.x's CPU kernels, bit for bit.
#pragma once

#include <cstdint>

#include "base/random/philox.h"
#include "millrace/dtype.h"

namespace millrace::cpu {

// Each writes elements [begin, end) of the tensor that starts at `out`, given the position that the run
// reserved (GuardedPhilox::Reserve(outputs)). An element's value depends on its index only, so any split into
// calls gives the same tensor. Types: half, bfloat16, float, double.
void FillRandomUniform(const PhiloxRandom& base, DataType type, void* out, int64_t begin, int64_t end);
void FillRandomNormal(const PhiloxRandom& base, DataType type, void* out, int64_t begin, int64_t end);
// Normal numbers whose magnitude is below 2; others are drawn again.
void FillTruncatedNormal(const PhiloxRandom& base, DataType type, void* out, int64_t begin, int64_t end);

// Integers in [lo, hi). Types: int32, int64. REQUIRES: lo < hi and both fit the type.
void FillRandomUniformInt(const PhiloxRandom& base, DataType type, int64_t lo, int64_t hi, void* out,
                          int64_t begin, int64_t end);

}  // namespace millrace::cpu
