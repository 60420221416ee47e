// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "millrace/status.h"

namespace millrace::io {

// Unpacks one block of Snappy's raw format. DataLoss when it is malformed, ResourceExhausted when it says
// that it unpacks to more than `max_bytes`.
StatusOr<std::string> UnpackSnappy(std::string_view packed, uint64_t max_bytes);

}  // namespace millrace::io
