// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "autodiff/expr.h"
#include "millrace/gradient_value.h"

// Formulas about slices of tensors.
namespace millrace {

// The number of rows of a tensor with this shape, an int32 scalar: a constant where it is known.
Expr FirstSize(const Expr& shape);
// The shape of `x`, for a resource that of its value; int32.
Expr DenseShapeOf(const Expr& x);
// The dense tensor of the slices. `like` provides the shape if the slices have none.
Output DenseFromSlices(GraphBuilder& builder, const IndexedSlices& slices, const Output& like);
// `grad` itself or DenseFromSlices of it.
Output DenseGradient(GraphBuilder& builder, const GradientValue& grad, const Output& like);
// All rows of all slices, which are of one tensor. Indices of several types become int64. REQUIRES: not
// empty.
IndexedSlices ConcatSlices(GraphBuilder& builder, const std::vector<IndexedSlices>& slices);
// No rows of a tensor like `like`, which may be a resource; computed from `like`, so that it is dead when
// `like` is. `values` and `indices` provide the types.
IndexedSlices NoSlices(GraphBuilder& builder, const Output& like, DataType values, DataType indices);

}  // namespace millrace
