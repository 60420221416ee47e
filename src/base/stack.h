// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace millrace {

// The number of free bytes of the calling thread's stack. The largest number if it is not known, as on a
// stack that a program created itself. A few nanoseconds after a thread's first call.
size_t StackLeft();

}  // namespace millrace
