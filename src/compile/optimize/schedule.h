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

// The most bytes of tensors that live at the same time when the nodes run one after the other in `order`: a
// tensor lives from its producer to its last consumer, an element-wise node computes in the place of an input
// that are not needed any more, views share what they are of, and constants, variables and arguments don't
// count. Sizes that are not known count as if each unknown dimension were `unknown_dim`; tensors of unknown
// rank as nothing.
int64_t PeakBytes(const std::vector<Node*>& order, const ShapeRefiner& shapes, int64_t unknown_dim);

// Renumbers the nodes when an order is found in which they need less memory at the same time: one walker
// that runs them all follows the numbers (see TopologicalOrderById). Sizes that are not known are taken to be
// small, middling and large in turn: for none of these may the peak rise, and for one it must fall by a
// twentieth. Graphs with loops and graphs of more than a bounded size are left alone. Returns by how many KiB
// the peak fell (as far as shapes are known), at least 1 when the graph was changed. O(n log n).
StatusOr<int> ScheduleForMemory(std::unique_ptr<Graph>* graph);

}  // namespace millrace
