// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace millrace::cpu {

// The approximate number of floats, of pixels and the zeros between them, in a block of response
// normalisation: rows that are long in comparison with vectors and stay in the first cache.
inline constexpr int64_t kResponseNormRow = 512;

}  // namespace millrace::cpu
