// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "base/function.h"
#include "millrace/status.h"

namespace millrace::cli {

// Visits the fields of a serialised message without parsing it into an object, so that messages of any
// size need constant memory. Calls `visit(number, bytes)` for each length-delimited field (messages,
// strings) and stops at its first error; other fields are skipped. DataLoss with the offset for invalid
// bytes.
Status ForEachField(std::string_view message,
                    FunctionRef<Status(uint32_t number, std::string_view bytes)> visit);

}  // namespace millrace::cli
