// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "millrace/status.h"

namespace millrace {

// The error of an element-wise op `op` on integers that got an invalid value (for example a zero divisor).
Status BadInteger(std::string_view op);

}  // namespace millrace
