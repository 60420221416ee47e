// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace millrace::cpu {

// About how many floats of pixels and of zeros between them response normalisation takes at once: rows that
// are long beside the vectors and stay in the first cache.
inline constexpr int64_t kResponseNormRow = 512;

}  // namespace millrace::cpu
