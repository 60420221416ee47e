// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "autodiff/gradient_context.h"

namespace millrace::gradients {

// The dimensions of the result along which `side` is repeated when it is broadcast against `other`. A
// dimension of size 1 counts when the other size is unknown: summing over one element has no effect. Empty if
// they cannot be determined.
std::optional<std::vector<int64_t>> RepeatedAxes(const PartialShape& side, const PartialShape& other);

// `grad` has the shape to which x and y are broadcast together; returns its sum over the dimensions along
// which one of them (0: x, 1: y) was repeated, in the shape of that one. Without cost if the shapes are known
// to have no such dimensions.
Expr SumRepeated(const Expr& x, const Expr& y, int which, const Expr& grad);

}  // namespace millrace::gradients
