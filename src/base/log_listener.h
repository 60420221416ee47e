// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace millrace {

// From now on `listener` gets every line that is logged, with its end, on the thread that logs it. There is
// no way back. At most 16 are kept. Thread-safe.
using LogListener = void (*)(const char* line);
void AddLogListener(LogListener listener);

}  // namespace millrace
