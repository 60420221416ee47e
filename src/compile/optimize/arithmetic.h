// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compile/optimize/rewriter.h"
#include "graph/graph.h"
#include "millrace/status.h"

namespace millrace {

// Rewrites by laws of arithmetic and of arrangement: x + 0, x * 1, --x, x - (-y), pow(x, 2), transposes and
// casts of each other, ops that keep the shape of their input and so the input, equal terms of a sum, common
// factors, constants that can be combined. Results are equal bit for bit, except that
// - a zero may have the other sign, and a product of complex numbers by one keeps its infinities;
// - x² replaces pow(x, 2), and MatMul(transpose(a), b) the product
//   of the transposed matrix, both within the rounding of the
//   kernel;
// - with aggressive_arithmetic sums and products of floating-point numbers are
//   computed in another order, x * 0 is 0 for any x, and sqrt replaces pow(x,
//   0.5).
// Returns the number of rewrites. Linear.
StatusOr<int> SimplifyArithmetic(Graph* graph, const OptimizeOptions& options);

}  // namespace millrace
