// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Type names for sources of ops written for TensorFlow.
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
constexpr uint8 kuint8max = UINT8_MAX;
constexpr uint16 kuint16max = UINT16_MAX;
constexpr uint32 kuint32max = UINT32_MAX;
constexpr uint64 kuint64max = UINT64_MAX;
constexpr int8 kint8min = INT8_MIN;
constexpr int8 kint8max = INT8_MAX;
constexpr int16 kint16min = INT16_MIN;
constexpr int16 kint16max = INT16_MAX;
constexpr int32 kint32min = INT32_MIN;
constexpr int32 kint32max = INT32_MAX;
constexpr int64 kint64min = INT64_MIN;
constexpr int64 kint64max = INT64_MAX;
using complex64 = std::complex<float>;
using complex128 = std::complex<double>;

}  // namespace tensorflow

#endif
