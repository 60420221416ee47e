// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compile/optimize/rewriter.h"
#include "graph/graph.h"
#include "millrace/status.h"

namespace millrace {

// Products whose second factor enters a loop as a constant would bring it into the order of their inner loops
// in each iteration, or read it in a worse one. _PackMatrix does so once, before the loop, and the products
// take the result beside the factor itself. Runs after `fuse`. Only large factors of known size; products
// that are known to have a single row read their factor as it lies. Results are the same bits. Returns how
// many products take a packed factor.
StatusOr<int> PackLoopWeights(Graph* graph, const OptimizeOptions& options);

}  // namespace millrace
