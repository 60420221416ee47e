// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Integer arithmetic.
#ifndef TENSORFLOW_CORE_LIB_MATH_MATH_UTIL_H_
#define TENSORFLOW_CORE_LIB_MATH_MATH_UTIL_H_

#include <type_traits>

namespace tensorflow {

class MathUtil {
 public:
  // The quotient rounded up, or down. REQUIRES: denominator != 0.
  template <typename Integer>
  static Integer CeilOfRatio(Integer numerator, Integer denominator) {
    const Integer quotient = numerator / denominator;
    const bool cut = numerator % denominator != 0 && ((numerator > 0) == (denominator > 0));
    return static_cast<Integer>(quotient + (cut ? 1 : 0));
  }
  template <typename Integer>
  static Integer FloorOfRatio(Integer numerator, Integer denominator) {
    const Integer quotient = numerator / denominator;
    const bool cut = numerator % denominator != 0 && ((numerator > 0) != (denominator > 0));
    return static_cast<Integer>(quotient - (cut ? 1 : 0));
  }
  template <typename Integer>
  static Integer GCD(Integer a, Integer b) {
    static_assert(std::is_unsigned<Integer>::value, "an unsigned type");
    while (b != 0) {
      const Integer rest = a % b;
      a = b;
      b = rest;
    }
    return a;
  }
};

}  // namespace tensorflow

#endif
