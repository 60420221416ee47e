// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compile/optimize/rewriter.h"
#include "graph/graph.h"
#include "millrace/status.h"

namespace millrace {

// First freezes variables of loops that never change (loop_variables.h). Then moves out of loops what is the
// same in every iteration: pure nodes whose inputs all enter the loop as constants, or are constants within
// it. They run once, before the loop, also when the loop then makes no trip: so only what can't fail is
// moved, which by shapes and types is certain of element-wise ops, of products, of shapes and of what
// forwards; and only results that are known not to be large, as they live as long as the loop does. What a
// node waited for its consumers wait for; what it took from the Switch of the loop's condition they take from
// one, too. Returns how many nodes were moved or went. Linear.
StatusOr<int> MoveLoopInvariants(Graph* graph, const OptimizeOptions& options);

}  // namespace millrace
