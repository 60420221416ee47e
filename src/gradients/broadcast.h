// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "autodiff/gradient_context.h"

namespace millrace::gradients {

// The dimensions of the result along which `side` is repeated when it is broadcast against `other`. A
// dimension of size 1 counts when the other size is not known: summing over one element does no harm. Nothing
// when it can't be told.
std::optional<std::vector<int64_t>> RepeatedAxes(const PartialShape& side, const PartialShape& other);

// `grad` has the shape to which x and y are broadcast together; returns its sum over the dimensions along
// which one of them (0: x, 1: y) was repeated, in the shape of that one. Costs nothing where the shapes tell
// that there are none.
Expr SumRepeated(const Expr& x, const Expr& y, int which, const Expr& grad);

}  // namespace millrace::gradients
