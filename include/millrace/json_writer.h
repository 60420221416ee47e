// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>

namespace millrace {

// Writes JSON text incrementally, including the commas. The text is valid for all values: numbers that are
// not finite become null, and bytes that are not UTF-8 become U+FFFD. `<`, `>` and `&` are escaped too, so
// that the text can be put into a script element of an HTML page.
class JsonWriter {
 public:
  JsonWriter& BeginObject() { return Open('{'); }
  JsonWriter& EndObject() { return Close('}'); }
  JsonWriter& BeginArray() { return Open('['); }
  JsonWriter& EndArray() { return Close(']'); }
  JsonWriter& Key(std::string_view key);

  JsonWriter& Value(std::string_view text);
  JsonWriter& Value(const char* text);
  JsonWriter& Value(double number);
  JsonWriter& Value(float number);  // with the shortest digits that identify a float
  JsonWriter& Value(bool truth) { return Raw(truth ? "true" : "false"); }
  template <std::integral T>
  JsonWriter& Value(T number) {
    return Raw(std::to_string(number));
  }
  template <std::ranges::input_range Range>
  requires(!std::convertible_to<const Range&, std::string_view>) JsonWriter& Value(const Range& values) {
    BeginArray();
    for (const auto& value : values) Value(value);
    return EndArray();
  }

  template <typename T>
  JsonWriter& Field(std::string_view key, const T& value) {
    Key(key);
    return Value(value);
  }

  const std::string& text() const& { return text_; }
  std::string text() && { return std::move(text_); }

 private:
  JsonWriter& Open(char bracket);
  JsonWriter& Close(char bracket);
  JsonWriter& Raw(std::string_view text);
  void Comma();
  void Quote(std::string_view text);

  std::string text_;
  bool comma_due_ = false;
};

}  // namespace millrace
