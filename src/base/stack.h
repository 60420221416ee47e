// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace millrace {

// Bytes that are left of the calling thread's stack. The largest number when that is not known, as on a stack
// that a program made by itself. A few nanoseconds after a thread's first call.
size_t StackLeft();

}  // namespace millrace
