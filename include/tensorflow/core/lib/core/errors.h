// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Functions that make errors: errors::InvalidArgument("x must be positive, got ", x).
#ifndef TENSORFLOW_CORE_LIB_CORE_ERRORS_H_
#define TENSORFLOW_CORE_LIB_CORE_ERRORS_H_

#include <exception>
#include <new>
#include <sstream>

#include "tensorflow/core/lib/core/status.h"

namespace tensorflow {

namespace strings {

inline void AppendTo(std::ostream&) {}
template <typename First, typename... Rest>
void AppendTo(std::ostream& os, const First& first, const Rest&... rest) {
  os << first;
  AppendTo(os, rest...);
}
template <typename... Args>
string StrCat(const Args&... args) {
  std::ostringstream os;
  AppendTo(os, args...);
  return os.str();
}

}  // namespace strings

namespace errors {

#define MR_TF_ERROR(Name, CODE)                                         \
  template <typename... Args>                                           \
  Status Name(const Args&... args) {                                    \
    return Status(error::CODE, ::tensorflow::strings::StrCat(args...)); \
  }                                                                     \
  inline bool Is##Name(const Status& status) { return status.code() == error::CODE; }
MR_TF_ERROR(Cancelled, CANCELLED)
MR_TF_ERROR(Unknown, UNKNOWN)
MR_TF_ERROR(InvalidArgument, INVALID_ARGUMENT)
MR_TF_ERROR(DeadlineExceeded, DEADLINE_EXCEEDED)
MR_TF_ERROR(NotFound, NOT_FOUND)
MR_TF_ERROR(AlreadyExists, ALREADY_EXISTS)
MR_TF_ERROR(PermissionDenied, PERMISSION_DENIED)
MR_TF_ERROR(ResourceExhausted, RESOURCE_EXHAUSTED)
MR_TF_ERROR(FailedPrecondition, FAILED_PRECONDITION)
MR_TF_ERROR(Aborted, ABORTED)
MR_TF_ERROR(OutOfRange, OUT_OF_RANGE)
MR_TF_ERROR(Unimplemented, UNIMPLEMENTED)
MR_TF_ERROR(Internal, INTERNAL)
MR_TF_ERROR(Unavailable, UNAVAILABLE)
MR_TF_ERROR(DataLoss, DATA_LOSS)
MR_TF_ERROR(Unauthenticated, UNAUTHENTICATED)
#undef MR_TF_ERROR

}  // namespace errors

namespace internal {

// The error of the exception that is being handled, which `thrower` has thrown: ResourceExhausted for
// std::bad_alloc, else Internal with the exception's text.
inline Status CaughtError(const char* thrower) {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return errors::ResourceExhausted("Out of memory in ", thrower);
  } catch (const std::exception& e) {
    return errors::Internal(e.what());
  } catch (...) {
    return errors::Internal(thrower, " threw an object that is not a std::exception");
  }
}

}  // namespace internal
}  // namespace tensorflow

#endif
