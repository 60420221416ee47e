// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compile/optimize/rewriter.h"
#include "graph/graph.h"
#include "millrace/status.h"

namespace millrace {

// Rewrites by laws of arithmetic and of arrangement: x + 0, x * 1, --x, x - (-y), pow(x, 2), transposes and
// casts of each other, what keeps the shape of its input and so the input, equal terms of a sum, common
// factors, constants that can be brought together. Results are equal bit for bit, but that
//  - a zero may have the other sign, and a product of complex numbers by one keeps its infinities;
//  - x² takes the place of pow(x, 2), MatMul(transpose(a), b) that of a product of the transposed matrix:
//  both
//    within the rounding of the kernel;
//  - with aggressive_arithmetic sums and products of floating-point numbers are computed in another
//  order,
//    x * 0 is 0 whatever x, and sqrt takes the place of pow(x, 0.5).
// Returns how many rewrites were made. Linear.
StatusOr<int> SimplifyArithmetic(Graph* graph, const OptimizeOptions& options);

}  // namespace millrace
