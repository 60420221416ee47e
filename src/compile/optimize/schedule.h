// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "graph/graph.h"
#include "graph/shape_refiner.h"
#include "millrace/status.h"

namespace millrace {

// The maximum bytes of live tensors when the nodes run one after the other in `order`: a tensor
// lives from its producer to its last consumer, an element-wise node computes in place of an input
// that is no longer needed, views share memory with their base, and constants, variables and
// arguments don't count. Each unknown dimension counts as `unknown_dim`; tensors of unknown rank
// count nothing.
int64_t PeakBytes(const std::vector<Node*>& order, const ShapeRefiner& shapes, int64_t unknown_dim);

// Renumbers the nodes if there is an order in which less memory is live: a walker that runs them all follows
// the numbers (see TopologicalOrderById). Unknown sizes are tried as small, medium and large: for none of
// these may the peak rise, and for one it must fall by a twentieth. Graphs with loops and very large graphs
// are not changed. Returns by how many KiB the peak fell (as far as shapes are known), at least 1 when the
// graph was changed. O(n log n).
StatusOr<int> ScheduleForMemory(std::unique_ptr<Graph>* graph);

}  // namespace millrace
