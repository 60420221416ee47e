// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace millrace {

// From now on `listener` is called with every log line, including its end, on the thread that logs it. A
// listener can't be removed. At most 16 are kept. Thread-safe.
using LogListener = void (*)(const char* line);
void AddLogListener(LogListener listener);

}  // namespace millrace
