// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kernels/cpu/kernel_util.h"

namespace millrace {

// A sparse tensor with consistent parts: indices [n, rank] of int64, values [n], shape [rank] of sizes >= 0.
// The indices may be outside of the shape until they are checked. Refers to the tensors.
struct SparseParts {
  const Tensor* indices = nullptr;
  const Tensor* values = nullptr;
  std::span<const int64_t> shape;

  int64_t size() const { return indices->dim(0); }
  int rank() const { return static_cast<int>(shape.size()); }
  const int64_t* index(int64_t i) const { return indices->data<int64_t>() + i * rank(); }
};
StatusOr<SparseParts> ReadSparse(const Tensor& indices, const Tensor& values, const Tensor& shape);

// "indices[1] = [0,7] is out of bounds: need 0 <= index < [2,3]" for the first that is.
Status CheckInBounds(const SparseParts& sparse);

// The permutation that sorts indices [n, rank] lexicographically; stable.
std::vector<int64_t> SortedOrder(const int64_t* indices, int64_t n, int rank);

// "[1,2]".
std::string IndexListText(std::span<const int64_t> index);

}  // namespace millrace
