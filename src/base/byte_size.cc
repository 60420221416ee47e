// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "base/byte_size.h"

#include <array>
#include <charconv>
#include <string_view>

#include "millrace/status.h"

namespace millrace {

std::string ByteSizeText(int64_t bytes) {
  constexpr std::array<const char*, 4> kUnits = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return StrCat(bytes, "B");
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value, std::chars_format::fixed, 2).ptr;
  return StrCat(std::string_view(text, static_cast<size_t>(end - text)), kUnits[unit]);
}

}  // namespace millrace
