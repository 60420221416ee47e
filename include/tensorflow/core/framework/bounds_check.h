// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Whether an index is within [0, limit), in one comparison.
#ifndef TENSORFLOW_CORE_FRAMEWORK_BOUNDS_CHECK_H_
#define TENSORFLOW_CORE_FRAMEWORK_BOUNDS_CHECK_H_

#include <type_traits>

namespace tensorflow {

template <typename Index, typename Limit>
bool FastBoundsCheck(const Index index, const Limit limit) {
  static_assert(std::is_integral<Index>::value && std::is_integral<Limit>::value, "integers");
  using Unsigned = typename std::make_unsigned<decltype(index + limit)>::type;
  return static_cast<Unsigned>(index) < static_cast<Unsigned>(limit);
}

namespace internal {
// A copy that the compiler reads only once, although others may change the original.
template <typename T>
T SubtleMustCopy(const T& x) {
  static_assert(std::is_integral<T>::value, "an integer");
  return *static_cast<const volatile T*>(&x);
}
}  // namespace internal
}  // namespace tensorflow

#endif
