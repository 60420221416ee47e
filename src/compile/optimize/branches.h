// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compile/optimize/rewriter.h"
#include "graph/graph.h"

namespace millrace {

// Resolves conditions with known predicates: a Switch with a constant predicate passes its value on, and the
// nodes of the other branch are removed, up to the Merges, which pass on the remaining branch. A Merge
// with an input that is never dead takes that input. Loops, and branches whose deadness is visible outside
// (a dead fetch, a dead tensor that is sent), do not change. Returns the number of removed Switches and
// Merges.
int ResolveBranches(Graph* graph, const OptimizeOptions& options);

}  // namespace millrace
