// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compile/place/colocation_graph.h"
#include "compile/place/placer.h"
#include "graph/graph.h"
#include "millrace/status.h"

namespace millrace {

// Placement by simulation (Abadi et al. 2015, "TensorFlow: Large-Scale Machine Learning on Heterogeneous
// Distributed Systems", 3.2.1): nodes run in the order in which their inputs are there, one at a time on each
// device; each goes to the device, of those that its group may use, where it would end first. A group is
// decided by the first of its nodes. Groups with state go where the default rules put them, so that all steps
// agree. Nodes that the simulation does not reach are left alone. REQUIRES: options.costs; groups was built.
Status AssignByCost(const Graph& graph, const PlaceOptions& options, ColocationGraph* groups);

}  // namespace millrace
