// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compile/optimize/rewriter.h"
#include "graph/graph.h"

namespace millrace {

// Takes out nodes that only pass on their inputs (Identity, StopGradient, a Cast to the same type), where
// nothing changes: not when the input is a reference (a read takes a copy), when the node carries a value
// to another device, or when as many control edges as it saves would be needed instead. With
// strip_checks checks (Assert) become NoOps. Returns how many nodes went. Linear.
int RemoveIdentities(Graph* graph, const OptimizeOptions& options);

// Takes out nodes from which nothing is reached that has an effect, is a result, or must run. Returns how
// many went. Linear.
int RemoveDeadNodes(Graph* graph, const OptimizeOptions& options);

}  // namespace millrace
