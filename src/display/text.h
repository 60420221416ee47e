// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace {

// Text of files for a terminal: UTF-8 is kept, control characters and other bytes become "\ooo", so that
// nothing moves the cursor. At most `most` bytes, then "…".
std::string Printable(std::string_view text, size_t most = SIZE_MAX);
// The same line by line, with spaces for tabs.
std::string PrintableLines(std::string_view text, size_t most = SIZE_MAX);
// As Printable in double quotes, in which quotes and backslashes are escaped; "… (1234 bytes)" when it is
// truncated.
std::string Quoted(std::string_view text, size_t most);
// For the text and the attributes of HTML and SVG. Bytes that are not allowed in XML become U+FFFD.
std::string EscapeXml(std::string_view text);
bool IsUtf8(std::string_view text);

// "512 B", "1.5 KiB", …
std::string BytesText(uint64_t bytes);
// "1,234,567".
std::string CountText(uint64_t count);
// "1 node", "1,234 nodes".
std::string CountOf(uint64_t count, std::string_view noun);
// "12.3 G": three digits and an SI prefix.
std::string ShortCount(double number);
// A duration such as "3.21 ms".
std::string DurationText(double seconds);
// The shortest text that reads back as the number.
std::string NumberText(double number);
// "1970-01-01 00:00:00" of seconds since then, in UTC.
std::string TimeText(double unix_seconds);
std::string Base64(std::string_view bytes);

// Columns of text, as wide as their contents.
class TextTable {
 public:
  enum class Align { kLeft, kRight };
  explicit TextTable(std::vector<std::pair<std::string, Align>> columns) : columns_(std::move(columns)) {}
  // Cells are escaped here. Missing cells are empty.
  void AddRow(std::vector<std::string> cells);
  size_t num_rows() const { return rows_.size(); }
  std::string ToString() const;

 private:
  const std::vector<std::pair<std::string, Align>> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// The number of characters: bytes that do not continue a character of UTF-8.
size_t Width(std::string_view text);

}  // namespace millrace
