// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Names of types that sources of ops written for TensorFlow use.
#ifndef TENSORFLOW_CORE_PLATFORM_TYPES_H_
#define TENSORFLOW_CORE_PLATFORM_TYPES_H_

#include <complex>
#include <cstdint>
#include <string>

namespace tensorflow {

using string = std::string;
using int8 = std::int8_t;
using int16 = std::int16_t;
using int32 = std::int32_t;
using int64 = long long;
using uint8 = std::uint8_t;
using uint16 = std::uint16_t;
using uint32 = std::uint32_t;
using uint64 = unsigned long long;
using complex64 = std::complex<float>;
using complex128 = std::complex<double>;

}  // namespace tensorflow

#endif
