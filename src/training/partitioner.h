// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "millrace/shape.h"
#include "millrace/variables.h"

namespace millrace {

// Where a variable is cut.
struct Cut {
  int axis = 0;
  int64_t parts = 1;
  // Sizes of the parts along the axis; the first ones are larger when it does not go even.
  std::vector<int64_t> Sizes(const TensorShape& shape) const;
};

// What a partitioner says about a variable. InvalidArgument, in TensorFlow's words, when it makes no sense.
StatusOr<Cut> CutBy(const Partitioner& partitioner, const TensorShape& shape, DataType dtype);

}  // namespace millrace
