// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>

namespace millrace {

// Log messages go to standard error, one line each, unless the program sets a handler.
enum class LogSeverity { kInfo, kWarning, kError, kNone };

// Messages below it are dropped; kNone drops all. The initial value is MILLRACE_LOG_LEVEL (info, warning,
// error, none), or else TF_CPP_MIN_LOG_LEVEL (0 to 3), or else kInfo. Thread-safe.
void SetMinLogSeverity(LogSeverity severity);
LogSeverity MinLogSeverity();

// Called with each message instead of writing to standard error, on the thread that logs it, possibly on
// several at once. It must not throw. `file` is a file name without folders. The handler replaces the
// previous one; messages that begin after SetLogHandler returns do not call the old one. Null: standard error
// again. Thread-safe.
using LogHandler =
    std::function<void(LogSeverity severity, std::string_view file, int line, std::string_view message)>;
void SetLogHandler(LogHandler handler);

}  // namespace millrace
