// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compile/optimize/rewriter.h"
#include "graph/graph.h"
#include "millrace/status.h"

namespace millrace {

// First makes constants of loop variables that never change (loop_variables.h). Then moves nodes out of loops
// that compute the same in every iteration: pure nodes whose inputs all enter the loop as constants, or are
// constants within it. They run once, before the loop, also when the loop has no iterations: so only nodes
// that can't fail are moved, which is known by shapes and types for element-wise ops, products, shapes and
// ops that forward their input; and only results that are known not to be large, as they live as long as the
// loop. Control inputs of a moved node go to its consumers; these also get inputs from a Switch of the loop's
// condition if it had one. Returns the number of moved or removed nodes. Linear.
StatusOr<int> MoveLoopInvariants(Graph* graph, const OptimizeOptions& options);

}  // namespace millrace
