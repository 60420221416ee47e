// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

namespace millrace {

// A number with blanks around it, as TensorFlow reads one: whole numbers in decimal, within the range of T;
// others also as hexadecimal, "inf", "infinity" and "nan" in any case, with infinity for what is too large.
// T is int32_t, int64_t, float or double.
template <typename T>
std::optional<T> ParseNumber(std::string_view text);

}  // namespace millrace
