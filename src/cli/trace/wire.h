// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "base/function.h"
#include "millrace/status.h"

namespace millrace::cli {

// Walks over the fields of a serialised message without building it, so that messages of any size are taken
// apart in constant memory. Calls `visit(number, bytes)` for each field that has a length (messages, strings)
// and stops at its first error; other fields are skipped. DataLoss with the offset when the bytes are no
// message.
Status ForEachField(std::string_view message,
                    FunctionRef<Status(uint32_t number, std::string_view bytes)> visit);

}  // namespace millrace::cli
