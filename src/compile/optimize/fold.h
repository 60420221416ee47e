// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compile/optimize/rewriter.h"
#include "graph/graph.h"
#include "millrace/status.h"

namespace millrace {

// Replaces nodes whose inputs are all constant by their values. A constant gets the control inputs of the
// computation, so that it is dead, and belongs to a frame, if that did. Stateful and never_fold nodes,
// references, resources and calls of functions stay. Nodes that cannot be evaluated stay, too: their error
// belongs to the run. Nodes that lose their last consumer are removed, unless they are stateful. Returns the
// number of replaced tensors.
StatusOr<int> FoldConstants(Graph* graph, const OptimizeOptions& options);

// The same for values computed from the shapes of tensors (Shape, Size, Rank, and ops that split and combine
// these), as far as shapes are known: this needs neither tensors nor an evaluator.
StatusOr<int> MaterializeShapes(Graph* graph, const OptimizeOptions& options);

}  // namespace millrace
