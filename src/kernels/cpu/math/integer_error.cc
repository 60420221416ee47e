// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/math/integer_error.h"

namespace millrace {

Status BadInteger(std::string_view op) {
  if (op == "Pow") return errors::InvalidArgument("Integers to negative integer powers are not allowed");
  if (op == "Div" || op == "FloorDiv" || op == "Mod" || op == "FloorMod") {
    return errors::InvalidArgument("Integer division by zero");
  }
  // TensorFlow's text for the other ops, TruncateDiv and TruncateMod.
  return errors::Internal(
      "Unexpected error in binary operator (only integer div and mod should have errors)");
}

}  // namespace millrace
