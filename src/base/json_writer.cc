// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "base/json_writer.h"

#include <charconv>
#include <cmath>

namespace millrace {
namespace {

std::string Shortest(double number) {
  if (!std::isfinite(number)) return "null";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), number).ptr;
  return std::string(buffer, end);
}

// The length of the UTF-8 sequence at the front of `text`, or 0 when there is none.
size_t Utf8Length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates, and beyond U+10FFFF.
  if (lead == 0xe0 && byte(1) < 0xa0) return 0;
  if (lead == 0xed && byte(1) > 0x9f) return 0;
  if (lead == 0xf0 && byte(1) < 0x90) return 0;
  if (lead == 0xf4 && byte(1) > 0x8f) return 0;
  return length;
}

}  // namespace

void JsonWriter::Comma() {
  if (comma_due_) text_ += ',';
  comma_due_ = true;
}

JsonWriter& JsonWriter::Open(char bracket) {
  Comma();
  text_ += bracket;
  comma_due_ = false;
  return *this;
}

JsonWriter& JsonWriter::Close(char bracket) {
  text_ += bracket;
  comma_due_ = true;
  return *this;
}

JsonWriter& JsonWriter::Raw(std::string_view text) {
  Comma();
  text_ += text;
  return *this;
}

JsonWriter& JsonWriter::Key(std::string_view key) {
  Comma();
  Quote(key);
  text_ += ':';
  comma_due_ = false;
  return *this;
}

JsonWriter& JsonWriter::Value(std::string_view text) {
  Comma();
  Quote(text);
  return *this;
}

JsonWriter& JsonWriter::Value(double number) { return Raw(Shortest(number)); }

void JsonWriter::Quote(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  text_ += '"';
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    const unsigned char c = static_cast<unsigned char>(text[0]);
    if (length == 0) {
      text_ += "\\ufffd";
    } else if (length == 1 && (c < 0x20 || c == '<' || c == '>' || c == '&' || c == 0x7f)) {
      text_ += "\\u00";
      text_ += kHex[c >> 4];
      text_ += kHex[c & 15];
    } else {
      if (c == '"' || c == '\\') text_ += '\\';
      text_ += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  text_ += '"';
}

}  // namespace millrace
