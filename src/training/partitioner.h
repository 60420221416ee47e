// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "millrace/shape.h"
#include "millrace/variables.h"

namespace millrace {

// How a variable is partitioned.
struct Cut {
  int axis = 0;
  int64_t parts = 1;
  // Sizes of the parts along the axis; the first ones are larger if it is not divisible.
  std::vector<int64_t> Sizes(const TensorShape& shape) const;
};

// The result of a partitioner for a variable. InvalidArgument, in TensorFlow's words, when it is invalid.
StatusOr<Cut> CutBy(const Partitioner& partitioner, const TensorShape& shape, DataType dtype);

}  // namespace millrace
