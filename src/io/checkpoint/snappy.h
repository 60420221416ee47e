// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "millrace/status.h"

namespace millrace::io {

// Decompresses one block of Snappy's raw format. DataLoss if it is malformed, ResourceExhausted if its
// decompressed size is more than `max_bytes`.
StatusOr<std::string> UnpackSnappy(std::string_view packed, uint64_t max_bytes);

}  // namespace millrace::io
