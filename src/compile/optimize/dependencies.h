// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compile/optimize/rewriter.h"
#include "graph/graph.h"
#include "millrace/status.h"

namespace millrace {

// Makes waiting cheaper: who waits for a constant waits for nothing; pure nodes that are only waited for
// become NoOps; NoOps between which and their neighbours there would be no more edges without them go; so do
// control edges between nodes that other edges keep in order already (as far as a search of bounded length
// can tell). Order, deadness and devices are kept: nothing is sought or moved across nodes of control flow.
// Returns how many nodes and edges went or changed. Linear.
StatusOr<int> OptimizeDependencies(Graph* graph, const OptimizeOptions& options);

}  // namespace millrace
