// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>

namespace millrace {

// What the engine logs goes to standard error, a line each, unless the host program takes it.
enum class LogSeverity { kInfo, kWarning, kError, kNone };

// Messages below it are dropped; kNone drops all. At the start it is what MILLRACE_LOG_LEVEL says (info,
// warning, error, none), or else TF_CPP_MIN_LOG_LEVEL (0 to 3), or else kInfo. Thread-safe.
void SetMinLogSeverity(LogSeverity severity);
LogSeverity MinLogSeverity();

// Called with each message in place of standard error, on the thread that logs it, perhaps on several at
// once. It must not throw. `file` is a file name without folders. The handler replaces the one before;
// messages that begin after the return of SetLogHandler do not call that any more. Null: standard error
// again. Thread-safe.
using LogHandler =
    std::function<void(LogSeverity severity, std::string_view file, int line, std::string_view message)>;
void SetLogHandler(LogHandler handler);

}  // namespace millrace
