// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "kernels/cpu/vector/ops.h"

namespace millrace {

// The routine that the kernels of an element-wise op use; kCount for other ops.
cpu::UnaryOp UnaryOpOf(std::string_view op);
cpu::BinaryOp BinaryOpOf(std::string_view op);

}  // namespace millrace
