// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compile/optimize/rewriter.h"
#include "graph/graph.h"
#include "millrace/status.h"

namespace millrace {

// Reduces control edges: removes those from constants; turns pure nodes with only control consumers into
// NoOps; removes NoOps if that adds no edges; and removes
// control edges between nodes that other edges order already (as far as a search of bounded length
// finds them). Order, deadness and devices are kept: the pass does not search across nodes of control flow.
// Returns the number of nodes and edges that it removed or changed. Linear.
StatusOr<int> OptimizeDependencies(Graph* graph, const OptimizeOptions& options);

}  // namespace millrace
