// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// StrCat and StrAppend: concatenate the text of all arguments.
#ifndef TENSORFLOW_CORE_LIB_STRINGS_STRCAT_H_
#define TENSORFLOW_CORE_LIB_STRINGS_STRCAT_H_

#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/lib/core/stringpiece.h"

namespace tensorflow {
namespace strings {

template <typename... Args>
void StrAppend(string* text, const Args&... args) {
  text->append(StrCat(args...));
}

}  // namespace strings
}  // namespace tensorflow

#endif
