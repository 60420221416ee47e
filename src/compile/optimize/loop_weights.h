// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compile/optimize/rewriter.h"
#include "graph/graph.h"
#include "millrace/status.h"

namespace millrace {

// Products whose second factor enters a loop as a constant would pack it in each iteration, or read it in a
// less efficient order. _PackMatrix packs it once, before the loop, and the products take the result in
// addition to the factor. Runs after `fuse`. Only for large factors of known size; products that are known to
// have a single row use the unpacked factor. Results are equal bit for bit. Returns the number of products
// with a packed factor.
StatusOr<int> PackLoopWeights(Graph* graph, const OptimizeOptions& options);

}  // namespace millrace
