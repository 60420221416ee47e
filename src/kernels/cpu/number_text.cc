// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/number_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "base/strings.h"

namespace millrace {
namespace {

// A number that from_chars reports as out of range: too large or too small for T.
template <typename T>
T OutOfRange(std::string_view digits, std::chars_format format) {
  long double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, format);
  if (error == std::errc()) return static_cast<T>(value);
  // The place of the first digit that is not 0, times the power behind the digits, is below 1 or not.
  const bool hex = format == std::chars_format::hex;
  const size_t mark = std::min(digits.find_first_of(hex ? "pP" : "eE"), digits.size());
  const std::string_view places = digits.substr(0, mark);
  const size_t point = std::min(places.find('.'), places.size()), first = places.find_first_not_of("0.");
  if (first == std::string_view::npos) return T(0);
  const auto place = static_cast<int64_t>(point) - static_cast<int64_t>(first);
  int64_t power = 0;
  if (mark < digits.size()) {
    std::string_view text = digits.substr(mark + 1);
    const bool negative = text.starts_with('-');
    if (negative || text.starts_with('+')) text.remove_prefix(1);
    if (std::from_chars(text.data(), text.data() + text.size(), power).ec != std::errc())
      power = int64_t{1} << 48;
    power = std::min(power, int64_t{1} << 48) * (negative ? -1 : 1);
  }
  const bool small = place * (hex ? 4 : 1) + power < 0;
  return small ? T(0) : std::numeric_limits<T>::infinity();
}

template <typename T>
std::optional<T> ParseFloating(std::string_view digits) {
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.remove_prefix(1);
  auto format = std::chars_format::general;
  if (ConsumePrefix(&digits, "0x") || ConsumePrefix(&digits, "0X")) format = std::chars_format::hex;
  if (digits.empty() || digits.front() == '-' || digits.back() == ')') return std::nullopt;
  T value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, format);
  if (end != digits.data() + digits.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range) {
    value = OutOfRange<T>(digits, format);
  } else if (error != std::errc()) {
    return std::nullopt;
  }
  return negative ? -value : value;
}

}  // namespace

template <typename T>
std::optional<T> ParseNumber(std::string_view text) {
  text = StripWhitespace(text);
  if constexpr (std::is_same_v<T, int32_t>) {
    return SafeStringToInt32(text);
  } else if constexpr (std::is_same_v<T, int64_t>) {
    return SafeStringToInt64(text);
  } else {
    return ParseFloating<T>(text);
  }
}

template std::optional<int32_t> ParseNumber<int32_t>(std::string_view text);
template std::optional<int64_t> ParseNumber<int64_t>(std::string_view text);
template std::optional<float> ParseNumber<float>(std::string_view text);
template std::optional<double> ParseNumber<double>(std::string_view text);

}  // namespace millrace
