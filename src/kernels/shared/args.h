// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Functions with which kernels of any device read and check their small arguments on the host.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/small_vector.h"
#include "millrace/shape.h"
#include "millrace/status.h"
#include "millrace/tensor.h"

namespace millrace {

using Dims = SmallVector<int64_t, 8>;

// Value `i` of an int32 or int64 tensor, widened. REQUIRES: in range.
int64_t IntValue(const Tensor& t, int64_t i = 0);
// All values of an int32 or int64 tensor of any shape.
Dims IntValues(const Tensor& t);

// The shape with the sizes in an integer vector (or a scalar, if the caller allows it).
// InvalidArgument "Dimension -1 must be >= 0", or when the number of elements overflows.
StatusOr<TensorShape> ShapeFromValues(std::span<const int64_t> values);
// The same for a shape argument, which must be a vector: "<name> must be a vector, got shape [2,2]".
StatusOr<TensorShape> ShapeFromTensor(const Tensor& t, std::string_view name);

// "[0,1]": the index of flat element `flat` in a tensor of that shape; "" for a scalar's.
std::string IndexText(const TensorShape& shape, int64_t flat);

// "1, 2, 3".
std::string JoinInts(std::span<const int64_t> values, std::string_view separator = ",");

// Distances between neighbours of each dimension in row-major order, in elements.
Dims RowMajorStrides(std::span<const int64_t> dims);

// Strides for reading a tensor of shape `from` as one of shape `to`: 0 for a repeated dimension of size 1.
// REQUIRES: `from` broadcasts to `to`.
Dims BroadcastStrides(std::span<const int64_t> from, std::span<const int64_t> to);

// Product of the sizes of dimensions [begin, end).
int64_t ProductOf(std::span<const int64_t> dims, int begin, int end);

// False where a * b overflows. REQUIRES: both >= 0.
inline bool MultiplyFits(int64_t a, int64_t b, int64_t* product) {
  return !__builtin_mul_overflow(a, b, product);
}

}  // namespace millrace
