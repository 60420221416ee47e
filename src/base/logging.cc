// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "base/logging.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

#include "base/log_listener.h"

namespace millrace {
namespace {

// Pairs store (release) in SetLogSinkForTest with load (acquire) in LogMessage.
std::atomic<LogSink> g_sink{nullptr};
// Filled from the front. Pairs the compare-and-swap (release) in AddLogListener with load (acquire) in
// LogMessage.
std::atomic<LogListener> g_listeners[16];

const char* BaseName(const char* file) {
  const char* slash = std::strrchr(file, '/');
  return slash == nullptr ? file : slash + 1;
}

// "2026-01-31 12:00:00.123456: W file.cc:12] " in UTC.
std::string Prefix(char level, const char* file, int line) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  const std::time_t seconds = static_cast<std::time_t>(micros / 1000000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char date[32];
  std::strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S", &parts);
  char text[64];
  std::snprintf(text, sizeof(text), "%s.%06d: %c ", date, static_cast<int>(micros % 1000000), level);
  return std::string(text) + BaseName(file) + ":" + std::to_string(line) + "] ";
}

}  // namespace

void LogMessage(LogLevel level, const char* file, int line, std::string_view message) {
  if (LogSink sink = g_sink.load(std::memory_order_acquire); sink != nullptr) {
    sink(level, message);
    return;
  }
  std::string text = Prefix("IWE"[static_cast<int>(level)], file, line);
  text.append(message);
  text.push_back('\n');
  for (const std::atomic<LogListener>& listener : g_listeners) {
    const LogListener fn = listener.load(std::memory_order_acquire);
    if (fn == nullptr) break;
    fn(text.c_str());
  }
  std::fwrite(text.data(), 1, text.size(), stderr);  // one call, so that lines of several threads do not mix
}

void AddLogListener(LogListener listener) {
  for (std::atomic<LogListener>& slot : g_listeners) {
    LogListener none = nullptr;
    if (slot.compare_exchange_strong(none, listener, std::memory_order_acq_rel)) return;
  }
}

void SetLogSinkForTest(LogSink sink) { g_sink.store(sink, std::memory_order_release); }

void CheckFailed(const char* file, int line, const char* condition) {
  const std::string text = Prefix('F', file, line) + "check failed: " + condition + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
  std::abort();
}

}  // namespace millrace
