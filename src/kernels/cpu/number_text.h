// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

namespace millrace {

// Parses a number with blanks around it as TensorFlow does: integers in decimal, within the range of T;
// others also in hexadecimal, "inf", "infinity" and "nan" in any case, and infinity for values that are too
// large. T is int32_t, int64_t, float or double.
template <typename T>
std::optional<T> ParseNumber(std::string_view text);

}  // namespace millrace
