// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Paths of files.
#ifndef TENSORFLOW_CORE_LIB_IO_PATH_H_
#define TENSORFLOW_CORE_LIB_IO_PATH_H_

#include "tensorflow/core/lib/core/stringpiece.h"
#include "tensorflow/core/lib/strings/strcat.h"

namespace tensorflow {
namespace io {

inline bool IsAbsolutePath(StringPiece path) { return !path.empty() && path[0] == '/'; }
inline string JoinPath(StringPiece a, StringPiece b) {
  if (a.empty()) return string(b);
  if (b.empty()) return string(a);
  if (a.ends_with("/")) return strings::StrCat(a, IsAbsolutePath(b) ? b.substr(1) : b);
  return strings::StrCat(a, IsAbsolutePath(b) ? "" : "/", b);
}
template <typename... Rest>
string JoinPath(StringPiece a, StringPiece b, StringPiece c, const Rest&... rest) {
  return JoinPath(JoinPath(a, b), c, rest...);
}
inline StringPiece Dirname(StringPiece path) {
  const size_t slash = path.rfind('/');
  if (slash == StringPiece::npos) return StringPiece("", 0);
  return path.substr(0, slash == 0 ? 1 : slash);
}
inline StringPiece Basename(StringPiece path) {
  const size_t slash = path.rfind('/');
  return slash == StringPiece::npos ? path : path.substr(slash + 1);
}
inline StringPiece Extension(StringPiece path) {
  const StringPiece name = Basename(path);
  const size_t dot = name.rfind('.');
  return dot == StringPiece::npos ? StringPiece("", 0) : name.substr(dot + 1);
}

}  // namespace io
}  // namespace tensorflow

#endif
