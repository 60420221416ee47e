// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <new>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace millrace {

// TensorFlow's canonical codes, with the numbers of tensorflow/core/lib/core/error_codes.proto.
enum class ErrorCode : int {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

// Returns the name that users of TensorFlow know, for example "Invalid argument".
std::string_view ErrorCodeName(ErrorCode code);

// The result of an operation that can fail: OK, or a code with a message. One word wide; copying an error
// shares its text. Thread-compatible.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(ErrorCode code, std::string message);
  Status(const Status& o) : rep_(o.rep_) {
    if (rep_ != nullptr) rep_->refs.fetch_add(1, std::memory_order_relaxed);
  }
  Status(Status&& o) noexcept : rep_(std::exchange(o.rep_, nullptr)) {}
  Status& operator=(Status o) noexcept {
    std::swap(rep_, o.rep_);
    return *this;
  }
  ~Status() {
    if (rep_ != nullptr) [[unlikely]]
      Unref(rep_);
  }

  static Status Ok() { return Status(); }

  bool ok() const { return rep_ == nullptr; }
  ErrorCode code() const { return rep_ == nullptr ? ErrorCode::kOk : rep_->code; }
  // Empty when OK.
  const std::string& message() const;
  // "OK" or "<code name>: <message>".
  std::string ToString() const;

  // Keeps the first error: assigns `other` only if this is OK.
  void Update(const Status& other) {
    if (ok() && !other.ok()) *this = other;
  }
  // Returns an error with the same code whose message is followed by `context`; OK stays OK.
  Status WithContext(std::string_view context) const;
  // Marks an error as dropped intentionally, with the reason.
  void IgnoreError(const char* why) const { (void)why; }

  friend bool operator==(const Status& a, const Status& b) {
    return a.code() == b.code() && a.message() == b.message();
  }

 private:
  struct Rep {
    std::atomic<int> refs;
    ErrorCode code;
    std::string message;
  };
  static void Unref(Rep* rep);

  Rep* rep_ = nullptr;  // owns one reference
};

std::ostream& operator<<(std::ostream& os, const Status& status);

namespace internal {
// These end the program with a message: for wrong calls that can't return an error.
[[noreturn]] void EndWithMessage(std::string_view message);
[[noreturn]] void NoValue(const Status& status);
}  // namespace internal

// A value, or an error. The program ends with a message if the value of an error is accessed.
template <typename T>
class [[nodiscard]] StatusOr {
 public:
  using value_type = T;

  StatusOr(const T& value) : value_(value) {}             // NOLINT(google-explicit-constructor)
  StatusOr(T&& value) : value_(std::move(value)) {}       // NOLINT(google-explicit-constructor)
  StatusOr(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    if (status_.ok())
      status_ = Status(ErrorCode::kInternal, "StatusOr made from an OK status without a value");
  }
  template <typename U>
  requires(std::is_convertible_v<U&&, T> && !std::is_same_v<std::remove_cvref_t<U>, StatusOr> &&
           !std::is_same_v<std::remove_cvref_t<U>, Status> && !std::is_same_v<std::remove_cvref_t<U>, T>)
      StatusOr(U&& value)
      : value_(std::forward<U>(value)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return value_.has_value(); }
  const Status& status() const& { return status_; }
  Status status() && { return std::move(status_); }

  // REQUIRES: ok().
  T& value() & {
    CheckValue();
    return *value_;
  }
  const T& value() const& {
    CheckValue();
    return *value_;
  }
  T&& value() && {
    CheckValue();
    return std::move(*value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T value_or(T other) const& { return ok() ? *value_ : std::move(other); }

 private:
  void CheckValue() const {
    if (!value_.has_value()) [[unlikely]]
      internal::NoValue(status_);
  }

  Status status_;
  std::optional<T> value_;
};

namespace internal {

// One argument of StrCat: text, a number, or a reference to any type that an ostream prints. Valid during the
// call only; StrCat is compiled once and not for each list of argument types.
class TextPiece {
 public:
  template <typename T>
  TextPiece(const T& v) {  // NOLINT(google-explicit-constructor)
    if constexpr (std::is_convertible_v<const T&, std::string_view>) {
      SetText(v);
    } else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, int> || std::is_same_v<T, long> ||
                         std::is_same_v<T, long long> || std::is_same_v<T, short>) {
      kind_ = Kind::kSigned;
      signed_ = v;
    } else if constexpr (std::is_same_v<T, unsigned> || std::is_same_v<T, unsigned long> ||
                         std::is_same_v<T, unsigned long long> || std::is_same_v<T, unsigned short>) {
      kind_ = Kind::kUnsigned;
      unsigned_ = v;
    } else {
      kind_ = Kind::kPrinted;
      printed_ = {&v, [](std::ostream& os, const void* p) { os << *static_cast<const T*>(p); }};
    }
  }
  static std::string Concatenate(std::initializer_list<TextPiece> pieces);

 private:
  enum class Kind { kText, kSigned, kUnsigned, kPrinted };
  struct Printed {
    const void* value;
    void (*print)(std::ostream&, const void*);
  };
  void SetText(std::string_view text) { text_ = text; }

  Kind kind_ = Kind::kText;
  union {
    std::string_view text_ = {};
    int64_t signed_;
    uint64_t unsigned_;
    Printed printed_;
  };
};

Status MakeError(ErrorCode code, std::initializer_list<TextPiece> pieces);

}  // namespace internal

// Concatenates any types that an ostream prints. For messages and names, not for hot paths.
template <typename... Args>
std::string StrCat(const Args&... args) {
  return internal::TextPiece::Concatenate({internal::TextPiece(args)...});
}

namespace errors {

template <typename... Args>
Status Make(ErrorCode code, const Args&... args) {
  return internal::MakeError(code, {internal::TextPiece(args)...});
}

#define MR_DECLARE_ERROR(Name)                                                      \
  template <typename... Args>                                                       \
  Status Name(const Args&... args) {                                                \
    return internal::MakeError(ErrorCode::k##Name, {internal::TextPiece(args)...}); \
  }                                                                                 \
  inline bool Is##Name(const Status& status) { return status.code() == ErrorCode::k##Name; }

MR_DECLARE_ERROR(Cancelled)
MR_DECLARE_ERROR(Unknown)
MR_DECLARE_ERROR(InvalidArgument)
MR_DECLARE_ERROR(DeadlineExceeded)
MR_DECLARE_ERROR(NotFound)
MR_DECLARE_ERROR(AlreadyExists)
MR_DECLARE_ERROR(PermissionDenied)
MR_DECLARE_ERROR(ResourceExhausted)
MR_DECLARE_ERROR(FailedPrecondition)
MR_DECLARE_ERROR(Aborted)
MR_DECLARE_ERROR(OutOfRange)
MR_DECLARE_ERROR(Unimplemented)
MR_DECLARE_ERROR(Internal)
MR_DECLARE_ERROR(Unavailable)
MR_DECLARE_ERROR(DataLoss)
MR_DECLARE_ERROR(Unauthenticated)

#undef MR_DECLARE_ERROR

}  // namespace errors

#define MR_CONCAT_INNER(a, b) a##b
#define MR_CONCAT(a, b) MR_CONCAT_INNER(a, b)

// Returns the error of `expr` (a Status) from the enclosing function.
#define MR_RETURN_IF_ERROR(expr)                                                 \
  do {                                                                           \
    if (::millrace::Status mr_status_ = (expr); !mr_status_.ok()) [[unlikely]] { \
      return mr_status_;                                                         \
    }                                                                            \
  } while (false)

// MR_ASSIGN_OR_RETURN(auto x, F()): evaluates F() (a StatusOr) once and returns its error or assigns its
// value.
#define MR_ASSIGN_OR_RETURN(lhs, expr) MR_ASSIGN_OR_RETURN_IMPL(MR_CONCAT(mr_status_or_, __LINE__), lhs, expr)
#define MR_ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                             \
  if (!tmp.ok()) [[unlikely]]                    \
    return std::move(tmp).status();              \
  lhs = std::move(tmp).value()

}  // namespace millrace
