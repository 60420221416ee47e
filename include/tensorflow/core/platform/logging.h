// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// LOG, VLOG and CHECK for sources of ops. Messages go to standard error; a CHECK that fails ends the
// process.
#ifndef TENSORFLOW_CORE_PLATFORM_LOGGING_H_
#define TENSORFLOW_CORE_PLATFORM_LOGGING_H_

#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace tensorflow {
namespace internal {

class LogMessage {
 public:
  LogMessage(const char* file, int line, char severity) : severity_(severity) {
    text_ << severity << ' ' << file << ':' << line << "] ";
  }
  LogMessage(const LogMessage&) = delete;
  LogMessage& operator=(const LogMessage&) = delete;
  ~LogMessage() {
    text_ << '\n';
    std::fputs(text_.str().c_str(), stderr);
    if (severity_ == 'F') std::abort();
  }
  std::ostream& stream() { return text_; }

 private:
  const char severity_;
  std::ostringstream text_;
};

// Gives both arms of a conditional one type.
struct LogVoidify {
  void operator&(std::ostream&) {}
};

inline int MaxVLogLevel() {
  static const int level = [] {
    const char* const text = std::getenv("TF_CPP_MIN_VLOG_LEVEL");
    return text == nullptr ? 0 : std::atoi(text);
  }();
  return level;
}

}  // namespace internal
}  // namespace tensorflow

#define MR_TF_LOG_INFO 'I'
#define MR_TF_LOG_WARNING 'W'
#define MR_TF_LOG_ERROR 'E'
#define MR_TF_LOG_FATAL 'F'
#define LOG(severity) ::tensorflow::internal::LogMessage(__FILE__, __LINE__, MR_TF_LOG_##severity).stream()
#define VLOG_IS_ON(level) ((level) <= ::tensorflow::internal::MaxVLogLevel())
#define VLOG(level) !VLOG_IS_ON(level) ? (void)0 : ::tensorflow::internal::LogVoidify() & LOG(INFO)
#define CHECK(condition) \
  (condition) ? (void)0 : ::tensorflow::internal::LogVoidify() & LOG(FATAL) << "Check failed: " #condition " "
#define CHECK_EQ(a, b) CHECK((a) == (b))
#define CHECK_NE(a, b) CHECK((a) != (b))
#define CHECK_LT(a, b) CHECK((a) < (b))
#define CHECK_LE(a, b) CHECK((a) <= (b))
#define CHECK_GT(a, b) CHECK((a) > (b))
#define CHECK_GE(a, b) CHECK((a) >= (b))
#define CHECK_NOTNULL(pointer) (pointer)
#ifdef NDEBUG
#define DCHECK(condition) (true || (condition)) ? (void)0 : ::tensorflow::internal::LogVoidify() & LOG(FATAL)
#else
#define DCHECK(condition) CHECK(condition)
#endif
#define DCHECK_EQ(a, b) DCHECK((a) == (b))
#define DCHECK_NE(a, b) DCHECK((a) != (b))
#define DCHECK_LT(a, b) DCHECK((a) < (b))
#define DCHECK_LE(a, b) DCHECK((a) <= (b))
#define DCHECK_GT(a, b) DCHECK((a) > (b))
#define DCHECK_GE(a, b) DCHECK((a) >= (b))

#endif
