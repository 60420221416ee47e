// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

namespace millrace::mnist {

// One way to write a digit: strokes as absolute M, L and C commands in a box of 100 x 100, y downwards.
struct WritingVariant {
  int digit;
  float weight;  // relative frequency among the variants of the digit
  float aspect;  // usual width over height
  std::string_view strokes;
};

// All variants, ordered by digit.
std::span<const WritingVariant> WritingVariants();

}  // namespace millrace::mnist
