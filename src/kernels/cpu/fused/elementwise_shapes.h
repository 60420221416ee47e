// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Errors about the shapes of element-wise ops that several kernels report.
#pragma once

#include <string_view>

#include "millrace/shape.h"
#include "millrace/status.h"

namespace millrace {

// "Inputs to operation x of type AddN must have the same size and shape.  Input 0: [2] != input 1: [3]".
Status DifferentShapes(std::string_view node, std::string_view op, const TensorShape& first, int i,
                       const TensorShape& other);

// How Select uses its condition.
enum class SelectForm {
  kWhole,       // a scalar, which selects one of the tensors
  kRows,        // a vector, which selects rows of them
  kElementwise  // of the tensors' shape
};
// InvalidArgument with TensorFlow's text if the shapes are incompatible.
StatusOr<SelectForm> CheckSelectShapes(std::string_view node, std::string_view op,
                                       const TensorShape& condition, const TensorShape& then_shape,
                                       const TensorShape& else_shape);

}  // namespace millrace
