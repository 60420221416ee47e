// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compile/optimize/rewriter.h"
#include "graph/graph.h"

namespace millrace {

// Removes nodes that only pass on their inputs (Identity, StopGradient, a Cast to the same type), if this
// changes nothing: not when the input is a reference (a read makes a copy), when the node transfers a value
// to another device, or when it would add as many control edges as it saves. With strip_checks checks
// (Assert) become NoOps. Returns the number of removed nodes. Linear.
int RemoveIdentities(Graph* graph, const OptimizeOptions& options);

// Removes nodes from which no side effect, result or required node can be reached. Returns their number.
// Linear.
int RemoveDeadNodes(Graph* graph, const OptimizeOptions& options);

}  // namespace millrace
