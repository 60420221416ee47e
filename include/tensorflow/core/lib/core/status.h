// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The result of an operation: OK, or a code and a text.
#ifndef TENSORFLOW_CORE_LIB_CORE_STATUS_H_
#define TENSORFLOW_CORE_LIB_CORE_STATUS_H_

#include <ostream>
#include <string>
#include <utility>

#include "tensorflow/c/c_api.h"
#include "tensorflow/core/platform/logging.h"
#include "tensorflow/core/platform/macros.h"
#include "tensorflow/core/platform/types.h"

namespace tensorflow {

namespace error {
enum Code {
  OK = TF_OK,
  CANCELLED = TF_CANCELLED,
  UNKNOWN = TF_UNKNOWN,
  INVALID_ARGUMENT = TF_INVALID_ARGUMENT,
  DEADLINE_EXCEEDED = TF_DEADLINE_EXCEEDED,
  NOT_FOUND = TF_NOT_FOUND,
  ALREADY_EXISTS = TF_ALREADY_EXISTS,
  PERMISSION_DENIED = TF_PERMISSION_DENIED,
  RESOURCE_EXHAUSTED = TF_RESOURCE_EXHAUSTED,
  FAILED_PRECONDITION = TF_FAILED_PRECONDITION,
  ABORTED = TF_ABORTED,
  OUT_OF_RANGE = TF_OUT_OF_RANGE,
  UNIMPLEMENTED = TF_UNIMPLEMENTED,
  INTERNAL = TF_INTERNAL,
  UNAVAILABLE = TF_UNAVAILABLE,
  DATA_LOSS = TF_DATA_LOSS,
  UNAUTHENTICATED = TF_UNAUTHENTICATED
};
}  // namespace error

class Status {
 public:
  Status() : code_(error::OK) {}
  Status(error::Code code, string message) : code_(code), message_(std::move(message)) {}
  static Status OK() { return Status(); }

  bool ok() const { return code_ == error::OK; }
  error::Code code() const { return code_; }
  const string& error_message() const { return message_; }
  bool operator==(const Status& other) const { return code_ == other.code_ && message_ == other.message_; }
  bool operator!=(const Status& other) const { return !(*this == other); }
  // Keeps the first error.
  void Update(const Status& other) {
    if (ok()) *this = other;
  }
  string ToString() const { return ok() ? "OK" : "Error " + std::to_string(code_) + ": " + message_; }
  void IgnoreError() const {}

 private:
  error::Code code_;
  string message_;
};

inline std::ostream& operator<<(std::ostream& os, const Status& status) { return os << status.ToString(); }

namespace internal {

// A status that functions of the C API set.
class CStatus {
 public:
  CStatus() : status_(TF_NewStatus()) {}
  ~CStatus() { TF_DeleteStatus(status_); }
  CStatus(const CStatus&) = delete;
  CStatus& operator=(const CStatus&) = delete;
  explicit CStatus(const Status& status) : CStatus() {
    TF_SetStatus(status_, static_cast<TF_Code>(status.code()), status.error_message().c_str());
  }
  TF_Status* get() const { return status_; }
  Status status() const {
    return TF_GetCode(status_) == TF_OK
               ? Status()
               : Status(static_cast<error::Code>(TF_GetCode(status_)), TF_Message(status_));
  }

 private:
  TF_Status* const status_;
};
class CBuffer {
 public:
  CBuffer() : buffer_(TF_NewBuffer()) {}
  explicit CBuffer(TF_Buffer* owned) : buffer_(owned) {}
  ~CBuffer() { TF_DeleteBuffer(buffer_); }
  CBuffer(const CBuffer&) = delete;
  CBuffer& operator=(const CBuffer&) = delete;
  TF_Buffer* get() const { return buffer_; }
  string text() const {
    if (buffer_ == nullptr || buffer_->data == nullptr) return string();
    return string(static_cast<const char*>(buffer_->data), buffer_->length);
  }

 private:
  TF_Buffer* const buffer_;
};

}  // namespace internal
}  // namespace tensorflow

#define TF_RETURN_IF_ERROR(...)                         \
  do {                                                  \
    const ::tensorflow::Status mr_tf_s = (__VA_ARGS__); \
    if (!mr_tf_s.ok()) return mr_tf_s;                  \
  } while (0)
#define TF_CHECK_OK(...) CHECK((__VA_ARGS__).ok())

#endif
