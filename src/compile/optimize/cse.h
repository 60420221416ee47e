// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/graph.h"
#include "millrace/status.h"

namespace millrace {

// Merges nodes that compute the same value: same op, attributes, device, inputs (in any order for commutative
// ops) and control inputs. Stateful nodes, nodes on references and never_fold nodes stay. The first in
// topological order gets the consumers of the others, which are removed. Returns their number. Linear, except
// for sorting the control inputs of each node.
StatusOr<int> EliminateCommonSubexpressions(Graph* graph);

}  // namespace millrace
