// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compile/optimize/rewriter.h"
#include "graph/graph.h"
#include "millrace/status.h"

namespace millrace {

// Puts one node of _FusedElementwise in the place of pure element-wise nodes that hand their results only to
// each other, except for the last one, whose name the new node has: what they compute goes through memory
// once. A node whose tensor is wanted elsewhere (by a fetch, too), that is waited for, lies on another
// device, or is known to have another shape stays apart; what nodes of a group waited for, the new node waits
// for. Needs devices to be assigned. Returns how many nodes went.
StatusOr<int> FuseElementwise(Graph* graph, const OptimizeOptions& options);

}  // namespace millrace
