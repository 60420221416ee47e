// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

// The parts between separators; empty parts are kept, and an empty text has one empty part. Views of
// `text`.
std::vector<std::string_view> StrSplit(std::string_view text, char separator);
// The same without the empty parts.
std::vector<std::string_view> StrSplitSkipEmpty(std::string_view text, char separator);

// Joins strings or string views.
template <typename Range>
std::string StrJoin(const Range& parts, std::string_view separator) {
  std::string out;
  bool first = true;
  for (const auto& part : parts) {
    if (!first) out.append(separator);
    first = false;
    out.append(std::string_view(part));
  }
  return out;
}

// Decimal integers only: an optional minus sign and digits. Empty when malformed or out of
// range.
std::optional<int64_t> SafeStringToInt64(std::string_view text);
std::optional<uint64_t> SafeStringToUint64(std::string_view text);
std::optional<int32_t> SafeStringToInt32(std::string_view text);
// Decimal or hexadecimal floating point, "inf" and "nan", independent of the locale.
std::optional<double> SafeStringToDouble(std::string_view text);

// Removes `prefix` or `suffix` from the view; false, and no change, if the view does not have it.
bool ConsumePrefix(std::string_view* text, std::string_view prefix);
bool ConsumeSuffix(std::string_view* text, std::string_view suffix);
std::string_view StripWhitespace(std::string_view text);

// Lower-case hexadecimal digits of the bytes.
std::string HexEncode(std::string_view bytes);
std::optional<std::string> HexDecode(std::string_view hex);
// Printable ASCII stays; \n \r \t \" \' \\ get a backslash, other bytes become \ooo (three octal digits).
std::string CEscape(std::string_view bytes);

}  // namespace millrace
