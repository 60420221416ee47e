// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/json_writer.h"

#include <charconv>
#include <cmath>

#include "base/utf8.h"
#include "millrace/status.h"

namespace millrace {
namespace {

template <typename T>
std::string Shortest(T number) {
  if (!std::isfinite(number)) return "null";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), number).ptr;
  return std::string(buffer, end);
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

JsonWriter& JsonWriter::Value(const char* text) {
  if (text == nullptr) internal::EndWithMessage("JsonWriter::Value: the text is a null pointer");
  return Value(std::string_view(text));
}

JsonWriter& JsonWriter::Value(float number) { return Raw(Shortest(number)); }
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
