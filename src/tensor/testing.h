// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "millrace/shape.h"
#include "millrace/tensor.h"
#include "tensor/dtype_table.h"

// For tests only.
namespace millrace {

// A vector, or a tensor of the shape given.
template <typename T>
Tensor AsTensor(const std::vector<T>& values) {
  return Tensor::Vector<T>(values);
}
template <typename T>
Tensor AsTensor(const std::vector<T>& values, const TensorShape& shape) {
  return Tensor::From<T>(values, shape);
}
template <typename T>
Tensor AsScalar(const T& value) {
  return Tensor::Scalar<T>(value);
}

namespace testing_internal {

// |want - got| <= atol + rtol * |want|; NaN equals NaN, an infinity equals itself. Other types:
// equality.
template <typename T>
bool Close(const T& want, const T& got, double rtol, double atol) {
  if constexpr (std::is_same_v<T, complex64> || std::is_same_v<T, complex128>) {
    return Close(want.real(), got.real(), rtol, atol) && Close(want.imag(), got.imag(), rtol, atol);
  } else if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>) {
    return Close(float(want), float(got), rtol, atol);
  } else if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
    if (want == got) return true;
    return std::isfinite(want) && std::isfinite(got) &&
           std::abs(double{want} - double{got}) <= atol + rtol * std::abs(double{want});
  } else if constexpr (std::is_same_v<T, Variant>) {
    const VariantData a = want.Encode();
    const VariantData b = got.Encode();
    return a.type_name == b.type_name && a.metadata == b.metadata && a.tensors.size() == b.tensors.size();
  } else {
    return want == got;
  }
}

template <typename T>
::testing::AssertionResult Compare(const Tensor& want, const Tensor& got, double rtol, double atol) {
  for (int64_t i = 0; i < want.num_elements(); ++i) {
    if (Close(want.data<T>()[i], got.data<T>()[i], rtol, atol)) continue;
    return ::testing::AssertionFailure() << "element " << i << " differs; want " << want.DebugString(100)
                                         << ", got " << got.DebugString(100);
  }
  return ::testing::AssertionSuccess();
}

}  // namespace testing_internal

// |want - got| <= atol + rtol * |want| for each element; NaN and infinities must match.
inline ::testing::AssertionResult TensorsNear(const Tensor& want, const Tensor& got, double rtol,
                                              double atol) {
  if (want.dtype() != got.dtype() || want.shape() != got.shape() ||
      want.IsInitialized() != got.IsInitialized()) {
    return ::testing::AssertionFailure()
           << "want " << want.DebugString(100) << ", got " << got.DebugString(100);
  }
  if (!want.IsInitialized()) return ::testing::AssertionSuccess();
  return VisitDataType(want.dtype(), ::testing::AssertionFailure() << "unknown type",
                       [&]<typename T>() { return testing_internal::Compare<T>(want, got, rtol, atol); });
}
// The same type, shape and values. NaN equals NaN, and 0 equals -0.
inline ::testing::AssertionResult TensorsEqual(const Tensor& want, const Tensor& got) {
  return TensorsNear(want, got, 0, 0);
}

inline void ExpectTensorEqual(const Tensor& want, const Tensor& got) { EXPECT_TRUE(TensorsEqual(want, got)); }
inline void ExpectTensorNear(const Tensor& want, const Tensor& got, double rtol = 1e-5, double atol = 1e-6) {
  EXPECT_TRUE(TensorsNear(want, got, rtol, atol));
}

}  // namespace millrace
