// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compile/optimize/rewriter.h"
#include "graph/graph.h"

namespace millrace {

// Conditions that are known beforehand: of a Switch whose predicate is constant the value goes through, and
// what only its other branch reaches goes, up to the Merges, which hand on the branch that is left. A Merge
// with an input that is always there takes that one. Loops, and branches whose deadness would be seen outside
// (a dead fetch, a dead tensor that is sent), stay as they are. Returns how many Switches and Merges went.
int ResolveBranches(Graph* graph, const OptimizeOptions& options);

}  // namespace millrace
