// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "base/logging.h"

#include <strings.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <utility>

#include "base/log_listener.h"
#include "base/mutex.h"
#include "millrace/logging.h"

namespace millrace {
namespace {

// Pairs store (release) in SetLogSinkForTest with load (acquire) in LogMessage.
std::atomic<LogSink> g_sink{nullptr};
// Filled from the front. Pairs the compare-and-swap (release) in AddLogListener with load (acquire) in
// LogMessage.
std::atomic<LogListener> g_listeners[16];

struct Handler {
  Mutex mu;
  std::shared_ptr<const LogHandler> handler MR_GUARDED_BY(mu);  // null: standard error
};
Handler& TheHandler() {
  static auto* handler = new Handler;
  return *handler;
}
std::shared_ptr<const LogHandler> CurrentHandler() {
  Handler& the = TheHandler();
  MutexLock lock(the.mu);
  return the.handler;
}

LogSeverity SeverityFromEnvironment() {
  constexpr const char* kNames[] = {"info", "warning", "error", "none"};
  if (const char* const name = std::getenv("MILLRACE_LOG_LEVEL"); name != nullptr) {
    for (int i = 0; i < 4; ++i) {
      if (::strcasecmp(name, kNames[i]) == 0) return static_cast<LogSeverity>(i);
    }
  }
  const char* const number = std::getenv("TF_CPP_MIN_LOG_LEVEL");
  if (number == nullptr || *number < '0' || *number > '9') return LogSeverity::kInfo;
  return number[1] != '\0' || *number > '3' ? LogSeverity::kNone : static_cast<LogSeverity>(*number - '0');
}
std::atomic<LogSeverity>& Severity() {
  static std::atomic<LogSeverity> severity{SeverityFromEnvironment()};
  return severity;
}

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
  const auto severity = static_cast<LogSeverity>(level);
  if (severity < MinLogSeverity()) return;
  if (const std::shared_ptr<const LogHandler> handler = CurrentHandler(); handler != nullptr) {
    (*handler)(severity, BaseName(file), line, message);
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

void SetMinLogSeverity(LogSeverity severity) { Severity().store(severity, std::memory_order_relaxed); }
LogSeverity MinLogSeverity() { return Severity().load(std::memory_order_relaxed); }  // of nothing else

void SetLogHandler(LogHandler handler) {
  auto made = handler ? std::make_shared<const LogHandler>(std::move(handler)) : nullptr;
  Handler& the = TheHandler();
  MutexLock lock(the.mu);
  the.handler.swap(made);
}

void SetLogSinkForTest(LogSink sink) { g_sink.store(sink, std::memory_order_release); }

void CheckFailed(const char* file, int line, const char* condition) {
  const std::string text = Prefix('F', file, line) + "check failed: " + condition + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
  std::abort();
}

}  // namespace millrace
