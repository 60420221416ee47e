// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// printf into strings.
#ifndef TENSORFLOW_CORE_LIB_STRINGS_STRINGPRINTF_H_
#define TENSORFLOW_CORE_LIB_STRINGS_STRINGPRINTF_H_

#include <cstdarg>
#include <cstdio>
#include <vector>

#include "tensorflow/core/platform/types.h"

namespace tensorflow {
namespace strings {

inline void Appendv(string* text, const char* format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  const int size = std::vsnprintf(nullptr, 0, format, arguments);
  if (size > 0) {
    std::vector<char> bytes(static_cast<size_t>(size) + 1);
    std::vsnprintf(bytes.data(), bytes.size(), format, again);
    text->append(bytes.data(), static_cast<size_t>(size));
  }
  va_end(again);
}
__attribute__((format(printf, 1, 2))) inline string Printf(const char* format, ...) {
  string text;
  va_list arguments;
  va_start(arguments, format);
  Appendv(&text, format, arguments);
  va_end(arguments);
  return text;
}
__attribute__((format(printf, 2, 3))) inline void Appendf(string* text, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Appendv(text, format, arguments);
  va_end(arguments);
}

}  // namespace strings
}  // namespace tensorflow

#endif
