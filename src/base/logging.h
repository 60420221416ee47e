// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sstream>
#include <string_view>

namespace millrace {

enum class LogLevel { kInfo, kWarning, kError };

// Writes one line to standard error, or to the sink that a test installed. Thread-safe.
void LogMessage(LogLevel level, const char* file, int line, std::string_view message);

// Replaces the sink; null restores standard error.
using LogSink = void (*)(LogLevel level, std::string_view message);
void SetLogSinkForTest(LogSink sink);

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);

class LogLine {
 public:
  LogLine(LogLevel level, const char* file, int line) : level_(level), file_(file), line_(line) {}
  ~LogLine() { LogMessage(level_, file_, line_, os_.str()); }
  template <typename T>
  LogLine& operator<<(const T& value) {
    os_ << value;
    return *this;
  }

 private:
  LogLevel level_;
  const char* file_;
  int line_;
  std::ostringstream os_;
};

}  // namespace millrace

#define MR_LOG(level) ::millrace::LogLine(::millrace::LogLevel::k##level, __FILE__, __LINE__)
// For programmer errors only: never reachable from a graph, a feed, a file or a peer.
#define MR_CHECK(condition) ((condition) ? (void)0 : ::millrace::CheckFailed(__FILE__, __LINE__, #condition))
