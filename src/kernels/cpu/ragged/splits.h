// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/cpu/kernel_util.h"

namespace millrace::ragged {

// Writes an element of an int32 or int64 tensor; false when the value does not fit.
inline bool PutIndex(Tensor* t, int64_t i, int64_t value) {
  if (t->dtype() == DataType::kInt64) {
    t->data<int64_t>()[i] = value;
    return true;
  }
  if (value > std::numeric_limits<int32_t>::max()) return false;
  t->data<int32_t>()[i] = static_cast<int32_t>(value);
  return true;
}

inline Status TooLong(int64_t value) {
  return errors::InvalidArgument("A split of ", value, " does not fit into int32");
}

}  // namespace millrace::ragged
