// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "base/denormals.h"

#include <cstdlib>
#include <string_view>

namespace millrace {

bool FlushesDenormals() {
  static const bool flushes = [] {
    const char* value = std::getenv("MILLRACE_FLUSH_DENORMALS");
    return value == nullptr || std::string_view(value) != "0";
  }();
  return flushes;
}

}  // namespace millrace
