// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/vector/tables.h"
#include "millrace/dtype.h"

namespace millrace::cpu {

// The loop for complex64 or complex128; null if the rule has none.
const UpdateFns* FindComplexUpdate(UpdateRule rule, DataType type);

}  // namespace millrace::cpu
