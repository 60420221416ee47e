// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "graph/shape_refiner.h"
#include "millrace/shape.h"

namespace millrace {

// The shape given by an integer vector, as far as it is known from the graph alone: unknown elements are
// -1. Empty when the length is unknown, or when the tensor is not an integer vector. `shapes` may be
// null.
std::optional<PartialShape> ConstantValueAsShape(const Node& node, int output, const ShapeRefiner* shapes);

// Whether a node writes its value for a debugger: one of the debug ops with URLs. It is executed as often as
// the program requires, even if its value is known.
bool WritesDumps(const Node& node);

}  // namespace millrace
