// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "compile/place/cost_model.h"
#include "graph/graph.h"
#include "millrace/run_metadata.h"

namespace millrace {

// Appends the nodes of a partition with their costs in the model; their ids continue those in `out`.
void AppendCostGraph(const Graph& graph, const CostModel& model, std::vector<CostNode>* out);

}  // namespace millrace
