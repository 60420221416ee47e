// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/number_text.h"

#include <charconv>
#include <cmath>
#include <limits>
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
  const size_t exponent = digits.find_first_of(format == std::chars_format::hex ? "pP" : "eE");
  const bool small = exponent != std::string_view::npos && digits.substr(exponent + 1).starts_with("-");
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
