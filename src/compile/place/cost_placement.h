// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compile/place/colocation_graph.h"
#include "compile/place/placer.h"
#include "graph/graph.h"
#include "millrace/status.h"

namespace millrace {

// Placement by simulation (Abadi et al. 2015, "TensorFlow: Large-Scale Machine Learning on Heterogeneous
// Distributed Systems", 3.2.1): nodes run in the order in which their inputs are ready, one at a time on each
// device; each is placed on that device of its group where it would end first. The first node of a group
// decides. Groups with state are placed by the default rules, so that all steps agree. Nodes that the
// simulation does not reach are not placed. REQUIRES: options.costs; groups was built.
Status AssignByCost(const Graph& graph, const PlaceOptions& options, ColocationGraph* groups);

}  // namespace millrace
