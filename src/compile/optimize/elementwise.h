// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compile/optimize/rewriter.h"
#include "graph/graph.h"
#include "millrace/status.h"

namespace millrace {

// Replaces a group of pure element-wise nodes whose results are only used within the group, except for the
// last one, by one _FusedElementwise node with the last one's name: it passes over memory once. A node is not
// fused if its tensor is used elsewhere (also by a fetch), if other nodes wait for it, if it is on another
// device, or is known to have another shape; the new node gets the control inputs of the group. Needs devices
// to be assigned. Returns the number of removed nodes.
StatusOr<int> FuseElementwise(Graph* graph, const OptimizeOptions& options);

}  // namespace millrace
