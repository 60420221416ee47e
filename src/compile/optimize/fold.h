// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compile/optimize/rewriter.h"
#include "graph/graph.h"
#include "millrace/status.h"

namespace millrace {

// Replaces nodes whose inputs are all constant by their values. A constant waits for what the computation
// waited for, so that it is dead, and belongs to a frame, where the computation did. Stateful and never_fold
// nodes, references, resources and calls of functions stay. What cannot be evaluated stays, too: its error
// belongs to the run, if it is run at all. Nodes that lose their last consumer go, unless they are stateful.
// Returns how many tensors were replaced.
StatusOr<int> FoldConstants(Graph* graph, const OptimizeOptions& options);

// The same for what is computed from the shapes of tensors (Shape, Size, Rank, and what takes those apart and
// puts them together) as far as shapes are known: that needs neither tensors nor an evaluator.
StatusOr<int> MaterializeShapes(Graph* graph, const OptimizeOptions& options);

}  // namespace millrace
