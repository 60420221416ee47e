// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Parses whole strings as numbers: false, with the value unchanged, if the text is not a number or the number
// does not fit. White space around the number is allowed.
#ifndef TENSORFLOW_CORE_LIB_STRINGS_NUMBERS_H_
#define TENSORFLOW_CORE_LIB_STRINGS_NUMBERS_H_

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "tensorflow/core/lib/core/stringpiece.h"

namespace tensorflow {
namespace strings {
namespace internal {

inline bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Requires that `parse` consumes the whole text.
template <typename Number, typename Parse>
bool ParseWhole(StringPiece text, Number* value, Parse parse) {
  while (!text.empty() && IsSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
  if (text.empty()) return false;
  const string copy(text);
  if (copy.find('\0') != string::npos) return false;
  char* end = nullptr;
  errno = 0;
  const Number parsed = parse(copy.c_str(), &end);
  if (end != copy.c_str() + copy.size()) return false;
  *value = parsed;
  return true;
}
template <typename To>
bool ParseSigned(StringPiece text, To* value) {
  long long wide = 0;
  if (!ParseWhole(text, &wide, [](const char* t, char** end) { return std::strtoll(t, end, 10); }))
    return false;
  if (errno == ERANGE || wide < std::numeric_limits<To>::min() || wide > std::numeric_limits<To>::max())
    return false;
  *value = static_cast<To>(wide);
  return true;
}
template <typename To>
bool ParseUnsigned(StringPiece text, To* value) {
  if (text.find('-') != StringPiece::npos) return false;
  unsigned long long wide = 0;
  if (!ParseWhole(text, &wide, [](const char* t, char** end) { return std::strtoull(t, end, 10); }))
    return false;
  if (errno == ERANGE || wide > std::numeric_limits<To>::max()) return false;
  *value = static_cast<To>(wide);
  return true;
}

}  // namespace internal

inline bool safe_strto32(StringPiece text, int32* value) { return internal::ParseSigned(text, value); }
inline bool safe_strto64(StringPiece text, int64* value) { return internal::ParseSigned(text, value); }
inline bool safe_strtou32(StringPiece text, uint32* value) { return internal::ParseUnsigned(text, value); }
inline bool safe_strtou64(StringPiece text, uint64* value) { return internal::ParseUnsigned(text, value); }
inline bool safe_strtof(StringPiece text, float* value) {
  return internal::ParseWhole(text, value, [](const char* t, char** end) { return std::strtof(t, end); });
}
inline bool safe_strtod(StringPiece text, double* value) {
  return internal::ParseWhole(text, value, [](const char* t, char** end) { return std::strtod(t, end); });
}

}  // namespace strings
}  // namespace tensorflow

#endif
